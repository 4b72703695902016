"""Bodies of Anthropic's routes, and the fields that are refused.

Ignored, like all unknown fields, are those about billing, and ``cache_control``: all prompts are cached.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.server.errors import Refused, is_nothing
from app.server.fields.schemas import MAX_MESSAGES, SpeculationBody, as_parts
from app.server.fields.structured import Body

OTHERS = "url", "file"
"""Kinds of sources that this server would have to fetch."""


class SourceBody(Body):
    """Where the content of an image or a document is."""

    type: str
    media_type: str | None = None
    data: str | None = None
    content: Blocks | None = None


class BlockBody(Body):
    """A block of any type; those of a type are checked where they are converted."""

    type: str
    text: str | None = None
    source: SourceBody | str | None = None
    title: str | None = None
    context: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: Blocks | None = None
    is_error: bool | None = None


Blocks = Annotated[
    list[BlockBody],
    Field(max_length=MAX_MESSAGES),
    BeforeValidator(partial(as_parts, what="blocks"), json_schema_input_type=str | list[BlockBody]),
]


class AnthropicMessage(Body):
    role: Literal["user", "assistant", "system"]
    content: Blocks


class AnthropicTool(Body):
    """A tool that the client runs. Anthropic's own have a ``type`` with a date."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class AnthropicChoice(Body):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class AnthropicThinking(Body):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(Body):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Body):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class CountBody(Body):
    """The fields that make the prompt. ``model`` may be absent here, as in the other APIs."""

    model: str | None = None
    messages: Annotated[list[AnthropicMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    system: Blocks | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicChoice | None = None
    thinking: AnthropicThinking | None = None
    output_config: OutputConfig | None = None
    thread: dict[str, Any] | None = None


class MessagesBody(CountBody):
    """``seed``, ``speculation`` and ``spec_decode_metrics`` are Foretoken's own."""

    max_tokens: int
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    speculation: SpeculationBody | None = None
    spec_decode_metrics: Literal["summary", "detailed"] | None = None

    @property
    def omits_thought(self) -> bool:
        """True if the thought's text is not wanted."""
        return self.thinking is not None and self.thinking.display == "omitted"


REFUSED_IN_MESSAGES: Refused = {
    "container": ("containers, in which Anthropic's servers run code", is_nothing),
    "mcp_servers": ("servers of tools that it would have to call; send tools", is_nothing),
    "output_format": ("this older field; use output_config.format", is_nothing),
}
