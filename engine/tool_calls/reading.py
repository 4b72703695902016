"""A reply's text as it comes, told apart into what is said and what is called."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from engine.tool_calls.styles import CallStyle
from engine.tool_calls.unmarked import JsonObject, Unmarked


@dataclass(frozen=True, slots=True)
class Said:
    """Text for people."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Text of a thought, which comes before the rest."""

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


Part = Said | Thought | Called | Arguments


class CallReader:
    """Text in, parts out, each as soon as it is sure. For replies that follow ``grammar_of_calls``.

    A call that the reply made before with the same arguments is left out: small models that may call
    several tools repeat one call without end.
    """

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
        the tools whose calls are read without the style's mark too, where a line begins with one;
        ``several``: whether more may follow it."""
        self._style, self._must, self._structured = style, must, structured
        self._unmarked = (
            Unmarked(offered) if offered and not structured and not style.whole else None
        )
        self._several = several
        self._text = ""  # not yet told
        self._json: JsonObject | None = None  # of the call that is read
        self._begun = self._plain = self._bare = False  # a call began, text was said, no mark
        self._begins_line = True
        self._call = ""  # the one begun last: its name, a line feed, its arguments
        self._made: list[str] = []
        self._held = False  # the call may repeat another, and is not told yet
        self.calls = 0
        """Calls that were told."""
        self.repeated = False
        """Whether a call was left out."""

    def read(self, text: str) -> Iterator[Part]:
        """What the reply's next ``text`` makes sure."""
        self._text += text
        while (parts := self._next()) is not None:
            yield from parts

    def end(self) -> Iterator[Part]:
        """What was held back, when no more comes, unless it is the beginning of a call that was cut."""
        rest, self._text = self._text, ""
        if rest and not self._begun and not self._opens(rest):
            yield Said(rest)

    def _opens(self, rest: str) -> bool:
        """Whether no reply but a call begins so. In a ``whole`` style JSON may."""
        style = self._style
        if style.whole:
            return self._must or not self._structured
        named = self._unmarked is not None and '"name":"' in "".join(rest.split())
        return self._must or named or rest.startswith(style.trigger)

    def _next(self) -> Sequence[Part] | None:
        """Parts that the text makes sure, perhaps none; None where it takes more text to go on."""
        if self._json is not None:
            return self._more_arguments(self._json)
        style = self._style
        if self._bare:
            return self._bare_call()
        if self._begun:
            return self._marked_call(style.tail + style.between + style.head)
        opened = style.opening + style.head
        at = self._text.find(opened)
        if at == 0 and (not style.whole or not self._plain):
            return self._marked_call(opened)
        if style.whole and self._plain:
            at = -1
        safe = at if at > 0 else len(self._text) - _overlap(self._text, opened, style, self._plain)
        if self._unmarked is not None:
            start, head = self._unmarked.find(self._text, begins_line=self._begins_line)
            if head is not None and not start:
                self._bare = True
                return self._begin(head[1], head.end())
            safe = min(safe, start)
        if not safe:
            return None
        said, self._text = self._text[:safe], self._text[safe:]
        self._plain, self._begins_line = True, said.endswith("\n")
        return [Said(said)]

    def _marked_call(self, before: str) -> Sequence[Part] | None:
        """The next call's name, once what stands before and behind it is there."""
        if not self._text.startswith(before):
            return None
        end = self._text.find(self._style.middle, len(before))
        if end < 0:
            return None
        return self._begin(self._text[len(before) : end], end + len(self._style.middle))

    def _bare_call(self) -> Sequence[Part] | None:
        """The next call without a mark; what stands before it is dropped."""
        head = self._unmarked.find_next(self._text) if self._unmarked and self._several else None
        if head is not None:
            return self._begin(head[1], head.end())
        self._text = self._text[max(self._text.rfind("{"), 0) :]
        return None

    def _begin(self, name: str, end: int) -> Sequence[Part]:
        """A call of ``name`` begins, whose arguments stand behind ``end``."""
        self._text = self._text[end:]
        self._json, self._begun, self._call = JsonObject(), True, f"{name}\n"
        self._held = self._repeats()
        if self._held:
            return []
        self.calls += 1
        return [Called(self.calls - 1, name)]

    def _more_arguments(self, json: JsonObject) -> Sequence[Part] | None:
        length = json.read(self._text)
        if not length:
            return None
        more, self._text = self._text[:length], self._text[length:]
        self._call += more
        if json.ended:
            self._json = None
        if not self._held:
            told: list[Part] = [Arguments(self.calls - 1, more)]
        elif self._call in self._made and json.ended:
            self.repeated = True
            return []
        elif self._repeats() and not json.ended:
            return []
        else:
            self._held = False
            self.calls += 1
            name, arguments = self._call.split("\n", 1)
            told = [Called(self.calls - 1, name), Arguments(self.calls - 1, arguments)]
        if json.ended:
            self._made.append(self._call)
        return told

    def _repeats(self) -> bool:
        """Whether the call may yet be one that was made."""
        return any(made.startswith(self._call) for made in self._made)


def _overlap(text: str, opened: str, style: CallStyle, plain: bool) -> int:
    """The length of the longest end of ``text`` with which a call may begin."""
    if style.whole:
        return len(text) if not plain and opened.startswith(text) else 0
    longest = min(len(opened) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if opened.startswith(text[-size:])), 0)
