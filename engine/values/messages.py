"""The turns of a chat."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.tools import ToolCall


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role ``system``, ``user``, ``assistant`` or ``tool``.

    ``reasoning``: an assistant's earlier thoughts; the chat template decides which are rendered.
    ``tool_calls`` are an assistant's; ``tool_call_id`` and ``name`` identify the call and the tool
    that a tool's message answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str = ""
