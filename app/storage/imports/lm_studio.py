"""Conversations of LM Studio (``*.conversation.json`` in its folder ``conversations``).

Each message has versions, of which one is selected. A version is a single step with content, or several
steps: blocks of content, calls of tools, notes on how it was made. Blocks may be of the style "thinking".
"""

from __future__ import annotations

from typing import Any

from app.storage.imports.conversation import (
    FILE,
    PICTURE,
    TOOL,
    Conversation,
    NotAChat,
    dict_of,
    list_of,
    seconds_of,
    text_of,
    with_thought,
)
from app.storage.rows import SystemPrompt

_SYSTEM = "llm.prediction.systemPrompt"
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp")


def is_conversation(value: object) -> bool:
    """Return whether an object looks like one of LM Studio's conversations."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return all(isinstance(each, dict) and "versions" in each for each in value["messages"])


def read(value: dict[str, Any]) -> Conversation:
    """Return a conversation, with all versions of its messages. Raises NotAChat."""
    prompt = text_of(value.get("systemPrompt")) or _configured(value)
    times = ("assistantLastMessagedAt", "userLastMessagedAt", "createdAt")
    found = Conversation(
        title=text_of(value.get("name")),
        system=SystemPrompt("", prompt) if prompt.strip() else None,
        updated=next(filter(None, (seconds_of(value.get(each), 1e-3) for each in times)), None),
    )
    parent: int | None = None
    for message in value["messages"]:
        parent = _add(found, message, parent)
    if not found.messages:
        raise NotAChat("it has no messages")
    return found


def _configured(value: dict[str, Any]) -> str:
    for each in list_of(dict_of(value.get("perChatPredictionConfig")).get("fields")):
        if isinstance(each, dict) and each.get("key") == _SYSTEM:
            return text_of(each.get("value"))
    return ""


def _add(found: Conversation, message: dict[str, Any], parent: int | None) -> int | None:
    """Add the versions of a message beside each other; return the one after which the next stands."""
    selected, last = message.get("currentlySelected"), parent
    for number, version in enumerate(list_of(message.get("versions"))):
        if not isinstance(version, dict) or version.get("role") not in ("user", "assistant"):
            continue
        text = _text(found, version)
        if not text.strip():
            continue
        model = text_of(dict_of(version.get("senderInfo")).get("senderName"))
        shown = number == selected
        added = found.add(version["role"], text, parent, shown=shown, model=model or None)
        if shown or last == parent:
            last = added
    return last


def _text(found: Conversation, version: dict[str, Any]) -> str:
    steps = version.get("steps")
    if not isinstance(steps, list):
        return _content(found, version.get("content"))
    texts: list[str] = []
    thoughts: list[str] = []
    for step in steps:
        if not isinstance(step, dict):
            continue
        if step.get("type") == "contentBlock":
            thinks = dict_of(step.get("style")).get("type") == "thinking"
            (thoughts if thinks else texts).append(_content(found, step.get("content")))
        elif step.get("type") in ("toolStatus", "toolCall"):
            found.left_out[TOOL] += 1
    thought = "\n\n".join(filter(str.strip, thoughts)).strip()
    thought = thought.removeprefix("<think>").removesuffix("</think>").strip()
    return with_thought(thought, "".join(texts))


def _content(found: Conversation, content: object) -> str:
    """Return the text of a list of contents; others are named, and counted as left out."""
    parts: list[str] = []
    for each in list_of(content):
        if not isinstance(each, dict):
            continue
        kind = each.get("type")
        if kind == "text":
            parts.append(text_of(each.get("text")))
        elif kind in ("file", "image"):
            name = text_of(each.get("fileIdentifier")) or text_of(each.get("name"))
            picture = kind == "image" or each.get("fileType") == "image"
            picture = picture or name.lower().endswith(_PICTURES)
            found.left_out[PICTURE if picture else FILE] += 1
            parts.append(
                f"[{'Picture' if picture else 'File'} left out: {name or 'without a name'}]\n\n"
            )
        elif kind in ("toolCallRequest", "toolCallResult"):
            found.left_out[TOOL] += kind == "toolCallRequest"
    return "".join(parts)
