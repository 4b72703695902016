"""Tools of servers as a model is told of them, and what their calls returned: data, within bounds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.mcp import limits
from engine.files import is_deeper
from engine.values.tools import Tool

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
"""What OpenAI's API takes in no name."""
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it. ``parameters``: a JSON schema, as JSON."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model knows it, and where its calls go."""

    tool: Tool
    server: str
    name: str


def bounded(found: Iterable[Any]) -> tuple[tuple[ServerTool, ...], tuple[str, ...]]:
    """Return the tools of a server's list that can be offered, and what was left out and why."""
    tools: dict[str, ServerTool] = {}
    left_out: list[str] = []
    for each in found:
        if max(len(tools), len(left_out)) >= limits.MOST_TOOLS:
            left_out.append(f"More than {limits.MOST_TOOLS} tools; the rest is left out.")
            break
        schema = each.input_schema or {"type": "object", "properties": {}}
        why = _wrong_name(each.name) or _wrong_schema(schema)
        if why:
            shown = "".join(filter(str.isprintable, each.name[:_LONGEST_NAME]))
            left_out.append(f"{shown}: {why}")
        else:
            parameters = json.dumps(schema, ensure_ascii=False)
            tools[each.name] = ServerTool(each.name, _short(each.description or ""), parameters)
    return tuple(tools.values()), tuple(left_out)


def _wrong_name(name: str) -> str:
    """Return why a tool's name cannot be used: MCP recommends at most 128 characters."""
    if len(name) > limits.LONGEST_NAME:
        return "its name is too long."
    return "" if name.isprintable() else "its name has characters that cannot be shown."


def _wrong_schema(schema: dict[str, Any]) -> str:
    """Return why a tool's parameters cannot be used."""
    if is_deeper(schema, limits.DEEPEST_SCHEMA):
        return "the description of its parameters is too long."
    try:
        written = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return "the description of its parameters holds an infinite number."
    if len(written) > limits.LARGEST_SCHEMA:
        return "the description of its parameters is too long."
    kind = schema.get("type", "object")
    return "" if kind == "object" else "its parameters are not an object."


def offered(tools: Iterable[tuple[str, ServerTool]]) -> tuple[OfferedTool, ...]:
    """Return tools by (server, tool) as a model is told of them, each by a name of its own.

    A tool keeps its name unless another server has one of that name; then the server's stands before it.
    """
    listed = list(tools)[: limits.MOST_OFFERED]
    times = Counter(_name(tool.name) for _, tool in listed)
    taken: set[str] = set()
    found = []
    for server, tool in listed:
        name = _name(tool.name)
        if times[name] > 1:
            name = _name(f"{server}_{tool.name}")
        name = _free(name, taken)
        taken.add(name)
        found.append(OfferedTool(Tool(name, tool.description, tool.parameters), server, tool.name))
    return tuple(found)


def fitting(tools: Sequence[OfferedTool], context: int) -> tuple[OfferedTool, ...]:
    """Return the first tools whose descriptions leave half of the context free."""
    room = limits.SHARE * context
    found = []
    for each in tools:
        room -= len(json.dumps(each.tool.definition, ensure_ascii=False))
        if room < 0:
            break
        found.append(each)
    return tuple(found)


def _name(text: str) -> str:
    return _OTHER.sub("_", text)[:_LONGEST_NAME] or "tool"


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free = f"{name[: _LONGEST_NAME - 4]}_{number}"
        number += 1
    return free


def _short(text: str) -> str:
    longest = limits.LONGEST_DESCRIPTION
    start = text[: 4 * longest]
    text = "".join(each for each in start if each in "\n\t" or each.isprintable()).strip()
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The ``text`` that a call returned. ``failed``: it is an error. ``cut``: characters left out."""

    text: str
    failed: bool = False
    cut: int = 0

    def within(self, longest: int) -> CallResult:
        """Return the result with at most so many characters, and a note of what was left out."""
        cut = len(self.text) - longest
        if cut <= 0:
            return self
        note = f"\n[{cut:,} of {len(self.text):,} characters left out]"
        return CallResult(self.text[:longest] + note, self.failed, cut)


def text_of(content: Iterable[Any], structured: Any, failed: bool) -> CallResult:
    """Return the result of a call: its texts, and a note for each part that is no text."""
    texts = [part for part in map(_part, content) if part]
    if not texts and structured is not None:
        texts = [json.dumps(structured, ensure_ascii=False)]
    whole = "\n".join(texts) or "(The tool returned nothing.)"
    # Lone surrogates and zeros cannot be stored.
    clean = whole.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return CallResult(clean, failed)


def _part(part: Any) -> str:
    match getattr(part, "type", ""):
        case "text":
            return str(part.text)
        case "image" | "audio" as kind:
            return f"[{kind}, {_one_line(part.mime_type)}, {len(part.data) * 3 // 4:,} bytes: not read]"
        case "resource_link":
            return f"{_one_line(part.name)}: {_one_line(str(part.uri))}"
        case "resource":
            held = part.resource
            text = getattr(held, "text", None)
            return str(text) if text is not None else f"[file {_one_line(str(held.uri))}: not read]"
        case other:
            return f"[{_one_line(str(other))}: not read]"


def _one_line(text: str | None) -> str:
    return " ".join((text or "unknown").split())[:200]
