"""The list of tokens in a GGUF file's metadata, checked: one text for each id, each text once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.models.checkpoints.gguf.tokenizers.token_types import TokenType


@dataclass(frozen=True, slots=True, eq=False)
class ListedTokens:
    """``texts[id]`` and ``types[id]`` of every token; ``ids`` the other way round.

    ``ids`` lacks the tokens that the converter invented for rows of the embedding that have none.
    """

    texts: list[str]
    types: NDArray[np.int64]  # (tokens,), values of TokenType
    ids: dict[str, int]

    def of(self, *types: TokenType) -> list[int]:
        """The ids of these types, ascending."""
        found: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return found


def setting(metadata: Mapping[str, Any], name: str) -> Any:
    """``tokenizer.ggml.<name>``; None where the file does not say."""
    return metadata.get(f"tokenizer.ggml.{name}")


def listed_texts(metadata: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; empty where the file has none. Raises ModelError for anything else."""
    found = setting(metadata, name)
    texts = [] if found is None else found
    if not isinstance(texts, list | tuple | np.ndarray) or not set(map(type, texts)) <= {
        str,
        np.str_,
    }:
        raise broken(f"tokenizer.ggml.{name} is no list of texts")
    return list(texts)


def listed_numbers(metadata: Mapping[str, Any], name: str) -> NDArray[Any] | None:
    """A list of numbers; None where the file has none. Raises ModelError for anything else."""
    found = setting(metadata, name)
    numbers = np.asarray([] if found is None else found)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iuf"):
        raise broken(f"tokenizer.ggml.{name} is no list of numbers")
    return None if found is None else numbers


def read_tokens(metadata: Mapping[str, Any]) -> ListedTokens:
    """Raises ModelError for a file without tokens, or whose lists contradict each other."""
    texts = listed_texts(metadata, "tokens")
    if not texts:
        raise broken("it lists no tokens (tokenizer.ggml.tokens)")
    stated = listed_numbers(metadata, "token_type")
    types = np.full(len(texts), TokenType.NORMAL) if stated is None else stated
    if types.shape != (len(texts),):
        raise broken(f"it has {len(texts):,} tokens, but {types.size:,} types of tokens")
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


def broken(reason: str) -> ModelError:
    """For a tokenizer that cannot be what was converted."""
    return ModelError(
        f"The tokenizer in the file cannot be used: {reason}. Download the file again, or take another "
        "conversion of the model."
    )
