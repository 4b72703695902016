"""The OpenAPI document, made from the models that check request bodies."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.server.anthropic.schemas import CountBody, MessagesBody
from app.server.embeddings import (
    EmbeddingsBody,
    OllamaEmbedBody,
    OllamaEmbeddingsBody,
    RerankBody,
)
from app.server.fields.schemas import ChatBody, CompletionBody, UnloadBody
from app.server.ollama.schemas import (
    OllamaChatBody,
    OllamaGenerateBody,
    OllamaPullBody,
    OllamaShowBody,
)
from app.server.responses.response_store import PageQuery
from app.server.responses.schemas import ResponseBody
from app.server.sending import Json
from app.server.text import DetokenizeBody, InfillBody, TemplateBody, TokenizeBody
from app.web.error_forms import Form, error_body, form_of

_BODIES: dict[str, tuple[type[BaseModel], str]] = {
    "/v1/chat/completions": (ChatBody, "A chat reply; server-sent events with `stream`."),
    "/v1/completions": (CompletionBody, "A text completion."),
    "/v1/messages": (MessagesBody, "A message of Anthropic's Messages API."),
    "/v1/messages/count_tokens": (CountBody, "Count the tokens of a message's prompt."),
    "/tokenize": (TokenizeBody, "The tokens of a text or a chat, as in llama.cpp and vLLM."),
    "/detokenize": (DetokenizeBody, "The text of tokens."),
    "/apply-template": (TemplateBody, "The text of a chat by the model's template."),
    "/infill": (InfillBody, "llama.cpp's: text between two parts of a file."),
    "/v1/models/unload": (UnloadBody, "Unload the model; the next request loads it again."),
    "/v1/responses": (ResponseBody, "A response of OpenAI's Responses API."),
    "/api/chat": (OllamaChatBody, "Ollama's chat; lines of JSON unless `stream` is false."),
    "/api/generate": (OllamaGenerateBody, "Ollama's completion."),
    "/v1/embeddings": (EmbeddingsBody, "Embeddings, by a model that is made for them."),
    "/v1/rerank": (RerankBody, "The relevance of documents, by a reranker."),
    "/api/embed": (OllamaEmbedBody, "Ollama's embeddings."),
    "/api/embeddings": (OllamaEmbeddingsBody, "Ollama's older form of them."),
    "/api/pull": (OllamaPullBody, "Ollama's download of a model, with its progress."),
    "/api/show": (OllamaShowBody, "Ollama's description of a model."),
}
_READ: dict[str, str] = {
    "/v1/models": "The loaded model, and those that can be loaded on demand.",
    "/v1/models/{name}": "One model.",
    "/v1/responses/{name}": "A stored response.",
    "/v1/responses/{name}/input_items": "Its input items.",
    "/v1/openapi.json": "This document.",
    "/health": "200 once a model is loaded.",
    "/metrics": "Metrics for Prometheus.",
    "/api/tags": "Ollama's list of models.",
    "/api/ps": "Ollama's list of loaded models.",
    "/api/version": "The program's version.",
}
_QUERIES: dict[str, type[BaseModel]] = {"/v1/responses/{name}/input_items": PageQuery}
_DELETED = {"/v1/responses/{name}": "Forgets a response."}


def _schema_of(example: Any) -> Json:
    """Return the schema of values like ``example``, where None stands for a text or null."""
    if isinstance(example, dict):
        fields = {name: _schema_of(value) for name, value in example.items()}
        return {"type": "object", "required": [*fields], "properties": fields}
    return {"type": ["string", "null"] if example is None else "string"}


_NAMES = {Form.OPENAI: "Error", Form.ANTHROPIC: "AnthropicError", Form.OLLAMA: "OllamaError"}


@cache
def build() -> Json:
    """Return the document, in OpenAPI 3.1."""
    names, schemas = models_json_schema(
        [(kind, "validation") for kind, _ in _BODIES.values()],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, Json] = {}
    for path, (kind, text) in _BODIES.items():
        body = {"required": True, **_json(names[kind, "validation"])}
        paths[path] = {"post": {**_operation(path, text), "requestBody": body}}
    for path, text in _READ.items():
        paths.setdefault(path, {})["get"] = _operation(path, text)
    for path, text in _DELETED.items():
        paths[path]["delete"] = _operation(path, text)
    errors = {
        name: _schema_of(error_body(form, 400, "", code=None)) for form, name in _NAMES.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Foretoken", "version": version("foretoken")},
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), **errors},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _json(schema: Json) -> Json:
    return {"content": {"application/json": {"schema": schema}}}


def _operation(path: str, text: str) -> Json:
    error = _NAMES[form_of({"path": path, "headers": []})]
    failed = {"description": "What went wrong.", **_json({"$ref": f"#/components/schemas/{error}"})}
    operation: Json = {
        "summary": text,
        "responses": {"200": {"description": "The answer."}, "default": failed},
    }
    if "{name}" in path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [name]
    if path in _QUERIES:
        schemas = _QUERIES[path].model_json_schema()["properties"].items()
        query = ({"name": name, "in": "query", "schema": schema} for name, schema in schemas)
        operation["parameters"] += query
    return operation
