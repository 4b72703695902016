"""Bodies of embeddings and ranks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from app.server.fields.schemas import prompts
from app.server.fields.structured import Body

MOST_TEXTS = 2048
"""Texts of a request, at most, as in OpenAI's API."""

Inputs = Annotated[
    list[str | list[int]],
    Field(min_length=1, max_length=MOST_TEXTS),
    BeforeValidator(prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]),
]
Dimensions = Annotated[int, Field(ge=1)]


class EmbeddingsBody(Body):
    """OpenAI's fields. ``dimensions``: so many of the first, for models that were trained for that."""

    model: str | None = None
    input: Inputs
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None


class DocumentBody(Body):
    text: str


class RerankBody(Body):
    """Cohere's and Jina's fields, which vLLM and llama.cpp have too. ``instruction`` is the model's."""

    model: str | None = None
    query: str
    documents: Annotated[list[str | DocumentBody], Field(min_length=1, max_length=MOST_TEXTS)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool | None = None
    instruction: str | None = None

    @property
    def texts(self) -> list[str]:
        return [one if isinstance(one, str) else one.text for one in self.documents]


class OllamaEmbedBody(Body):
    """Ollama cuts texts that are too long unless ``truncate`` is false."""

    model: str | None = None
    input: Any = None
    truncate: bool | None = None
    dimensions: Dimensions | None = None


class OllamaEmbeddingsBody(Body):
    """The older form, with one text."""

    model: str | None = None
    prompt: str
