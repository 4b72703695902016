"""The target's text in the draft's tokens, kept in step as it grows; and a draft's words back again.

The text is cut into runs of some dozen bytes, before a space, and each run is tokenised by itself.
Where it is cut depends on its bytes alone. So a finished run is never looked at again, the cost of a
token does not grow with the text, and the tokens do not depend on how the text arrived. (transformers'
universal assisted decoding looks back over a fixed number of tokens to the same end.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.drafting.cross_vocabulary.token_table import Leading, TokenTable, split_unfinished
from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap

_SHORTEST, _LONGEST = 48, 256
"""Bytes of a run. It ends before the first space in between, else in the midst of a word."""
_BORDER = re.compile(rb"(?<=\S) ")


class RetokenizedText:
    """Tokens of the target in, tokens of the draft out."""

    def __init__(self, vocabularies: VocabularyMap) -> None:
        self.vocabularies = vocabularies
        self.settled: list[int] = list(vocabularies.draft.opening)
        """Tokens of the finished runs; they only grow."""
        self._open = bytearray()  # the run that is not finished
        self._begins = True  # nothing was spelled yet
        self._behind_control = True

    def extend(self, tokens: Sequence[int]) -> None:
        """The text went on with ``tokens`` of the target."""
        for token in tokens:
            self._open += self._spelled(token)
        while (end := _run_end(self._open)) is not None:
            self.settled += _encode_whole(self.vocabularies.draft, self._open[:end])
            del self._open[:end]

    def unsettled(self) -> list[int] | None:
        """The tokens behind ``settled``; None where the draft cannot spell an unfinished character."""
        return self.vocabularies.draft.encode_bytes(self._open)

    def _spelled(self, token: int) -> bytes:
        """What ``token`` adds to the draft's text."""
        target, draft = self.vocabularies.target, self.vocabularies.draft
        name = target.control.get(token)
        if name is not None:
            first, self._behind_control = self._begins, True
            if first and token == target.bos:
                return b""  # the draft opens a text in its own way
            self._begins = False
            if token == target.eos and draft.eos is not None and name not in draft.control.values():
                name = draft.control[draft.eos]
            return name.encode()
        data = target.spelled.get(token, b"")
        if self._behind_control and _adds_space(target.leading, self._begins):
            data = data.removeprefix(b" ")
        if self._begins and draft.leading is not Leading.NEVER:
            data = b" " + data
        self._begins = self._behind_control = False
        return data


def respelled(vocabularies: VocabularyMap, written: Sequence[int], *, ended: bool) -> list[int]:
    """What the draft wrote, in tokens of the target: string-level exact match (arXiv 2502.05202).

    ``written`` follows a text whose tokens stand, so it is tokenised by itself, from the border on.
    Its last token is left out, because more text could still change it, unless the draft ``ended``.
    """
    target, draft = vocabularies.target, vocabularies.draft
    data = b"".join(draft.spelled.get(token, b"") for token in written)
    inside = _continuation(data)
    begun = [target.ids.get(bytes([byte])) for byte in data[:inside]]
    if None in begun:
        return []
    text, _ = split_unfinished(data[inside:])
    whole = text.partition("\ufffd")[0]
    tokens = [token for token in begun if token is not None] + target.encode(whole)
    return tokens if ended and whole == text else tokens[:-1]


def _continuation(data: bytes) -> int:
    """How many bytes at the beginning belong to a character that began before."""
    return next((at for at, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(len(data), 3))


def _adds_space(leading: Leading, begins: bool) -> bool:
    return leading is Leading.ALWAYS or (begins and leading is Leading.FIRST)


def _encode_whole(draft: TokenTable, run: bytearray) -> list[int]:
    """A finished run; characters broken for good become U+FFFD where single bytes have no token."""
    tokens = draft.encode_bytes(run)
    return draft.encode(run.decode(errors="replace")) if tokens is None else tokens


def _run_end(data: bytearray) -> int | None:
    """Where the first run of ``data`` ends; None where that is not decided yet."""
    if border := _BORDER.search(data, _SHORTEST, _LONGEST):
        return border.start()
    if len(data) <= _LONGEST:
        return None
    end = _LONGEST
    while data[end] & 0xC0 == 0x80 and end > _LONGEST - 4:
        end -= 1
    return end
