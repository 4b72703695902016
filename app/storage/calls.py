"""Calls of tools that a reply made: stored beside its text, with what became of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.files import parse_json
from engine.tool_calls.in_reply import call_of
from engine.values.messages import Message

CallState = Literal["waiting", "running", "done", "failed", "refused", "stopped", "interrupted"]
PENDING = ("waiting", "running")
"""States of a call that has no result yet: the user is asked, or the server works."""

NOT_RUN = "This call was not run: the app was closed first."
LOST = "The app was closed during this call, so its result is unknown."
"""What a model reads in place of a result that does not come any more."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One call. ``name`` is the tool as the model knows it; ``tool`` of ``server`` is the same one there.

    ``arguments``: JSON, as the model wrote it. ``result``: the text that the model gets; ``cut``: how
    many characters were left out of it. ``seconds``: how long the call took.
    """

    id: str
    name: str
    arguments: str
    server: str = ""
    tool: str = ""
    state: CallState = "waiting"
    result: str = ""
    cut: int = 0
    seconds: float | None = None

    @property
    def pending(self) -> bool:
        return self.state in PENDING

    def interrupted(self) -> StoredCall:
        """Return the call as it is if nobody works at it any more."""
        if not self.pending:
            return self
        result = NOT_RUN if self.state == "waiting" else LOST
        return replace(self, state="interrupted", result=result)

    @property
    def answer(self) -> Message:
        """The tool's message for the model."""
        text = self.interrupted().result
        return Message("tool", text, tool_call_id=self.id, name=self.name)


@dataclass(frozen=True, slots=True)
class StoredCalls:
    """The calls of one reply. ``at``: where in its text the first one begins, in characters.

    ``limit``: the turn ended here, because it had so many rounds of calls.
    """

    at: int
    calls: tuple[StoredCall, ...]
    limit: int | None = None

    def interrupted(self) -> StoredCalls:
        """See ``StoredCall.interrupted``."""
        return replace(self, calls=tuple(each.interrupted() for each in self.calls))

    @property
    def pending(self) -> bool:
        return any(each.pending for each in self.calls)

    def messages(self, content: str, thought: str) -> tuple[Message, ...]:
        """Return what a model reads of a reply with these calls: the reply, and each result."""
        made = tuple(call_of(each.id, each.name, each.arguments) for each in self.calls)
        reply = Message("assistant", content, tool_calls=made, reasoning=thought)
        return (reply, *(each.answer for each in self.calls))


def write_calls(calls: StoredCalls | None) -> str | None:
    return None if calls is None else json.dumps(asdict(calls), ensure_ascii=False)


def read_calls(text: str | None) -> StoredCalls | None:
    if not text:
        return None
    value: dict[str, Any] = parse_json(text)
    calls = tuple(StoredCall(**each) for each in value["calls"])
    return StoredCalls(**{**value, "calls": calls})


@dataclass(frozen=True, slots=True)
class ChatTools:
    """Which servers of tools a chat uses. ``off``: names of those that it does not use. ``trusted``:
    marks of those whose calls run without a question; see ``mark`` in ``app.mcp.config``."""

    off: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()


def write_chat_tools(tools: ChatTools) -> str | None:
    if tools == ChatTools():
        return None
    return json.dumps({"off": sorted(tools.off), "trusted": sorted(tools.trusted)})


def read_chat_tools(text: str | None) -> ChatTools:
    if not text:
        return ChatTools()
    value = parse_json(text)
    return ChatTools(frozenset(value["off"]), frozenset(value["trusted"]))
