"""Bodies of Ollama's routes, and the fields that are refused."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from app.server.fields.schemas import MAX_CHOICES, MAX_MESSAGES, SpeculationBody
from app.server.fields.structured import Body
from app.server.fields.tools import ToolBody
from app.server.fields.unsupported import NO_TOOLS, REFUSED, Refused, is_nothing
from engine.values import MAX_TOP_LOGPROBS
from engine.values.image import MAX_IMAGES

_GO = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
"""A duration as Go writes it: 5m, 1h30m, 0."""
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([\d.]+)(ns|us|µs|ms|s|m|h)")


def _duration(text: str) -> str:
    if _GO.fullmatch(text) is None:
        raise ValueError("must be a duration, such as 5m or 1h30m")
    return text


class OllamaOptions(Body):
    """The options that have an effect here; others are ignored, like all unknown fields."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    num_predict: int | None = None
    stop: str | list[str] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class OllamaFunctionCall(Body):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class OllamaCall(Body):
    """A call in an assistant's message; older clients send no id."""

    function: OllamaFunctionCall
    id: str | None = None


class OllamaMessage(Body):
    role: str
    content: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_IMAGES)] | None = None
    thinking: str | None = None
    tool_calls: Annotated[list[OllamaCall], Field(max_length=MAX_CHOICES)] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaBody(Body):
    """The fields that chat and generate share. Ollama streams unless ``stream`` is false."""

    model: str | None = None
    stream: bool | None = None
    format: Literal["json", ""] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    keep_alive: float | Annotated[str, Field(max_length=40), AfterValidator(_duration)] | None = (
        None
    )
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    speculation: SpeculationBody | None = None

    @property
    def kept_s(self) -> float | None:
        """The seconds for which the model stays in memory; below 0: always. None: as the server says."""
        time = self.keep_alive
        if not isinstance(time, str):
            return time
        parts = _PART.findall(time)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return -1.0 if time.startswith("-") and seconds else seconds

    @property
    def unloads(self) -> bool:
        """True if the model is unloaded after this request."""
        return self.kept_s == 0


class OllamaChatBody(OllamaBody):
    messages: list[OllamaMessage] = Field(default_factory=list, max_length=MAX_MESSAGES)
    tools: list[ToolBody] | None = None


class OllamaGenerateBody(OllamaBody):
    prompt: str = ""
    system: str | None = None
    images: Annotated[list[str], Field(max_length=MAX_IMAGES)] | None = None
    raw: bool | None = None
    suffix: str | None = None


class OllamaPullBody(Body):
    model: str | None = None
    name: str | None = None
    stream: bool | None = None


class OllamaShowBody(Body):
    model: str | None = None
    name: str | None = None


_REFUSED: Refused = {
    **REFUSED,
    "template": ("other templates", is_nothing),
    "context": ("context tokens; send the conversation to /api/chat", is_nothing),
}
REFUSED_IN_CHAT: Refused = {
    **_REFUSED,
    "tool_choice": (
        "tool_choice, which Ollama's protocol lacks; use /v1/chat/completions",
        lambda value: value in (None, "auto"),
    ),
}
REFUSED_IN_TEXT: Refused = {
    name: why for name, why in {**_REFUSED, **NO_TOOLS}.items() if name != "suffix"
}
