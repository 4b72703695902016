"""Chat templates: Jinja programs that come with a model and turn a chat into its prompt.

A template is somebody else's program. It runs in a worker process, which can be killed, on plain values
and within limits of time, memory and output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import InvalidRequest
from engine.machine.worker_process import LimitExceeded, Limits, WorkerPool

Turns = list[dict[str, Any]]
"""Messages as chat templates take them: role and content, and where there are any, calls of tools."""
Tools = list[dict[str, Any]] | None
"""Definitions of tools as templates take them; None: there are none."""
Render = Callable[[Turns, Tools], str]

_WORKERS = WorkerPool(
    "engine.models.checkpoints.template_environment:render",
    Limits(seconds=3.0, memory=512 << 20, answer=64 << 20),
)


def renderer(template: str, tokens: Mapping[str, str]) -> Render:
    """Return a function that renders a chat by ``template``, open for the assistant's reply.

    ``tokens`` are the special ones that a template may name: "bos_token" and the like. The function
    raises InvalidRequest where the template exceeds its limits, and WorkFailed where it raises.
    """
    _WORKERS.start()

    def render(turns: Turns, tools: Tools = None) -> str:
        chat = {"messages": turns, "tools": tools, "documents": None, "add_generation_prompt": True}
        try:
            made: str = _WORKERS.call({**chat, **tokens, "template": template})
        except LimitExceeded as limit:
            raise InvalidRequest(
                "messages",
                f"This model's chat template was stopped: it {limit}. Its file is damaged or made to "
                "do harm: load the model from another source, or use /v1/completions, which needs no "
                "template.",
            ) from limit
        return made

    return render
