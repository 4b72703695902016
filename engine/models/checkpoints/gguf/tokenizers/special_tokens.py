"""The tokens and merges in a GGUF file's metadata, checked, and the tokens that begin and end a text
or end a reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE

from engine.errors import ModelError
from engine.models.checkpoints.gguf.tokenizers.pre_tokenizer import (
    PreTokenizer,
    pre_tokenizer_named,
)

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


SENTENCEPIECE, BYTE_LEVEL, GEMMA4 = "llama", "gpt2", "gemma4"
"""Kinds of tokenizers (``tokenizer.ggml.model``)."""

_END_OF_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
)  # fmt: skip
"""Names of tokens that end a turn, if the file does not say which does; the first present one counts."""
_END_OF_MESSAGE = "<|eom_id|>"
_FILL_IN = (
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>",
)  # fmt: skip
"""Separators of files in fill-in-the-middle prompts: what follows one is no part of the reply."""
_ENDS = frozenset(
    (
        *_END_OF_TURN, *_FILL_IN, _END_OF_MESSAGE, "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
        "[EOS]", "<eos>", "<turn|>", "<|tool_response>",
    )
)  # fmt: skip
"""Names of tokens that end a reply, as llama.cpp collects them."""
_CLOSES = "</s>"
"""Ends a reply where it is a control token; Gemma has it for struck-out text in HTML."""
_HARMONY = (frozenset({"<|return|>", "<|call|>"}), frozenset({"<|calls|>", "<|flush|>"}))
"""If a model has both of a pair, ``<|end|>`` ends a message of the reply, not the reply."""

_BY_DEFAULT = {SENTENCEPIECE: {"bos": 1, "eos": 2}}
"""Ids that a kind of tokenizer implies if the file does not say."""


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token's id and text."""

    id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """None for a token that the model lacks. ``ends``: every id that ends a reply, ascending.

    ``eot`` ends a turn, ``eom`` a message after which a tool answers. ``adds_bos`` and ``adds_eos`` apply
    to a text that no chat template made.
    """

    bos: SpecialToken | None
    eos: SpecialToken | None
    eot: SpecialToken | None
    eom: SpecialToken | None
    ends: tuple[int, ...]
    adds_bos: bool
    adds_eos: bool


def pre_tokenizer_of(metadata: Mapping[str, Any]) -> PreTokenizer | None:
    """Return the file's pre-tokenizer; None for SentencePiece, which has none. Raises ModelError that
    names an unknown kind of tokenizer or pre-tokenizer."""
    kind = setting(metadata, "model")
    if kind is None:
        raise ModelError(
            "The file has no tokenizer (tokenizer.ggml.model). Choose another conversion "
            "of the model."
        )
    if kind not in (BYTE_LEVEL, SENTENCEPIECE, GEMMA4):
        raise ModelError(
            f"The file's tokenizer type {kind!r} (tokenizer.ggml.model) is not supported; "
            f"supported are {BYTE_LEVEL}, {SENTENCEPIECE} and {GEMMA4}. Use the model's "
            "safetensors instead."
        )
    if kind != BYTE_LEVEL:
        return None
    return pre_tokenizer_named(str(setting(metadata, "pre") or "default"))


def special_tokens(
    metadata: Mapping[str, Any], listed: ListedTokens | None = None
) -> SpecialTokens:
    """Return the special tokens of a file, which is read unless its ``listed`` tokens are given.

    Raises ModelError as ``read_tokens`` and ``pre_tokenizer_of``.
    """
    tokens = listed or read_tokens(metadata)
    pre_tokenizer = pre_tokenizer_of(metadata)

    def named(key: str) -> SpecialToken | None:
        implied = _BY_DEFAULT.get(str(setting(metadata, "model")), {}).get(key)
        for number in (setting(metadata, f"{key}_token_id"), implied):
            # An id outside of the list is ignored, as llama.cpp does.
            if isinstance(number, int | np.integer) and 0 <= number < len(tokens.texts):
                return SpecialToken(int(number), tokens.texts[number])
        return None

    bos, eos = named("bos"), named("eos")
    eot = named("eot") or _first(tokens, _END_OF_TURN)
    eom = named("eom") or _first(tokens, (_END_OF_MESSAGE,))
    return SpecialTokens(
        bos=bos,
        eos=eos,
        eot=eot,
        eom=eom,
        ends=_ends(tokens, eos, eot, eom),
        adds_bos=bos is not None and _adds_bos(metadata, pre_tokenizer),
        adds_eos=eos is not None and bool(setting(metadata, "add_eos_token")),
    )


def _special(tokens: ListedTokens, name: str) -> int | None:
    """Return the token's id, unless it is ordinary text: Qwen's vocabulary has a piece "</s>"."""
    number = tokens.ids.get(name)
    return None if number is None or tokens.types[number] == TokenType.NORMAL else number


def _first(tokens: ListedTokens, names: Iterable[str]) -> SpecialToken | None:
    for name in names:
        number = _special(tokens, name)
        if number is not None:
            return SpecialToken(number, name)
    return None


def _ends(tokens: ListedTokens, *stated: SpecialToken | None) -> tuple[int, ...]:
    names = {name for name in _ENDS if _special(tokens, name) is not None}
    closing = tokens.ids.get(_CLOSES)
    if closing is not None and tokens.types[closing] == TokenType.CONTROL:
        names.add(_CLOSES)
    ids = {tokens.ids[name] for name in names} | {one.id for one in stated if one is not None}
    if any(pair <= names for pair in _HARMONY):
        ids.discard(tokens.ids.get("<|end|>", -1))
    return tuple(sorted(ids))


def _adds_bos(metadata: Mapping[str, Any], pre_tokenizer: PreTokenizer | None) -> bool:
    kind, stated = setting(metadata, "model"), setting(metadata, "add_bos_token")
    if kind == GEMMA4:
        return True  # some files deny it
    if stated is not None:
        return bool(stated)
    return True if pre_tokenizer is None else pre_tokenizer.adds_bos
