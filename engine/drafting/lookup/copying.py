"""Follow a copy of a text, and repeat the edits that it makes.

Asked to rewrite a text, a model copies most of it. A draft that only looks for repeated n-grams loses its
place at every change. ``Copy`` follows a copy token by token. An edit begins where the copy departs from
its source and ends where it returns nearby. The edit is stored, and drafted again where the source has
the same tokens: after a name was changed once, drafts change it too.

Drafting edits pays because most of an edited text is reused: Wang et al. 2025, "EfficientEdit" (arXiv
2506.02780), where a model drafts the edits. Learning them from the copy is our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

SHORT, LONG = 2, 4
"""Lengths of the n-grams by which a source is found. A long one suffices to leave another source."""
WINDOW = 24
"""Maximum distance, in the source, between the departure and the return of a copy."""
MAX_AWAY = 16
"""Tokens after which a copy that has not returned is given up."""
LONGEST = 8
"""Maximum tokens that an edit removes or inserts; larger edits hardly recur."""
SURE = 2
"""Consecutive tokens of the source that end an edit."""


@dataclass(slots=True)
class Edit:
    """An edit that replaces ``removed`` by ``inserted``; how often it was made, and how often not."""

    removed: tuple[int, ...]
    inserted: tuple[int, ...]
    made: int = 1
    omitted: int = 0


class Edits:
    """The edits of one copy by the source token where they are made; the latest one counts.

    A pure insertion may belong to the token after it or to the one before.
    """

    def __init__(self) -> None:
        self._at: dict[int, Edit] = {}  # by the first token removed, or the one after an insertion
        self._after: dict[int, Edit] = {}  # by the token before an insertion

    def learn(
        self, source: Sequence[int], place: int, removed: tuple[int, ...], inserted: tuple[int, ...]
    ) -> None:
        """Store an edit at ``source[place]``."""
        if max(len(removed), len(inserted)) > LONGEST or removed == inserted:
            return
        for edits, token in ((self._at, source[place]), (self._after, source[place - 1])):
            old = edits.get(token)
            if old is not None and (old.removed, old.inserted) == (removed, inserted):
                old.made += 1
            else:
                edits[token] = Edit(removed, inserted)
            if removed:
                return

    def at(self, source: Sequence[int], place: int) -> Edit | None:
        """Return the edit at ``source[place]`` if it was made more often than omitted."""
        for edit in (self._at.get(source[place]), self._after.get(source[place - 1])):
            if edit is None or edit.made <= edit.omitted:
                continue
            if tuple(source[place : place + len(edit.removed)]) == edit.removed:
                return edit
        return None


class Cursor(NamedTuple):
    """The expected continuation of a copy: the source at ``place``, or the edit there."""

    place: int
    edit: Edit | None = None
    done: int = 0
    """Tokens of the edit that were written."""


class Copy:
    """A text followed by a copy of parts of it, read token by token.

    Drafts depend on these tokens alone, not on how many arrive at once.
    """

    def __init__(self, *, follows_itself: bool = True) -> None:
        """``follows_itself``: whether the copy is part of its own source, after the tokens read."""
        self.text: list[int] = []  # including the copy
        self._follows_itself = follows_itself
        self._source = 0  # tokens read
        self._latest: dict[tuple[int, ...], int] = {}  # n-gram: place after its latest occurrence
        self.begin()

    def begin(self) -> None:
        """Start another copy: the whole text so far is its source."""
        self.edits = Edits()
        self._cursor: Cursor | None = None
        self._trust = 0  # maximum length of a draft: tokens copied so far, halved at each departure
        # While the copy is away from its source:
        self._away = False
        self._left = 0  # place in the source where it departed
        self._began = 0  # where the edit begins in the text
        # By places in the source: how many of the latest tokens match before it.
        self._returns: dict[int, int] = {}

    def expect(self, tokens: int) -> None:
        """Expect a copy from the beginning of the source, with the trust of ``tokens`` copied tokens."""
        self._move(Cursor(0))
        self._trust = tokens

    def read(self, tokens: Iterable[int]) -> None:
        """Add ``tokens`` to the source."""
        for token in tokens:
            self._append(token)
        self._source = len(self.text)

    def extend(self, tokens: Iterable[int]) -> None:
        """Add ``tokens`` to the copy."""
        for token in tokens:
            if self._cursor is not None:
                self._follow(self._cursor, token)
            elif self._away:
                self._match_returns(token)
            if self._follows_itself:
                self._append(token)
            else:
                self.text.append(token)
            if self._cursor is None:
                self._find()

    def draft(self, depth: int) -> tuple[int, ...]:
        """Return the expected continuation: at most ``depth`` tokens, and at most the trust."""
        cursor = Cursor(self._best_return()) if self._returns else self._cursor
        if cursor is None:
            return ()
        return tuple(islice(self._continuation(cursor), min(depth, self._trust)))

    def _append(self, token: int) -> None:
        place = len(self.text)
        self.text.append(token)
        for size in (SHORT, LONG):
            if place >= size:
                self._latest[tuple(self.text[place - size : place])] = place

    # -- on the source

    def _expected(self, cursor: Cursor) -> int | None:
        """Return the token at the cursor; None at the end of the text."""
        place, edit, done = cursor
        if edit is not None:
            if edit.inserted:
                return edit.inserted[done]
            place += len(edit.removed)
        return self.text[place] if place < len(self.text) else None

    def _advanced(self, cursor: Cursor) -> Cursor:
        """Return the cursor after the expected token."""
        place, edit, done = cursor
        if edit is None:
            return self._cursor_at(place + 1)
        if done + 1 < len(edit.inserted):
            return Cursor(place, edit, done + 1)
        place += len(edit.removed)
        return Cursor(place) if edit.inserted else self._cursor_at(place + 1)

    def _cursor_at(self, place: int) -> Cursor:
        """Return the cursor at ``place`` of the source, with the edit to make there."""
        return Cursor(place, self.edits.at(self.text, place) if place < len(self.text) else None)

    def _continuation(self, cursor: Cursor) -> Iterator[int]:
        while (token := self._expected(cursor)) is not None:
            yield token
            cursor = self._advanced(cursor)

    def _follow(self, cursor: Cursor, token: int) -> None:
        place, edit, done = cursor
        if token == self._expected(cursor):
            self._trust += 1
            self._cursor = self._advanced(cursor)
            if edit is not None and self._cursor[:2] != (place, edit):
                edit.made += 1
            return
        if edit is not None:
            edit.omitted += 1
            if not done and token == self.text[place]:
                self._trust += 1
                self._cursor = self._cursor_at(place + 1)
                return
        self._cursor, self._trust = None, self._trust // 2
        self._away, self._left, self._began = True, place, len(self.text) - done
        self._match_returns(token)

    # -- away from the source

    def _match_returns(self, token: int) -> None:
        """Update the places where the copy may have returned with ``token``."""
        text, left = self.text, self._left
        end = self._began if self._follows_itself else self._source
        window = text[left : min(left + WINDOW, end)]
        # Most tokens are new; ``in`` is much faster than a look at each place.
        places = (
            [at for at, other in enumerate(window, left) if other == token]
            if token in window
            else ()
        )
        returns = dict.fromkeys((place + 1 for place in places), 1)
        for place, count in self._returns.items():
            if text[place] == token:
                returns[place + 1] = count + 1
        self._returns = returns

    def _best_return(self) -> int:
        """Return the place with the most matching tokens; the nearest of several."""
        return max(self._returns, key=lambda place: (self._returns[place], -place))

    def _find(self) -> None:
        """Find a source after the last token: the one that was left, or another."""
        if self._returns and self._returns[self._best_return()] >= SURE:
            return self._end_edit(self._best_return())
        lost = self._away and len(self.text) - self._began > MAX_AWAY
        size, place = self._match()
        if place is not None and (size == LONG or lost or not self._away):
            self._trust = size
            self._move(Cursor(place))
        elif lost:
            self._move(None)

    def _match(self) -> tuple[int, int | None]:
        """Return the longest n-gram at the end that occurred before: its size, and the place after it."""
        place = self._latest.get(tuple(self.text[-SHORT:]))
        if place is None:  # then no longer one did
            return 0, None
        longer = self._latest.get(tuple(self.text[-LONG:]))
        return (SHORT, place) if longer is None else (LONG, longer)

    def _end_edit(self, place: int) -> None:
        count = self._returns[place]
        removed = tuple(self.text[self._left : place - count])
        inserted = tuple(self.text[self._began : len(self.text) - count])
        self.edits.learn(self.text, self._left, removed, inserted)
        self._trust += count
        self._move(Cursor(place))

    def _move(self, cursor: Cursor | None) -> None:
        self._cursor, self._away = cursor, False
        self._returns.clear()
