"""Tools of servers as a model is told of them: their names, descriptions and parameters within bounds."""

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
