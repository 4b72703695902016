"""Write replies in channels in the form of other models.

gpt-oss (the harmony format), Gemma 4 and Command write thoughts, calls and the answer into channels,
between control tokens. Here a thought is put between ``<think>`` and ``</think>``, and a call of gpt-oss
into Hermes' form. A channel begins where its control token stands: text that looks like one is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from engine.thoughts import THINK, THOUGHT
from engine.tool_calls.styles import HERMES

_LONGEST = 256
"""Characters of a message's header, at most; what is longer is none, and is shown."""
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([A-Za-z0-9_.-]+)")


class Channels(Protocol):
    """The channels of one reply."""

    def read(self, token: int, text: str) -> tuple[str, str]:
        """Return what the next token, with its own ``text``, adds to the reply: marks that are written
        here, and behind them the model's own text."""


def channels_of(token_named: Callable[[str], int | None]) -> Channels | None:
    """Return the channels of a new reply by a model with this vocabulary; None if it has none."""
    for kind in (Harmony, GemmaChannels, CommandChannels):
        ids = {name: token_named(name) for name in kind.NAMES}
        known = {name: token for name, token in ids.items() if token is not None}
        if kind.NAMES[: kind.NEEDED] == tuple(known)[: kind.NEEDED]:
            return kind(known)
    return None


class Harmony:
    """gpt-oss', where ``<|channel|>NAME<|message|>`` begins a message and ``<|start|>`` the next one.

    What stands in the channel "analysis" is the thought. A message with a recipient is a call. A thought
    behind text of the answer is left out: it is not for users, and there is no place for a second one.
    """

    NAMES = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>")
    NEEDED = 4

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._names = {token: name for name, token in ids.items()}
        self._header: str | None = ""  # of the message that begins; None inside one
        self._first = True
        self._said = self._hidden = self._calling = False
        self._thinking = False  # the thought was opened and not closed

    def read(self, token: int, text: str) -> tuple[str, str]:
        name = self._names.get(token, "")
        first, self._first = self._first, False
        match name:
            case "<|start|>":
                self._header = ""
                return self._close_call(), ""
            case "<|end|>" | "<|call|>":
                return self._close_call(), ""
            case "<|message|>" if self._header is not None:
                return self._begin(self._header), ""
        if self._header is None:
            self._said |= not (self._thinking or self._hidden)
            return "", "" if self._hidden else text
        self._header += name or text
        headed = self._header.startswith("<|channel|>") or " to=".startswith(self._header[:4])
        if (first and not headed) or len(self._header) > _LONGEST:
            text, self._header = self._header, None
            self._said = True
            return self._close_thought(), text
        return "", ""

    def _begin(self, header: str) -> str:
        """Return the mark of the message that begins behind ``header``."""
        self._header, self._hidden = None, False
        called = _RECIPIENT.search(header)
        channel = _CHANNEL.search(header)
        if called is not None:
            self._calling = True
            between = HERMES.between if self._said else ""
            self._said = True
            return f"{self._close_thought()}{between}{HERMES.head}{called[1]}{HERMES.middle}"
        if channel is not None and channel[1] == "analysis":
            if self._thinking:
                return "\n\n"
            self._hidden, self._thinking = self._said, not self._said
            return THINK if self._thinking else ""
        return self._close_thought()

    def _close_thought(self) -> str:
        closing, self._thinking = (THOUGHT if self._thinking else ""), False
        return closing

    def _close_call(self) -> str:
        closing, self._calling = (HERMES.tail if self._calling else ""), False
        return closing


class GemmaChannels:
    """Gemma 4's: ``<|channel>thought\\n...<channel|>``, and the answer outside of it."""

    NAMES = ("<|channel>", "<channel|>")
    NEEDED = 2
    HEADED = True
    """Whether a channel begins with its name and a line feed."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._opening, self._closing = (ids[name] for name in self.NAMES)
        self._header: str | None = None  # of the channel that begins
        self._said = self._hidden = self._thinking = False

    def read(self, token: int, text: str) -> tuple[str, str]:
        if token == self._opening:
            self._header = "" if self.HEADED else None
            self._hidden, self._thinking = self._said, not self._said
            return self._open() if self._header is None else "", ""
        if token == self._closing:
            closing = THOUGHT if self._thinking else ""
            if self._header is not None:
                closing = self._open() + closing
            self._header, self._hidden, self._thinking = None, False, False
            return closing, ""
        mark = ""
        if self._header is not None:
            self._header += text
            name, line, rest = self._header.partition("\n")
            if not line and "thought".startswith(name):
                return "", ""
            # The mark stands behind the header, of which no token is one of the thought.
            mark, text = self._open(), rest if name == "thought" else self._header
            self._header = None
        self._said |= bool(text.strip()) and not (self._thinking or self._hidden)
        return mark, "" if self._hidden else text

    def _open(self) -> str:
        return THINK if self._thinking else ""


class CommandChannels(GemmaChannels):
    """Cohere's Command's: a thought between two control tokens, without a name."""

    NAMES = ("<|START_THINKING|>", "<|END_THINKING|>")
    HEADED = False
