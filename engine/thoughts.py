"""Split a model's thoughts from its answer, for all code that shows, sends or stores a reply.

Works on text alone: no tokens, no model, no protocol.

A thought stands in front of the answer, between marks. Some chat templates write the first mark into
the prompt, so that the reply begins inside the thought.
"""

from __future__ import annotations

import re
from collections.abc import Collection

MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
)
"""DeepSeek's and Qwen's, which most models took over; a common variant; Magistral's; Seed-OSS's."""
THINK, THOUGHT = "<think>\n", "\n</think>\n\n"
"""Written around a thought that comes in another form: a server's field, or a channel."""
OPENING, CLOSING = (tuple(each) for each in zip(*MARKS, strict=True))
_LONGEST = max(map(len, CLOSING))
_CLOSED_ALONE = re.compile(rf"^(?:{'|'.join(map(re.escape, CLOSING))})\s*$", re.MULTILINE)


def opens_thought(prompt: str) -> bool:
    """Return whether a reply to ``prompt`` begins inside a thought."""
    return prompt.rstrip().endswith(OPENING)


class Thoughts:
    """A reply's text, split into thought and answer as it comes.

    ``thought`` is ``text[begin:end]`` and ``answer`` is ``text[start:]``; all are 0 without a thought.
    ``closed`` is False while the thought goes on. White space around both belongs to neither.
    """

    def __init__(self, *, opened: bool = False) -> None:
        """``opened``: the text begins inside a thought."""
        self.text = ""
        self.begin = self.end = self.start = 0
        self.closed = True
        self._opened = opened
        self._closing: tuple[str, ...] = ("",)  # the marks that may end it, once it is known
        self._told = [0, 0]  # how far thought and answer were returned

    @classmethod
    def none(cls, text: str) -> Thoughts:
        """Return those of a text that is no reply: all of it is said."""
        found = cls()
        found.text = text
        return found

    @property
    def thought(self) -> str:
        return self.text[self.begin : self.end]

    @property
    def answer(self) -> str:
        return self.text[self.start :] if self.closed else ""

    def read(self, text: str, *, last: bool = False) -> tuple[str, str]:
        """Return what ``text`` adds for sure to thought and answer; ``last``: no more comes."""
        self.text += text
        if self._closing == ("",) and not self._begin(last):
            return "", ""
        if not self.closed:
            self._think(last)
        if self.closed and self._closing and self._told[1] <= self.start:
            self.start = _skip(self.text, self.start)
        return self._new(0, self.begin, self.end), self._new(1, self.start, len(self.text))

    def _begin(self, last: bool) -> bool:
        """Find out whether there is a thought; False while that is not sure."""
        first = _skip(self.text, 0)
        mark = next((each for each in MARKS if self.text.startswith(each[0], first)), None)
        if (
            mark is None
            and not last
            and any(each.startswith(self.text[first:]) for each in OPENING)
        ):
            return False
        self._closing = mark[1:] if mark else CLOSING if self._opened else ()
        if self._closing:
            self.closed = False
            self.begin = self.end = first + len(mark[0] if mark else "")
        return True

    def _think(self, last: bool) -> None:
        """Move the end of the thought up to its closing mark, or as far as none can begin."""
        if self.begin == self.end:
            self.begin = self.end = _skip(self.text, self.begin)
        found = [
            (at, mark) for mark in self._closing if (at := self.text.find(mark, self.end)) >= 0
        ]
        limit, mark = min(found, default=(len(self.text), ""))
        if found:
            self.start, self.closed = limit + len(mark), True
        elif not last:
            tails = (self.text[at:] for at in range(max(self.end, limit - _LONGEST), limit))
            partial = next(
                (tail for tail in tails if any(m.startswith(tail) for m in self._closing)), ""
            )
            limit -= len(partial)
        self.end += len(self.text[self.end : limit].rstrip())

    def _new(self, which: int, begin: int, end: int) -> str:
        """Return what of ``text[begin:end]`` was not returned before."""
        if not which or self.closed:
            begin, self._told[which] = max(begin, self._told[which]), end
            return self.text[begin:end]
        return ""


def split(text: str, *, opened: bool = False) -> Thoughts:
    """Return a whole reply, split. ``opened``: it begins inside a thought.

    Replies that were kept without that knowledge are told by a closing mark alone on its line.
    """
    closing = None if opened else _CLOSED_ALONE.search(text)
    if closing is not None:
        opened = not any(mark in text[: closing.start()] for mark in OPENING)
    found = Thoughts(opened=opened)
    found.read(text, last=True)
    return found


_SWITCH = re.compile(r"(?<![\w.'\"])enable_thinking\b")
_EFFORT = re.compile(r"(?<![\w.'\"])reasoning_effort\b")
_PLAIN_SWITCH = re.compile(r"\{%[^%]*?\b(?:if|not|and|or|elif) thinking\b")
_BUDGET = re.compile(r"(?<![\w.'\"])thinking_budget\b")
"""Variables of templates: Qwen's, GLM's and Gemma 4's; gpt-oss'; DeepSeek V3.1's and Granite 3's;
Seed-OSS'."""


def choices_of(template: str | None) -> tuple[str, ...]:
    """Return how much thinking a chat template lets one choose; see ``engine.request.Thinking``."""
    if template is None:
        return ()
    if _EFFORT.search(template):
        return ("low", "medium", "high")
    switches = (_SWITCH, _PLAIN_SWITCH, _BUDGET)
    return ("off", "on") if any(each.search(template) for each in switches) else ()


def served_as(thinking: str, choices: Collection[str]) -> str:
    """Return what a template with these ``choices`` makes of ``thinking``; "" for its default."""
    if not thinking or thinking in choices:
        return thinking
    if "on" in choices:
        return "on"
    return "low" if choices and thinking == "off" else ""


def template_values(
    template: str | None, thinking: str, budget: int | None
) -> dict[str, str | bool | int]:
    """Return the variables that make ``template`` ask for so much thinking, and tell of its budget.

    An effort is "on" for a template with a switch. One with efforts has no "off": it gets the lowest.
    "off" is a budget of 0 for a template that knows nothing but budgets.
    """
    if template is None:
        return {}
    values: dict[str, str | bool | int] = {}
    if budget is not None and _BUDGET.search(template):
        values["thinking_budget"] = budget
    if not thinking:
        return values
    on = thinking != "off"
    if _SWITCH.search(template):
        values["enable_thinking"] = on
    elif _PLAIN_SWITCH.search(template):
        values["thinking"] = on
    elif not on and _BUDGET.search(template):
        values["thinking_budget"] = 0
    if _EFFORT.search(template) and thinking != "on":
        values["reasoning_effort"] = thinking if on else "low"
    return values


def reasoning_name(template: str | None) -> str:
    """Return by what name a chat template takes a message's earlier thought."""
    names = ("reasoning_content", "thinking", "reasoning")
    found = (name for name in names if re.search(rf"[.\['\"(]{name}\b", template or ""))
    return next(found, names[0])


def _skip(text: str, at: int) -> int:
    """Return where ``text`` goes on behind white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at
