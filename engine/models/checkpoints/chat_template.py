"""Chat templates: Jinja programs that come with a model and turn a chat into its prompt.

A template is an untrusted program. It runs on plain values in a worker process that can be killed, within
limits of time, memory and output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import InvalidRequest
from engine.machine.worker_process import LimitExceeded, Limits, WorkerPool

Messages = list[dict[str, Any]]
"""Messages as chat templates take them: role, content and any tool calls."""
Tools = list[dict[str, Any]] | None
"""Definitions of tools as templates take them; None if there are none."""
Values = Mapping[str, Any]
"""Further variables of a template, such as ``enable_thinking``."""
Render = Callable[[Messages, Tools, Values], str]

_NONE: Values = {}
_WORKERS = WorkerPool(
    "engine.models.checkpoints.template_environment:render",
    Limits(seconds=3.0, memory=512 << 20, answer=64 << 20),
)


def renderer(template: str, tokens: Mapping[str, str]) -> Render:
    """Return a function that renders a chat by ``template``, up to the start of the assistant's reply.

    ``tokens``: special tokens that a template may name, as "bos_token". The function raises
    InvalidRequest if the template exceeds its limits, and WorkFailed if the template raises.
    """
    _WORKERS.start()

    def render(messages: Messages, tools: Tools = None, values: Values = _NONE) -> str:
        chat = {
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": True,
        }
        try:
            text: str = _WORKERS.call({**values, **chat, **tokens, "template": template})
        except LimitExceeded as limit:
            raise InvalidRequest(
                "messages",
                f"This model's chat template was stopped: it {limit}. The file is damaged or "
                "malicious. Get the model from another source, or use /v1/completions, which "
                "needs no template.",
            ) from limit
        return text

    return render
