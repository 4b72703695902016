"""Convert the target's text into the draft's tokens as it grows, and drafted text back.

The text is split into runs of some dozen bytes, before a space, and each run is tokenised alone. The
splits depend on the text's bytes only. So a finished run stays as it is, the cost per token does not grow
with the text, and the tokens do not depend on how the text arrived. (transformers' universal assisted
decoding looks back over a fixed number of tokens to the same end.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.drafting.cross_vocabulary.token_table import (
    LeadingSpace,
    TokenTable,
    VocabularyMap,
    split_unfinished,
)

_SHORTEST, _LONGEST = 48, 256
"""Bytes of a run. It ends before the first space between these, else within a word."""
_BORDER = re.compile(rb"(?<=\S) ")


class RetokenizedText:
    """The target's text in the draft's tokens."""

    def __init__(self, vocabularies: VocabularyMap) -> None:
        self.vocabularies = vocabularies
        self.settled: list[int] = list(vocabularies.draft.opening)
        """Tokens of the finished runs; they only grow."""
        self._open = bytearray()  # the unfinished run
        self._begins = True  # no bytes so far
        self._after_control = True

    def extend(self, tokens: Sequence[int]) -> None:
        """Append ``tokens`` of the target."""
        for token in tokens:
            self._open += self._bytes_of(token)
        while (end := _run_end(self._open)) is not None:
            self.settled += _encode_run(self.vocabularies.draft, self._open[:end])
            del self._open[:end]

    def unsettled(self) -> list[int] | None:
        """Return the tokens after ``settled``; None if the draft cannot spell an unfinished character."""
        return self.vocabularies.draft.encode_bytes(self._open)

    def _bytes_of(self, token: int) -> bytes:
        """Return what ``token`` of the target adds to the draft's text."""
        target, draft = self.vocabularies.target, self.vocabularies.draft
        name = target.control.get(token)
        if name is not None:
            first, self._after_control = self._begins, True
            if first and token == target.bos:
                return b""  # the draft has its own opening
            self._begins = False
            if token == target.eos and draft.eos is not None and name not in draft.control.values():
                name = draft.control[draft.eos]
            return name.encode()
        data = target.token_bytes.get(token, b"")
        if self._after_control and _adds_space(target.leading_space, self._begins):
            data = data.removeprefix(b" ")
        if self._begins and draft.leading_space is not LeadingSpace.NEVER:
            data = b" " + data
        self._begins = self._after_control = False
        return data


def target_tokens(vocabularies: VocabularyMap, drafted: Sequence[int], *, ended: bool) -> list[int]:
    """Return drafted text in tokens of the target: string-level exact match (arXiv 2502.05202).

    The text before ``drafted`` keeps its tokens, so the drafted text is tokenised alone. Its last token
    is left out, because more text could change it, unless the draft has ``ended``.
    """
    target, draft = vocabularies.target, vocabularies.draft
    data = b"".join(draft.token_bytes.get(token, b"") for token in drafted)
    inside = _continuation_length(data)
    head = [target.ids.get(bytes([byte])) for byte in data[:inside]]
    if None in head:
        return []
    text, _ = split_unfinished(data[inside:])
    valid = text.partition("\ufffd")[0]
    tokens = [token for token in head if token is not None] + target.encode(valid)
    return tokens if ended and valid == text else tokens[:-1]


def _continuation_length(data: bytes) -> int:
    """Return how many bytes at the beginning belong to a character that began before."""
    return next((at for at, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(len(data), 3))


def _adds_space(leading_space: LeadingSpace, begins: bool) -> bool:
    return leading_space is LeadingSpace.ALWAYS or (begins and leading_space is LeadingSpace.FIRST)


def _encode_run(draft: TokenTable, run: bytearray) -> list[int]:
    """Return a finished run's tokens. Invalid bytes become U+FFFD if the draft has no byte tokens."""
    tokens = draft.encode_bytes(run)
    return draft.encode(run.decode(errors="replace")) if tokens is None else tokens


def _run_end(data: bytearray) -> int | None:
    """Return where the first run of ``data`` ends; None if more text decides that."""
    if border := _BORDER.search(data, _SHORTEST, _LONGEST):
        return border.start()
    if len(data) <= _LONGEST:
        return None
    end = _LONGEST
    while data[end] & 0xC0 == 0x80 and end > _LONGEST - 4:
        end -= 1
    return end
