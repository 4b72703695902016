"""A reply's text as it comes, told apart into what is said and what is called."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from engine.tool_calls.styles import CallStyle
from engine.tool_calls.unmarked import JsonObject, Unmarked


@dataclass(frozen=True, slots=True)
class Said:
    """Text for people."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call begins: the ``index``-th of the reply, of the tool ``name``."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the JSON of the call begun last."""

    index: int
    text: str


Part = Said | Called | Arguments


class CallReader:
    """Text in, parts out, each as soon as it is sure. For replies that follow ``grammar_of_calls``."""

    def __init__(
        self,
        style: CallStyle,
        *,
        must: bool = False,
        structured: bool = False,
        offered: Collection[str] = (),
        several: bool = True,
    ) -> None:
        """``must``: nothing but calls may come. ``structured``: what calls nothing is JSON. ``offered``:
        the tools of which a reply that begins with JSON, bare or as a block of code, is a call too, as
        small models write it in a style with a mark; ``several``: whether more may follow it."""
        self._style, self._must, self._structured = style, must, structured
        self._offered = () if structured or style.whole else tuple(offered)
        self._several = several
        self._unmarked = Unmarked(self._offered) if self._offered else None
        self._text = ""  # not yet told
        self._calls = 0
        self._json: JsonObject | None = None  # of the call that is read
        self._begun = self._plain = False  # a call was begun, something was said

    @property
    def calls(self) -> int:
        """Calls that were begun."""
        return self._calls

    @property
    def whole(self) -> bool:
        """Whether the call begun last has all of its arguments."""
        return self._begun and self._json is None

    def read(self, text: str) -> Iterator[Part]:
        """What the reply's next ``text`` makes sure."""
        self._text += text
        while (part := self._next()) is not None:
            yield part

    def end(self) -> Iterator[Part]:
        """What was held back, when no more comes, unless it is the beginning of a call that was cut."""
        self._unmarked = None
        yield from self.read("")
        rest, self._text = self._text, ""
        if rest and not self._begun and not self._opens(rest):
            yield Said(rest)

    def _opens(self, rest: str) -> bool:
        """Whether no reply but a call begins so. In a ``whole`` style JSON may."""
        style = self._style
        if style.whole:
            return self._must or not self._structured
        return self._must or rest.startswith(style.trigger)

    def _next(self) -> Part | None:
        if self._json is not None:
            return self._more_arguments(self._json)
        if self._unmarked is not None:
            found = self._unmarked.find(self._text)
            if found is not None:
                name, self._text = found
                self._unmarked = Unmarked(self._offered) if self._several else None
                return self._called(name)
            if self._unmarked.possible:
                return None
            self._unmarked = None
        style = self._style
        if self._begun:
            return self._call(style.tail + style.between + style.head)
        opened = style.opening + style.head
        at = self._text.find(opened)
        if at == 0 and (not style.whole or not self._plain):
            return self._call(opened)
        if style.whole and self._plain:
            at = -1
        safe = at if at > 0 else len(self._text) - _overlap(self._text, opened, style, self._plain)
        if not safe:
            return None
        said, self._text = self._text[:safe], self._text[safe:]
        self._plain = True
        return Said(said)

    def _call(self, before: str) -> Part | None:
        """The next call's name, once what stands before and behind it is there."""
        if not self._text.startswith(before):
            return None
        end = self._text.find(self._style.middle, len(before))
        if end < 0:
            return None
        name = self._text[len(before) : end]
        self._text = self._text[end + len(self._style.middle) :]
        return self._called(name)

    def _called(self, name: str) -> Called:
        self._json, self._begun, self._calls = JsonObject(), True, self._calls + 1
        return Called(self._calls - 1, name)

    def _more_arguments(self, json: JsonObject) -> Part | None:
        length = json.read(self._text)
        if not length:
            return None
        more, self._text = self._text[:length], self._text[length:]
        if json.ended:
            self._json = None
        return Arguments(self._calls - 1, more)


class Repetition:
    """Whether a reply calls what it called before, with the same arguments.

    Small models that may call several tools repeat one call without end: what may follow a call is
    another call, and nothing makes them stop.
    """

    def __init__(self, style: CallStyle, offered: Collection[str] = ()) -> None:
        self._reader = CallReader(style, offered=offered)
        self._call = ""  # the last one, as far as it was written
        self._made: set[str] = set()

    def read(self, text: str) -> bool:
        """Whether such a call ends in the reply's next ``text``."""
        repeated = False
        for part in self._reader.read(text):
            match part:
                case Called(_, name):
                    self._call = f"{name}\n"
                case Arguments(_, more):
                    self._call += more
                    if self._reader.whole:
                        repeated = repeated or self._call in self._made
                        self._made.add(self._call)
        return repeated


def _overlap(text: str, opened: str, style: CallStyle, plain: bool) -> int:
    """The length of the longest end of ``text`` with which a call may begin."""
    if style.whole:
        return len(text) if not plain and opened.startswith(text) else 0
    longest = min(len(opened) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if opened.startswith(text[-size:])), 0)
