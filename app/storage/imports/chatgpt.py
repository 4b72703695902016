"""Conversations of ChatGPT's export (conversations.json).

A conversation is a tree of nodes (``mapping``). A reply may be several of them in a row: thoughts, code
that was run, its output, text. They become one message here. ``current_node`` ends the shown branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from app.storage.attachments import fenced
from app.storage.imports.conversation import (
    FILE,
    PICTURE,
    SOUND,
    TOOL,
    Conversation,
    NotAChat,
    dict_of,
    list_of,
    seconds_of,
    text_of,
    with_thought,
)

_CITATION = re.compile("\ue200[^\ue200\ue201]{0,2000}+\ue201")
"""A mark of a source in the text, which means nothing outside ChatGPT. It never goes back."""
_IGNORED = frozenset(
    "reasoning_recap user_editable_context model_editable_context app_pairing_content".split()
)
_TOOLS = frozenset(
    "tether_quote tether_browsing_display tether_browsing_code sonic_webpage search_result".split()
)
_MOST_NODES = 100_000
_REPEATED, _FREE = 4, 1 << 18
"""How often branches may repeat a chat's characters, and characters that any chat may have."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts in a row. Branches share their beginning, so that n of them do not take n² memory."""

    last: str = ""
    before: _Texts | None = None
    length: int = 0

    def plus(self, text: str) -> _Texts:
        return _Texts(text, self, self.length + len(text)) if text.strip() else self

    def joined(self) -> str:
        texts, at = [], self
        while at.before is not None:
            texts.append(at.last)
            at = at.before
        return "\n\n".join(reversed(texts))


@dataclass(slots=True)
class _Reply:
    """A reply as far as one of its nodes. ``number`` is set once it is stored."""

    parent: int | None
    parts: _Texts = _Texts()
    thoughts: _Texts = _Texts()
    model: str | None = None
    shown: bool = False
    number: int | None = None

    @property
    def length(self) -> int:
        return self.parts.length + self.thoughts.length


def is_conversation(value: object) -> bool:
    """Return whether an object looks like one of ChatGPT's conversations."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def read(value: dict[str, Any]) -> Conversation:
    """Return a conversation. Raises NotAChat."""
    nodes = {name: node for name, node in value["mapping"].items() if isinstance(node, dict)}
    if len(nodes) > _MOST_NODES:
        raise NotAChat(f"it has more than {_MOST_NODES:,} messages")
    found = Conversation(
        title=text_of(value.get("title")),
        updated=seconds_of(value.get("update_time")) or seconds_of(value.get("create_time")),
    )
    _Tree(found, nodes, _path(nodes, value.get("current_node"))).walk()
    if not found.messages:
        raise NotAChat("it has no messages")
    return found


def _path(nodes: dict[str, Any], last: object) -> frozenset[str]:
    """Return the nodes from ``last`` up to the first."""
    path: set[str] = set()
    while isinstance(last, str) and last in nodes and last not in path:
        path.add(last)
        last = nodes[last].get("parent")
    return frozenset(path)


class _Tree:
    """Turns the nodes of a conversation into its messages, parents first."""

    def __init__(self, found: Conversation, nodes: dict[str, Any], path: frozenset[str]) -> None:
        self._found, self._nodes, self._path = found, nodes, path
        self._seen: set[str] = set()
        self._room = _FREE

    def walk(self) -> None:
        roots = [
            name for name, node in self._nodes.items() if node.get("parent") not in self._nodes
        ]
        stack: list[tuple[str, int | None, _Reply | None]] = [
            (name, None, None) for name in reversed(roots)
        ]
        while stack:
            name, parent, reply = stack.pop()
            if name in self._seen:
                continue
            self._seen.add(name)
            parent, reply = self._take(name, parent, reply)
            children = self._children(name)
            if not children and reply is not None:
                self._store(reply)
            stack += [(child, parent, reply) for child in reversed(children)]

    def _children(self, name: str) -> list[str]:
        named = list_of(self._nodes[name].get("children"))
        return [each for each in named if isinstance(each, str) and each in self._nodes]

    def _take(
        self, name: str, parent: int | None, reply: _Reply | None
    ) -> tuple[int | None, _Reply | None]:
        """Take in a node; return the message after which the next one stands, and the reply that the next
        one may continue."""
        message = dict_of(self._nodes[name].get("message"))
        role = dict_of(message.get("author")).get("role")
        if role not in ("user", "assistant", "tool") or _is_hidden(message):
            return parent, reply
        shown = name in self._path
        if role == "user":
            text = self._text(message)
            if not text.strip():
                return parent, reply
            if reply is not None:
                parent = self._store(reply)
            return self._found.add("user", text, parent, shown=shown), None
        longer = _Reply(parent) if reply is None else replace(reply, number=None)
        known, longer.shown = longer.length, shown
        longer.model = text_of(dict_of(message.get("metadata")).get("model_slug")) or longer.model
        self._extend(longer, message)
        self._room += _REPEATED * (longer.length - known)
        return parent, longer

    def _store(self, reply: _Reply) -> int | None:
        """Store a reply, once; return its number, or its parent's if it has no text."""
        if reply.number is None and reply.parts.length:
            self._room -= reply.length
            if self._room < 0:
                raise NotAChat("the branches of its replies repeat too much text")
            text = with_thought(reply.thoughts.joined(), reply.parts.joined())
            reply.number = self._found.add(
                "assistant", text, reply.parent, shown=reply.shown, model=reply.model
            )
        return reply.parent if reply.number is None else reply.number

    def _extend(self, reply: _Reply, message: dict[str, Any]) -> None:
        content = dict_of(message.get("content"))
        kind = content.get("content_type")
        if kind == "thoughts":
            for each in list_of(content.get("thoughts")):
                texts = (text_of(dict_of(each).get(name)) for name in ("summary", "content"))
                reply.thoughts = reply.thoughts.plus("\n".join(filter(None, texts)))
        elif dict_of(message.get("author")).get("role") == "tool" and kind not in (
            "execution_output",
            "multimodal_text",
        ):
            self._found.left_out[TOOL] += 1
        else:
            reply.parts = reply.parts.plus(self._text(message))

    def _text(self, message: dict[str, Any]) -> str:
        content = dict_of(message.get("content"))
        kind, recipient = content.get("content_type"), message.get("recipient")
        if kind in _IGNORED:
            return ""
        if kind in _TOOLS or (recipient not in (None, "all") and recipient != "python"):
            self._found.left_out[TOOL] += 1
            return ""
        if kind == "code":
            language = text_of(content.get("language"))
            named = language if language not in ("", "unknown") else "python"
            return _block(text_of(content.get("text")), named)
        if kind == "execution_output":
            return _block(text_of(content.get("text")))
        texts = [self._part(part) for part in list_of(content.get("parts"))]
        texts.append("" if texts else text_of(content.get("text")))
        text = _CITATION.sub("", "\n".join(filter(None, texts)))
        if recipient == "python" and kind == "text":
            text = _block(text, "python")
        return "\n\n".join(filter(None, (*self._files(message), text)))

    def _part(self, part: object) -> str:
        if isinstance(part, str):
            return part
        value = dict_of(part)
        kind = text_of(value.get("content_type"))
        if text_of(value.get("text")):  # of a recording, what was said
            return text_of(value["text"])
        if "image" in kind:
            self._found.left_out[PICTURE] += 1
            drawn = dict_of(dict_of(value.get("metadata")).get("dalle")).get("prompt")
            return f"[Picture left out: {drawn}]" if text_of(drawn) else "[Picture left out]"
        if "audio" in kind or "video" in kind:
            self._found.left_out[SOUND] += 1
            return "[Recording left out]"
        return ""

    def _files(self, message: dict[str, Any]) -> list[str]:
        """Return a line for each attached file; pictures are told by the message's parts."""
        lines = []
        for each in list_of(dict_of(message.get("metadata")).get("attachments")):
            name, kind = (text_of(dict_of(each).get(key)) for key in ("name", "mime_type"))
            if not kind.startswith("image/"):
                self._found.left_out[FILE] += 1
                lines.append(f"[File left out: {name or 'without a name'}]")
        return lines


def _is_hidden(message: dict[str, Any]) -> bool:
    metadata = dict_of(message.get("metadata"))
    return bool(metadata.get("is_visually_hidden_from_conversation")) or message.get("weight") == 0


def _block(text: str, language: str = "") -> str:
    return fenced(text, language) if text.strip() else ""
