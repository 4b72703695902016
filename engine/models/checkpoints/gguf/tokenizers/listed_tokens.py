"""The tokens and merges in a GGUF file's metadata, checked: one text for each id, each text once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE

from engine.errors import ModelError

Merge = tuple[str, str]


class TokenType(IntEnum):
    """The type of a token (``tokenizer.ggml.token_type``), by llama.cpp's numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, eq=False)
class ListedTokens:
    """``texts[id]`` and ``types[id]`` of every token, and ``ids`` by text.

    ``ids`` lacks the tokens that the converter invented for rows of the embedding that have none.
    """

    texts: list[str]
    types: NDArray[np.int64]  # (tokens,), values of TokenType
    ids: dict[str, int]

    def of(self, *types: TokenType) -> list[int]:
        """Return the ids of these types, ascending."""
        ids: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return ids


def setting(metadata: Mapping[str, Any], name: str) -> Any:
    """Return ``tokenizer.ggml.<name>``; None if the file does not have it."""
    return metadata.get(f"tokenizer.ggml.{name}")


def listed_texts(metadata: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts, empty if the file has none. Raises ModelError for anything else."""
    stated = setting(metadata, name)
    texts = [] if stated is None else stated
    is_list = isinstance(texts, list | tuple | np.ndarray)
    if not is_list or not set(map(type, texts)) <= {str, np.str_}:
        raise broken(f"tokenizer.ggml.{name} is not a list of texts")
    return list(texts)


def listed_numbers(metadata: Mapping[str, Any], name: str) -> NDArray[Any] | None:
    """Return a list of numbers, None if the file has none. Raises ModelError for anything else."""
    stated = setting(metadata, name)
    numbers = np.asarray([] if stated is None else stated)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iuf"):
        raise broken(f"tokenizer.ggml.{name} is not a list of numbers")
    return None if stated is None else numbers


def listed_merges(metadata: Mapping[str, Any]) -> list[Merge]:
    """Return the pairs to merge, in order. Raises ModelError if there are none."""
    merges = listed_texts(metadata, "merges")
    if not merges:
        raise broken("it lists no merges (tokenizer.ggml.merges)")
    return [tuple(merge.split(" ", 1)) for merge in merges]  # type: ignore[misc]  # BPE counts them


def read_tokens(metadata: Mapping[str, Any]) -> ListedTokens:
    """Return the file's tokens. Raises ModelError if there are none or its lists contradict."""
    texts = listed_texts(metadata, "tokens")
    if not texts:
        raise broken("it lists no tokens (tokenizer.ggml.tokens)")
    stated = listed_numbers(metadata, "token_type")
    types = np.full(len(texts), TokenType.NORMAL) if stated is None else stated
    if types.shape != (len(texts),):
        raise broken(f"it has {len(texts):,} tokens, but {types.size:,} token types")
    ids = _numbered(texts)
    if "" in ids:  # llama.cpp's name for tokens without text
        texts = [text or f"[EMPTY_{number}]" for number, text in enumerate(texts)]
        ids = _numbered(texts)
    if len(ids) != len(texts):
        twice = next(text for number, text in enumerate(texts) if ids[text] != number)
        raise broken(f"the token {twice!r} is listed twice")
    tokens = ListedTokens(texts, types.astype(np.int64), ids)
    for number in tokens.of(TokenType.UNUSED):
        if texts[number] == f"[PAD{number}]":
            del ids[texts[number]]
    return tokens


def _numbered(texts: list[str]) -> dict[str, int]:
    return dict(zip(texts, range(len(texts)), strict=True))


def make_bpe(ids: dict[str, int], merges: list[Merge], **options: Any) -> BPE:
    """Return ``tokenizers``' BPE. Raises ModelError for merges that do not belong to the tokens."""
    try:
        return BPE(ids, merges, **options)
    except Exception as error:  # tokenizers raises no narrower type
        raise broken(f"its merges do not match its tokens ({error})") from error


def broken(reason: str) -> ModelError:
    """Return the ModelError for a tokenizer that cannot be what was converted."""
    return ModelError(
        f"The file's tokenizer cannot be used: {reason}. Download the file again, or "
        "choose another conversion of the model."
    )
