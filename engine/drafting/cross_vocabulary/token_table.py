"""A tokenizer as what its tokens spell: bytes, in which two tokenizers of any kind can be compared.

Byte-level BPE (GPT-2's alphabet of 256 characters) and SentencePiece's way (``▁`` for a space,
``<0x0A>`` for single bytes) are read.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.checkpoints.tokenizer import file_of, named_ends, read_tokenizer, version_of
from engine.models.checkpoints.tokenizer_files import token_ids

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


class Leading(StrEnum):
    """Where a tokenizer puts a space that the text does not have."""

    NEVER = "never"
    FIRST = "first"
    ALWAYS = "always"
    """At the beginning and behind each control token."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """One tokenizer's tokens, by id.

    ``spelled``: the bytes of every ordinary token. ``control``: the names of those that stand for no
    text. ``ids``: back from bytes to the token that usually stands for them. ``bos`` and ``eos``:
    begin and end of a text, by their role. ``path``: the model's folder or GGUF file.
    """

    path: Path
    spelled: Mapping[int, bytes]
    control: Mapping[int, str]
    ids: Mapping[bytes, int]
    bos: int | None
    eos: int | None
    leading: Leading

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """The control tokens that the tokenizer puts before every text."""
        whole = self._backend.encode("a", add_special_tokens=True).ids
        bare = self.encode("a")
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return tuple(whole[:start])
        return ()

    def encode(self, text: str) -> list[int]:
        """``text`` in tokens as if it stood in the middle of another; control tokens by name."""
        found: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return found

    def encode_bytes(self, data: bytes | bytearray) -> list[int] | None:
        """Like ``encode``; a character unfinished at the end goes byte by byte.

        None where the vocabulary has no tokens for single bytes. Bytes that make no character
        become U+FFFD.
        """
        text, rest = split_unfinished(data)
        tokens = self.encode(text) if text else []
        tail = [self.ids.get(bytes([byte])) for byte in rest]
        known = [token for token in tail if token is not None]
        return tokens + known if len(known) == len(tail) else None

    @cached_property
    def _backend(self) -> Any:
        """The tokenizer, without an added space. Parsed when it is first needed: it takes a while."""
        from tokenizers import Tokenizer

        _, raw = _without_leading_space(read_tokenizer(self.path))
        try:
            return Tokenizer.from_str(json.dumps(raw))
        except Exception as error:  # the parser raises nothing more precise
            raise ModelError(
                f"{file_of(self.path)} cannot be read: {error}. Download the file again, or update "
                "the package 'tokenizers'."
            ) from error


def split_unfinished(data: bytes | bytearray) -> tuple[str, bytes]:
    """The text of ``data``, and the bytes at its end that may still become a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(bytes(data)), decoder.getstate()[0]


def read_token_table(path: Path) -> TokenTable:
    """Return the tokens of the tokenizer in ``path``, a model's folder or GGUF file.

    Raises ModelError where there is no tokenizer.json, or one of another kind.
    """
    path = Path(path)
    version = version_of(path)
    if version is None:
        raise ModelError(
            f"{path} has no tokenizer.json, without which its vocabulary cannot be compared with "
            "another. Download that file too, if it was published."
        )
    return _read(path, version)


@lru_cache(maxsize=2)
def _read(path: Path, _version: tuple[int, int]) -> TokenTable:
    """Cached by time and size: a large vocabulary takes a second to read, and much memory to keep."""
    content = read_tokenizer(path)
    spell = _spelling(path, content)
    added = content.get("added_tokens") or []
    control = {int(one["id"]): str(one["content"]) for one in added if one.get("special")}
    plain = {int(one["id"]): str(one["content"]) for one in added if not one.get("special")}
    spelled = {
        number: spell(token)
        for token, number in token_ids(content["model"]).items()
        if number not in control and number not in plain
    }
    spelled.update((number, token.encode()) for number, token in plain.items())
    numbers = {name: number for number, name in control.items()}
    bos, eos = (numbers.get(name or "") for name in named_ends(path))
    leading, _ = _without_leading_space(content)
    return TokenTable(
        path=path,
        spelled=spelled,
        control=control,
        ids=_by_bytes(spelled),
        bos=bos,
        eos=eos,
        leading=leading,
    )


def _by_bytes(spelled: Mapping[int, bytes]) -> dict[bytes, int]:
    """From bytes to the one token that usually stands for them.

    SentencePiece's tokens for single bytes come first in its files, and are used only where no token
    of a character spells the byte.
    """
    ids: dict[bytes, int] = {}
    for number in sorted(spelled):
        data = spelled[number]
        if data and (data not in ids or (len(data) == 1 and data < b"\x80")):
            ids[data] = number
    return ids


def _spelling(path: Path, content: dict[str, Any]) -> Callable[[str], bytes]:
    """The function from a token's name to its bytes. Raises ModelError for a kind not known."""
    model = content["model"]
    parts = list(_parts(content, "normalizer", "pre_tokenizer", "decoder"))
    kinds = {part.get("type") for part in parts}
    marked = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    if "ByteLevel" in kinds and not marked:
        table = str.maketrans(_byte_alphabet())
        return lambda token: _latin(token, table)
    spaces = any(_SPACE in json.dumps(part, ensure_ascii=False) for part in parts)
    if ("Metaspace" in kinds or spaces) and not marked:
        return _sentencepiece
    raise ModelError(
        f"{file_of(path)} is a {model.get('type', 'tokenizer')} that is neither byte-level BPE "
        "nor of SentencePiece's kind, so what its tokens spell is not known."
    )


def _latin(token: str, table: dict[int, str]) -> bytes:
    """A token in the byte-level alphabet; one outside it (an addition) spells itself."""
    mapped = token.translate(table)
    try:
        return mapped.encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def _sentencepiece(token: str) -> bytes:
    if byte := _BYTE.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace(_SPACE, " ").encode("utf-8", "replace")


def _byte_alphabet() -> dict[str, str]:
    """Character to byte (as a Latin-1 character) of GPT-2's byte-level alphabet."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    characters = {chr(byte): chr(byte) for byte in visible}
    characters.update((chr(256 + number), chr(byte)) for number, byte in enumerate(hidden))
    return characters


def _parts(content: dict[str, Any], *names: str) -> Iterator[dict[str, Any]]:
    """The normalizers, pre-tokenizers or decoders, those in sequences one by one."""
    for name in names:
        yield from _flat(content.get(name))


def _flat(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if part is None:
        return
    inside = next((part[key] for key in _SEQUENCES if key in part), None)
    if inside is None:
        yield part
    else:
        for one in inside:
            yield from _flat(one)


_SEQUENCES = ("normalizers", "pretokenizers", "decoders")


def _without_leading_space(content: dict[str, Any]) -> tuple[Leading, dict[str, Any]]:
    """Where the tokenizer adds a space, and a copy of its file that adds none, cuts and pads none."""
    raw = deepcopy({key: value for key, value in content.items() if key != "model"})
    raw |= {"model": content["model"], "truncation": None, "padding": None}
    leading = Leading.NEVER
    for part in _parts(raw, "normalizer", "pre_tokenizer"):
        match part.get("type"):
            case "Prepend" if part.get("prepend") == _SPACE:
                part["prepend"] = ""
                leading = Leading.ALWAYS
            case "Metaspace":
                old = Leading.ALWAYS if part.pop("add_prefix_space", True) else Leading.NEVER
                leading = Leading(part.get("prepend_scheme", old))
                part["prepend_scheme"] = "never"
            case "ByteLevel" if part.get("add_prefix_space", True):
                part["add_prefix_space"] = False
                leading = Leading.FIRST
    return leading, raw
