"""Chats, folders and messages as values, and how they are read from rows and written to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from app.storage.attachments import Attachment, read_references, with_files
from engine.files import parse_json
from engine.thoughts import Thoughts, split
from engine.tool_calls.in_reply import call_of
from engine.values.messages import Image, Message

TITLE_LENGTH = 120
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


def read_chat_tools(text: str | None) -> ChatTools:
    if not text:
        return ChatTools()
    value = parse_json(text)
    return ChatTools(frozenset(value["off"]), frozenset(value["trusted"]))


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A chat's system prompt, and the name of the preset that it was taken from."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation in the list. ``system`` None: that of the settings."""

    id: int
    title: str
    updated: float
    folder: int | None = None
    system: SystemPrompt | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A group of chats. ``folded``: its chats are hidden in the list."""

    id: int
    name: str
    folded: bool


Status = Literal["running", "done", "length", "cancelled", "failed", "interrupted"]
STATUSES: tuple[str, ...] = get_args(Status)

Figures = dict[str, int | float | bool | list[Any] | dict[str, Any] | None]
"""What is stored of a reply's statistics."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message. ``marks``: where each token of a reply came from, see ``app.ui.rounds.view``.

    ``siblings``: ids of all messages with the same parent, itself included, oldest first.
    ``left_out``: it is shown but not given to a model. ``model`` and ``method``: what wrote a reply.
    ``calls``: the calls of tools in a reply. ``edited``: the user changed a reply's text."""

    id: int
    role: Literal["user", "assistant"]
    text: str
    chat: int = 0
    marks: str = ""
    status: Status = "done"
    error: str | None = None
    statistics: Figures | None = None
    parent: int | None = None
    siblings: tuple[int, ...] = ()
    shown: bool = True
    left_out: bool = False
    files: tuple[Attachment, ...] = ()
    model: str | None = None
    method: str | None = None
    calls: StoredCalls | None = None
    edited: bool = False

    @property
    def parts(self) -> Thoughts:
        """A reply's thought and answer; a user's message has only an answer."""
        if self.role != "assistant":
            return Thoughts.none(self.text)
        thought = (self.statistics or {}).get("thought")
        return split(self.text, opened=isinstance(thought, dict) and bool(thought.get("opened")))

    @property
    def content(self) -> str:
        """The message without thought and calls, after its files."""
        parts = self.parts
        answer = parts.answer
        if self.calls is not None:
            answer = answer[: max(0, self.calls.at - parts.start)].rstrip()
        return with_files(answer, self.files)

    @property
    def turn(self) -> tuple[Message, ...]:
        """The message as a model gets it: a reply that calls tools is followed by their results."""
        thought = self.parts.thought
        if self.calls is not None:
            return self.calls.messages(self.content, thought)
        images = tuple(Image(each.data) for each in self.files if each.data)
        return (Message(self.role, self.content, reasoning=thought, images=images),)


COLUMNS = (
    "select id, chat, role, text, marks, status, error, statistics, parent, shown, left_out, files, "
    "model, method, calls, edited from messages"
)


def read_message(
    row: dict[str, Any], siblings: Iterable[int], attachments: dict[int, Attachment]
) -> StoredMessage:
    """Return a row as a message; ``attachments`` are those of its chat, by number."""
    statistics, files, calls = (row.pop(each) for each in ("statistics", "files", "calls"))
    return StoredMessage(
        **{**row, **{name: bool(row[name]) for name in ("shown", "left_out", "edited")}},
        statistics=parse_json(statistics) if statistics else None,
        files=read_references(files, attachments),
        calls=read_calls(calls),
        siblings=tuple(siblings),
    )


def written(value: StoredCalls | ChatTools | SystemPrompt | None) -> str | None:
    """Return a value as JSON, with lists for sets."""
    if value is None:
        return None
    return json.dumps(asdict(value), ensure_ascii=False, default=sorted)


def read_system(text: str | None) -> SystemPrompt | None:
    return SystemPrompt(**parse_json(text)) if text else None


def history(messages: Iterable[Message], system: str = "") -> tuple[Message, ...]:
    """Return the messages for the model, after the ``system`` prompt.

    A question without a reply, or with an empty one, is left out: templates need alternating roles. For
    the same reason a question after results of tools that no reply followed joins the question before.
    """
    turns: list[Message] = []
    for message in messages:
        unanswered = bool(turns) and turns[-1].role == "user"
        if message.role == "assistant" and not (message.content.strip() or message.tool_calls):
            if unanswered:
                turns.pop()
            continue
        if message.role == "user" and unanswered:
            turns.pop()
        elif message.role == "user" and turns and turns[-1].role == "tool":
            _ask_before_calls(turns, message)
            continue
        turns.append(message)
    if system.strip():
        turns.insert(0, Message("system", system.strip()))
    return tuple(turns)


def _ask_before_calls(turns: list[Message], message: Message) -> None:
    """Add a question to the last one in ``turns``, or put it first if there is none."""
    at = next((at for at in reversed(range(len(turns))) if turns[at].role == "user"), None)
    if at is None:
        turns.insert(0, message)
        return
    begun = f"{turns[at].content}\n\n"
    images = (replace(each, place=each.place + len(begun)) for each in message.images)
    turns[at] = replace(
        turns[at], content=begun + message.content, images=(*turns[at].images, *images)
    )


def shorten(title: str) -> str:
    """Return the first line with words, cut to ``TITLE_LENGTH`` characters; the fence of a code block
    is none."""
    lines = [each.strip() for each in title.strip().splitlines()]
    told = (
        each for each in lines if re.search(r"\w", each) and not each.startswith(("```", "~~~"))
    )
    line = next(told, lines[0] if lines else "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
