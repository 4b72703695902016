"""Following a copy: where it stands in its source, and which edits it makes again and again.

Asked to rewrite a text, a model copies most of it. A draft that only looks for repeated runs of tokens
has to find its way back after every change, and is surprised by each. Here a copy is followed from
token to token. Where it leaves its source an edit begins, which ends where it takes the source up again
nearby. What was replaced by what is kept, and done again wherever the source says so again: once a name
has been changed, drafts change it too.

That what is edited is mostly reused makes drafting it pay: Wang et al. 2025, "EfficientEdit" (arXiv
2506.02780), which has a model draft the edits. Learning them from the copy itself is our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

SHORT, LONG = 2, 4
"""Lengths of the runs of tokens by which a source is found. A long one is enough to leave another."""
WINDOW = 24
"""How far behind the place where it was left a copy may take its source up again."""
PATIENCE = 16
"""Tokens after which a copy that did not come back is given up."""
LONGEST = 8
"""Tokens that an edit replaces, or puts there, at most; what is larger will hardly come again."""
SURE = 2
"""So many tokens that stand side by side in the source end an edit."""


@dataclass(slots=True)
class Edit:
    """What stands in a copy in place of ``removed``; how often that was done, and how often not."""

    removed: tuple[int, ...]
    inserted: tuple[int, ...]
    made: int = 1
    omitted: int = 0


class Edits:
    """The edits of one copy, by the token of the source where they are made; the last one counts.

    Where nothing is removed, either of the two tokens around may be what the edit belongs to.
    """

    def __init__(self) -> None:
        self._at: dict[int, Edit] = {}  # the first token removed, or that behind
        self._behind: dict[int, Edit] = {}

    def learn(
        self, source: Sequence[int], place: int, removed: tuple[int, ...], inserted: tuple[int, ...]
    ) -> None:
        """``removed`` stands in ``source`` at ``place``."""
        if max(len(removed), len(inserted)) > LONGEST or removed == inserted:
            return
        for known, token in ((self._at, source[place]), (self._behind, source[place - 1])):
            old = known.get(token)
            if old is not None and (old.removed, old.inserted) == (removed, inserted):
                old.made += 1
            else:
                known[token] = Edit(removed, inserted)
            if removed:
                return

    def at(self, source: Sequence[int], place: int) -> Edit | None:
        """What is done to ``source`` at ``place``, if it was done there more often than not."""
        for edit in (self._at.get(source[place]), self._behind.get(source[place - 1])):
            if edit is None or edit.made <= edit.omitted:
                continue
            if tuple(source[place : place + len(edit.removed)]) == edit.removed:
                return edit
        return None


class Cursor(NamedTuple):
    """What a copy is expected to go on with: the source at ``place``, or the edit made there."""

    place: int
    edit: Edit | None = None
    done: int = 0
    """Tokens of the edit that stand already."""


class Copy:
    """A text, and behind it a copy of parts of it, followed token by token.

    What it drafts depends on these tokens alone, not on how many of them came at once.
    """

    def __init__(self, *, follows_itself: bool = True) -> None:
        """``follows_itself``: whether the copy is its own source too, behind that which was read."""
        self.text: list[int] = []  # with the copy
        self._follows_itself = follows_itself
        self._source = 0  # tokens that were read
        self._latest: dict[tuple[int, ...], int] = {}  # what follows a run, where it last stood
        self.begin()

    def begin(self) -> None:
        """Another copy: all that is known so far is source."""
        self.edits = Edits()
        self._cursor: Cursor | None = None
        self._trust = 0  # tokens copied so far; each departure halves it
        # While the copy is off its source: where it left that, where the edit begins in the text, and
        # how many tokens say that it goes on at a place.
        self._left = self._began = 0
        self._away = False
        self._returns: dict[int, int] = {}

    def expect(self, tokens: int) -> None:
        """The copy will begin where its source does; ``tokens`` of it are as good as copied."""
        self._go_on(Cursor(0))
        self._trust = tokens

    def read(self, tokens: Iterable[int]) -> None:
        """The source goes on with ``tokens``."""
        for token in tokens:
            self._take(token)
        self._source = len(self.text)

    def extend(self, tokens: Iterable[int]) -> None:
        """The copy goes on with ``tokens``."""
        for token in tokens:
            if self._cursor is not None:
                self._follow(self._cursor, token)
            elif self._away:
                self._look_for(token)
            if self._follows_itself:
                self._take(token)
            else:
                self.text.append(token)
            if self._cursor is None:
                self._find()

    def draft(self, depth: int) -> tuple[int, ...]:
        """How the copy goes on: ``depth`` tokens at most, and no more than were copied before."""
        cursor = Cursor(self._best_return()) if self._returns else self._cursor
        if cursor is None:
            return ()
        return tuple(islice(self._ahead(cursor), min(depth, self._trust)))

    def _take(self, token: int) -> None:
        at = len(self.text)
        self.text.append(token)
        for size in (SHORT, LONG):
            if at >= size:
                self._latest[tuple(self.text[at - size : at])] = at

    # -- on the source

    def _expected(self, cursor: Cursor) -> int | None:
        """None at the end of the text."""
        place, edit, done = cursor
        if edit is not None:
            if edit.inserted:
                return edit.inserted[done]
            place += len(edit.removed)
        return self.text[place] if place < len(self.text) else None

    def _behind(self, cursor: Cursor) -> Cursor:
        """Once the expected token has come."""
        place, edit, done = cursor
        if edit is None:
            return self._arrived(place + 1)
        if done + 1 < len(edit.inserted):
            return Cursor(place, edit, done + 1)
        place += len(edit.removed)
        return Cursor(place) if edit.inserted else self._arrived(place + 1)

    def _arrived(self, place: int) -> Cursor:
        """At the next token of the source, where an edit may be made."""
        return Cursor(place, self.edits.at(self.text, place) if place < len(self.text) else None)

    def _ahead(self, cursor: Cursor) -> Iterator[int]:
        while (token := self._expected(cursor)) is not None:
            yield token
            cursor = self._behind(cursor)

    def _follow(self, cursor: Cursor, token: int) -> None:
        place, edit, done = cursor
        if token == self._expected(cursor):
            self._trust += 1
            self._cursor = self._behind(cursor)
            if edit is not None and self._cursor[:2] != (place, edit):
                edit.made += 1
            return
        if edit is not None:
            edit.omitted += 1
            if not done and token == self.text[place]:
                self._trust += 1
                self._cursor = self._arrived(place + 1)
                return
        self._cursor, self._trust = None, self._trust // 2
        self._away, self._left, self._began = True, place, len(self.text) - done
        self._look_for(token)

    # -- off the source

    def _look_for(self, token: int) -> None:
        """Notes where the copy may have come back with ``token``."""
        text, left = self.text, self._left
        end = self._began if self._follows_itself else self._source
        window = text[left : min(left + WINDOW, end)]
        # Most tokens are new ones; asking so is much faster than looking at each place.
        places = (
            [at for at, other in enumerate(window, left) if other == token]
            if token in window
            else ()
        )
        found = dict.fromkeys((place + 1 for place in places), 1)
        for place, count in self._returns.items():
            if text[place] == token:
                found[place + 1] = count + 1
        self._returns = found

    def _best_return(self) -> int:
        """The place that most tokens speak for; of several the nearest."""
        return max(self._returns, key=lambda place: (self._returns[place], -place))

    def _find(self) -> None:
        """A source to follow, behind the last token: the one that was left, or another."""
        if self._returns and self._returns[self._best_return()] >= SURE:
            return self._come_back(self._best_return())
        lost = self._away and len(self.text) - self._began > PATIENCE
        size, place = self._match()
        if place is not None and (size == LONG or lost or not self._away):
            self._trust = size
            self._go_on(Cursor(place))
        elif lost:
            self._go_on(None)

    def _match(self) -> tuple[int, int | None]:
        """The longest run at the end that stood before, and what followed it then."""
        place = self._latest.get(tuple(self.text[-SHORT:]))
        if place is None:  # no longer one did either
            return 0, None
        longer = self._latest.get(tuple(self.text[-LONG:]))
        return (SHORT, place) if longer is None else (LONG, longer)

    def _come_back(self, place: int) -> None:
        count = self._returns[place]
        removed = tuple(self.text[self._left : place - count])
        inserted = tuple(self.text[self._began : len(self.text) - count])
        self.edits.learn(self.text, self._left, removed, inserted)
        self._trust += count
        self._go_on(Cursor(place))

    def _go_on(self, cursor: Cursor | None) -> None:
        self._cursor, self._away = cursor, False
        self._returns.clear()
