"""The turns of a chat."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.tools import ToolCall


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: role ``system``, ``user``, ``assistant`` or ``tool``.

    ``reasoning``: what an assistant thought before; the chat template decides what of it is told again.
    ``tool_calls`` are an assistant's; ``tool_call_id`` says which of them a tool's message answers, and
    ``name`` which tool that was.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str = ""
