"""Bodies of the routes on tokens, and the fields that are refused."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.server.errors import missing
from app.server.fields.schemas import (
    MAX_IDS,
    MAX_MESSAGES,
    ChatBody,
    GenerationBody,
    MessageBody,
    checked,
)
from app.server.fields.structured import Body
from app.server.fields.thinking import ThinkingBody
from app.server.fields.tools import ToolsBody
from app.server.fields.unsupported import REFUSED, Refused

MOST_EXTRA = 1024
"""Other files of an infill, at most."""


class TemplateBody(ToolsBody, ThinkingBody):
    """The fields of a chat that make its prompt."""

    model: str | None = None
    messages: Annotated[list[MessageBody], Field(max_length=MAX_MESSAGES)] | None = None
    continue_final_message: bool | None = None

    @property
    def chat(self) -> ChatBody:
        """The chat. Raises ApiError without messages."""
        if not self.messages:
            raise missing("messages")
        names = ChatBody.model_fields.keys() & type(self).model_fields.keys()
        return checked(ChatBody, self.model_dump(include=set(names), exclude_none=True))


class TokenizeBody(TemplateBody):
    """llama.cpp's ``content``, or vLLM's ``prompt`` or ``messages``."""

    content: str | None = None
    prompt: str | None = None
    add_special: bool | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Body):
    model: str | None = None
    tokens: Annotated[list[int], Field(max_length=MAX_IDS)]


class ExtraBody(Body):
    """Another file, as context."""

    filename: str | None = None
    text: str


class InfillBody(GenerationBody):
    """llama.cpp's fields. ``prompt`` is more of the text before the cursor."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[list[ExtraBody], Field(max_length=MOST_EXTRA)] | None = None
    prompt: str = ""
    n_predict: int | None = None

    @property
    def limit(self) -> int | None:
        return self.max_tokens if self.n_predict is None else self.n_predict

    def engine_names(self) -> dict[str, str]:
        limit = {} if self.n_predict is None else {"max_tokens": "n_predict"}
        return {**super().engine_names(), "messages": "input_prefix", **limit}


_SAMPLERS = ("top_k", "top_p", "min_p", "temperature", "penalties", "infill", "dry", "xtc", "typ_p")
"""Those that llama.cpp has by default, and the one that plugins of editors send."""


def _are_known(samplers: Any) -> bool:
    return not samplers or (
        isinstance(samplers, list) and all(one in _SAMPLERS for one in samplers)
    )


REFUSED_IN_INFILL: Refused = {
    **REFUSED,
    "n": ("several choices", lambda value: value in (None, 1)),
    "samplers": ("other samplers", _are_known),
}
