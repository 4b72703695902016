"""Compare tokenizers by vocabulary, merges and added tokens, read from their files.

Two tokenizers split text alike only if all three agree; chat templates and class names do not matter.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.errors import MALFORMED, ModelError, what_failed
from engine.models.checkpoints.gguf.description import describe, is_gguf
from engine.models.checkpoints.gguf.tokenizers.special_tokens import TokenType
from engine.models.checkpoints.tokenizer import read_tokenizer, version_of
from engine.models.checkpoints.tokenizer_folder import FILE

_OLDER_FILES = (
    "tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tekken.json",
)  # fmt: skip
_ORDINARY = (TokenType.NORMAL, TokenType.BYTE)
_ADDED = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED)
_TOKENIZER_KEYS = tuple(
    f"tokenizer.ggml.{key}" for key in ("model", "pre", "tokens", "token_type", "merges", "scores")
)
_SPARE = re.compile(r"<\|?(reserved|SPECIAL_|unused).*>")


@dataclass(frozen=True, slots=True)
class TokenizerSignature:
    """A tokenizer, condensed. Digests are of the sorted content, so key order does not matter.

    ``tokens`` counts vocabulary and added tokens; ``highest_id`` is the vocabulary's own, without
    added tokens, and None for formats that are compared as whole files only.
    """

    path: Path
    tokens: int
    highest_id: int | None
    vocabulary: str
    merges: str
    added: tuple[tuple[int, str], ...]

    def difference(
        self, other: TokenizerSignature, *, below: int, vital: frozenset[int] = frozenset()
    ) -> str | None:
        """Return how the tokenizers differ, as half a sentence; None if they are the same.

        Added tokens from id ``below`` on do not count: one of the models has no row for them. A reserved
        token of one may have a name in the other, unless it is ``vital``.
        """
        if self.vocabulary != other.vocabulary:
            return _vocabulary_difference(self, other)
        if self.merges != other.merges:
            return "they have the same tokens but different merges"
        return _added_difference(dict(self.added), dict(other.added), below, vital)


def listed_alike(one: Path, other: Path) -> bool:
    """Return whether both are GGUF files with the same tokenizer byte for byte; False proves nothing.

    Files of sister models mostly do, and comparing signatures of 150,000 tokens takes most of a second.
    """
    if not (is_gguf(one) and is_gguf(other)):
        return False
    ours, theirs = describe(one).metadata, describe(other).metadata
    return all(ours.raw(key) == theirs.raw(key) for key in _TOKENIZER_KEYS)


def tokenizer_signature(path: Path) -> TokenizerSignature:
    """Return the signature of the tokenizer of a folder or GGUF file. Raises ModelError if there is none
    or it is broken."""
    path = Path(path)
    version = version_of(path)
    return _older(path) if version is None else _signature(path, version)


@lru_cache(maxsize=64)
def _signature(path: Path, _version: tuple[int, int]) -> TokenizerSignature:
    """Cached by time and size: a vocabulary of 250,000 tokens takes a second to parse."""
    if is_gguf(path):
        return _of_metadata(path, describe(path).metadata)
    content = read_tokenizer(path)
    model, listed = content["model"], content.get("added_tokens") or []
    try:
        added = {int(token["id"]): str(token["content"]) for token in listed}
        ids, merges = token_ids(model), merge_texts(model)
    except MALFORMED as error:
        raise ModelError(
            f"{path / FILE} is not a tokenizer ({what_failed(error)}). Download the file again."
        ) from error
    base = {token: number for token, number in ids.items() if added.get(number) != token}
    tokens = len(set(ids.values()) | added.keys())
    return _condensed(path, tokens, base, merges, added)


def _of_metadata(file: Path, metadata: Mapping[str, Any]) -> TokenizerSignature:
    """Return the signature of the published tokenizer.json, if that is of the same kind."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types = metadata.get("tokenizer.ggml.token_type") or [TokenType.NORMAL] * len(tokens)
    listed = list(enumerate(zip(tokens, types, strict=True)))
    base = {token: number for number, (token, kind) in listed if kind in _ORDINARY}
    added = {number: token for number, (token, kind) in listed if kind in _ADDED}
    merges = metadata.get("tokenizer.ggml.merges") or []
    return _condensed(file, len(base) + len(added), base, merges, added)


def _condensed(
    path: Path, tokens: int, base: dict[str, int], merges: list[str], added: dict[int, str]
) -> TokenizerSignature:
    return TokenizerSignature(
        path=path,
        tokens=tokens,
        highest_id=max(base.values(), default=0),
        vocabulary=_digest(sorted(base.items(), key=lambda item: item[1])),
        merges=_digest(merges),
        added=tuple(sorted(added.items())),
    )


def token_ids(model: dict[str, Any]) -> dict[str, int]:
    """Return the ids of a tokenizer's ``model`` by token; a unigram model lists its tokens in order."""
    vocabulary = model.get("vocab") or {}
    if isinstance(vocabulary, list):
        return {str(entry[0]): number for number, entry in enumerate(vocabulary)}
    return {str(token): int(number) for token, number in vocabulary.items()}


def merge_texts(model: Mapping[str, Any]) -> list[str]:
    """Return the merges of a tokenizer's ``model``, written 'a b' or ['a', 'b'], as 'a b'."""
    merges = model.get("merges") or []
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()


def _older(folder: Path) -> TokenizerSignature:
    files = [folder / name for name in _OLDER_FILES if (folder / name).is_file()]
    if not files:
        raise ModelError(
            f"{folder} has no tokenizer ({FILE}). Download the tokenizer files that were "
            "published with the weights."
        )
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return TokenizerSignature(folder, 0, None, digest.hexdigest(), "", ())


def _vocabulary_difference(ours: TokenizerSignature, theirs: TokenizerSignature) -> str:
    if ours.highest_id is None or theirs.highest_id is None:
        return "their tokenizer files differ"
    mine, other = _texts(ours.path), _texts(theirs.path)
    differing = [
        number
        for number in sorted(mine.keys() | other.keys())
        if mine.get(number) != other.get(number)
    ]
    first = differing[0] if differing else 0
    return (
        f"{len(differing):,} token ids differ, first {first} "
        f"({_quoted(mine.get(first))} and {_quoted(other.get(first))})"
    )


def _texts(path: Path) -> dict[int, str]:
    """Return the vocabulary's tokens by id."""
    return {number: token for token, number in token_ids(read_tokenizer(path)["model"]).items()}


def _added_difference(
    ours: dict[int, str], theirs: dict[int, str], below: int, vital: frozenset[int]
) -> str | None:
    for number in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(number), theirs.get(number)
        spare = number not in vital and (_is_spare(mine) or _is_spare(other))
        if number < below and mine != other and not spare:
            return (
                f"special token {number} is {_quoted(mine)} in the target and "
                f"{_quoted(other)} in the draft"
            )
    return None


def _is_spare(token: str | None) -> bool:
    """Return whether a token is reserved for later; a sister model may have given it a name."""
    return token is not None and _SPARE.fullmatch(token) is not None


def _quoted(token: str | None) -> str:
    return "absent" if token is None else repr(token)
