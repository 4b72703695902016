"""The bytes of a tokenizer's tokens, by which two vocabularies are compared.

Reads byte-level BPE (GPT-2's alphabet of 256 characters) and SentencePiece's format (``▁`` for a space,
``<0x0A>`` for single bytes).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from engine.errors import ModelError, what_failed
from engine.models.checkpoints.tokenizer import file_of, named_ends, read_tokenizer, version_of
from engine.models.checkpoints.tokenizer_files import token_ids

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


class LeadingSpace(StrEnum):
    """Where a tokenizer adds a space to the text."""

    NEVER = "never"
    FIRST = "first"
    ALWAYS = "always"
    """At the beginning and after each control token."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """One tokenizer's tokens, by id.

    ``token_bytes``: the bytes of every ordinary token. ``control``: the names of control tokens. ``ids``:
    the usual token of given bytes. ``path``: the model's folder or GGUF file.
    """

    path: Path
    token_bytes: Mapping[int, bytes]
    control: Mapping[int, str]
    ids: Mapping[bytes, int]
    bos: int | None
    eos: int | None
    leading_space: LeadingSpace

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """The control tokens that the tokenizer adds before every text."""
        whole = self._backend.encode("a", add_special_tokens=True).ids
        bare = self.encode("a")
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return tuple(whole[:start])
        return ()

    def encode(self, text: str) -> list[int]:
        """Tokenise ``text`` as if it continued another text; control tokens by name."""
        tokens: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return tokens

    def encode_bytes(self, data: bytes | bytearray) -> list[int] | None:
        """Tokenise ``data``; an unfinished character at the end becomes byte tokens.

        Return None if the vocabulary lacks these. Other invalid bytes become U+FFFD.
        """
        text, rest = split_unfinished(data)
        tokens = self.encode(text) if text else []
        byte_tokens = [self.ids[bytes([byte])] for byte in rest if bytes([byte]) in self.ids]
        return tokens + byte_tokens if len(byte_tokens) == len(rest) else None

    @cached_property
    def _backend(self) -> Any:
        """The tokenizer, without an added space; parsed at its first use, because that is slow."""
        from tokenizers import Tokenizer

        _, raw = _without_leading_space(read_tokenizer(self.path))
        try:
            return Tokenizer.from_str(json.dumps(raw))
        except Exception as error:  # the parser raises nothing more precise
            raise ModelError(
                f"{file_of(self.path)} cannot be read: {what_failed(error)}. Download the "
                "file again, or update the package 'tokenizers'."
            ) from error


def split_unfinished(data: bytes | bytearray) -> tuple[str, bytes]:
    """Return the text of ``data``, and the bytes of an unfinished character at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(bytes(data)), decoder.getstate()[0]


def read_token_table(path: Path) -> TokenTable:
    """Return the tokens of the tokenizer in ``path``, a model's folder or GGUF file.

    Raises ModelError if there is no tokenizer.json, or one of another kind.
    """
    path = Path(path)
    version = version_of(path)
    if version is None:
        raise ModelError(
            f"{path} has no tokenizer.json, so its vocabulary cannot be compared. Download "
            "that file too, if it was published."
        )
    return _read(path, version)


@lru_cache(maxsize=2)
def _read(path: Path, _version: tuple[int, int]) -> TokenTable:
    """Return the table. Cached by version: a large one takes a second to read, and much memory."""
    content = read_tokenizer(path)
    spell = _spelling(path, content)
    token_bytes = {number: spell(token) for token, number in token_ids(content["model"]).items()}
    control: dict[int, str] = {}
    for added in content.get("added_tokens") or []:
        number, token = int(added["id"]), str(added["content"])
        if added.get("special"):
            control[number] = token
            token_bytes.pop(number, None)
        else:
            token_bytes[number] = token.encode()
    numbers = {name: number for number, name in control.items()}
    bos, eos = (numbers.get(name or "") for name in named_ends(path))
    leading_space, _ = _without_leading_space(content)
    return TokenTable(
        path=path,
        token_bytes=token_bytes,
        control=control,
        ids=_by_bytes(token_bytes),
        bos=bos,
        eos=eos,
        leading_space=leading_space,
    )


def _by_bytes(token_bytes: Mapping[int, bytes]) -> dict[bytes, int]:
    """Return the usual token of each byte string.

    SentencePiece's byte tokens come first in its files; a token of the character replaces them.
    """
    ids: dict[bytes, int] = {}
    for number in sorted(token_bytes):
        data = token_bytes[number]
        if data and (data not in ids or (len(data) == 1 and data < b"\x80")):
            ids[data] = number
    return ids


def _spelling(path: Path, content: dict[str, Any]) -> Callable[[str], bytes]:
    """Return the function from a token's name to its bytes. Raises ModelError for an unknown kind."""
    model = content["model"]
    parts = list(_parts(content.get(step) for step in _STEPS))
    kinds = {part.get("type") for part in parts}
    marked = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    if "ByteLevel" in kinds and not marked:
        table = _byte_alphabet()
        return lambda token: _latin(token, table)
    spaces = any(_SPACE in json.dumps(part, ensure_ascii=False) for part in parts)
    if ("Metaspace" in kinds or spaces) and not marked:
        return _sentencepiece
    raise ModelError(
        f"{file_of(path)} is a {model.get('type', 'tokenizer')}, neither byte-level BPE "
        "nor SentencePiece, so the text of its tokens is unknown."
    )


def _latin(token: str, table: dict[int, str]) -> bytes:
    """Return the bytes of a token in the byte-level alphabet; an added token outside it is UTF-8."""
    mapped = token.translate(table)
    try:
        return mapped.encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def _sentencepiece(token: str) -> bytes:
    if byte := _BYTE.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace(_SPACE, " ").encode("utf-8", "replace")


def _byte_alphabet() -> dict[int, str]:
    """Return GPT-2's byte-level alphabet as a translation table to bytes, as Latin-1 characters."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {256 + n: chr(b) for n, b in enumerate(hidden)}


_STEPS = ("normalizer", "pre_tokenizer", "decoder")
_SEQUENCES = ("normalizers", "pretokenizers", "decoders")


def _parts(steps: Iterable[dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """Yield the normalizers, pre-tokenizers or decoders in ``steps``, with sequences flattened."""
    for step in steps:
        if step is not None:
            inside = next((step[key] for key in _SEQUENCES if key in step), None)
            yield from [step] if inside is None else _parts(inside)


def _without_leading_space(content: dict[str, Any]) -> tuple[LeadingSpace, dict[str, Any]]:
    """Return where the tokenizer adds a space, and its file without that, truncation and padding."""
    raw = deepcopy({key: value for key, value in content.items() if key != "model"})
    raw |= {"model": content["model"], "truncation": None, "padding": None}
    leading_space = LeadingSpace.NEVER
    for part in _parts(raw.get(step) for step in _STEPS[:2]):
        match part.get("type"):
            case "Prepend" if part.get("prepend") == _SPACE:
                part["prepend"] = ""
                leading_space = LeadingSpace.ALWAYS
            case "Metaspace":
                default = "always" if part.pop("add_prefix_space", True) else "never"
                leading_space = LeadingSpace(part.get("prepend_scheme", default))
                part["prepend_scheme"] = "never"
            case "ByteLevel" if part.get("add_prefix_space", True):
                part["add_prefix_space"] = False
                leading_space = LeadingSpace.FIRST
    return leading_space, raw


@dataclass(frozen=True, slots=True)
class Shared:
    """Sizes of two vocabularies, and of their intersection ``tokens``."""

    tokens: int
    target: int
    draft: int

    @property
    def of_target(self) -> float:
        """The fraction of the target's tokens that the draft has too."""
        return self.tokens / max(self.target, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """The tokens of a target and of its draft."""

    target: TokenTable
    draft: TokenTable
    shared: Shared


def map_vocabularies(
    target: TokenTable, draft: TokenTable, *, target_rows: int, draft_rows: int
) -> VocabularyMap:
    """Compare two vocabularies; ``rows``: the number of ids for which each model has logits."""
    ours = {data for data, token in target.ids.items() if token < target_rows}
    theirs = {data for data, token in draft.ids.items() if token < draft_rows}
    shared = Shared(len(ours & theirs), _tokens(target, target_rows), _tokens(draft, draft_rows))
    return VocabularyMap(target, draft, shared)


def read_map(target: Path, draft: Path, *, target_rows: int, draft_rows: int) -> VocabularyMap:
    """Compare the tokenizers of two models, each a folder or a GGUF file.

    Raises ModelError as ``read_token_table``.
    """
    tables = read_token_table(target), read_token_table(draft)
    return map_vocabularies(*tables, target_rows=target_rows, draft_rows=draft_rows)


def _tokens(table: TokenTable, rows: int) -> int:
    return sum(token < rows for token in (*table.token_bytes, *table.control))
