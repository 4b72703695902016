"""The OpenAPI document, made from the models that check request bodies."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.server.fields.schemas import ChatBody, CompletionBody
from app.server.ollama.schemas import OllamaChatBody, OllamaGenerateBody, OllamaShowBody
from app.server.responses.response_store import PageQuery
from app.server.responses.schemas import ResponseBody

Json = dict[str, Any]

_BODIES: dict[str, tuple[type[BaseModel], str]] = {
    "/v1/chat/completions": (ChatBody, "A reply to a chat; server-sent events with `stream`."),
    "/v1/completions": (CompletionBody, "Text that goes on from prompts."),
    "/v1/responses": (ResponseBody, "A response of OpenAI's Responses API."),
    "/api/chat": (OllamaChatBody, "Ollama's chat; lines of JSON unless `stream` is false."),
    "/api/generate": (OllamaGenerateBody, "Ollama's completion."),
    "/api/show": (OllamaShowBody, "What Ollama tells of a model."),
}
_READ: dict[str, str] = {
    "/v1/models": "What is loaded, and what would be if it were asked for.",
    "/v1/models/{name}": "One of them.",
    "/v1/responses/{name}": "A response that is kept.",
    "/v1/responses/{name}/input_items": "What it answered.",
    "/v1/openapi.json": "This document.",
    "/health": "200 once a model is loaded.",
    "/metrics": "Figures for Prometheus.",
    "/api/tags": "Ollama's list of models.",
    "/api/ps": "Ollama's list of loaded models.",
    "/api/version": "The program's version.",
}
_QUERIES: dict[str, type[BaseModel]] = {"/v1/responses/{name}/input_items": PageQuery}
_DELETED = {"/v1/responses/{name}": "Forgets a response."}

_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_OLLAMA_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}


@cache
def build() -> Json:
    """Return the document, in OpenAPI 3.1."""
    names, schemas = models_json_schema(
        [(kind, "validation") for kind, _ in _BODIES.values()],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, Json] = {}
    for path, (kind, text) in _BODIES.items():
        body = {
            "required": True,
            "content": {"application/json": {"schema": names[kind, "validation"]}},
        }
        paths[path] = {"post": {**_operation(path, text), "requestBody": body}}
    for path, text in _READ.items():
        paths.setdefault(path, {})["get"] = _operation(path, text)
    for path, text in _DELETED.items():
        paths[path]["delete"] = _operation(path, text)
    errors = {"Error": _ERROR, "OllamaError": _OLLAMA_ERROR}
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


def _operation(path: str, text: str) -> Json:
    error = "OllamaError" if path.startswith("/api/") else "Error"
    schema = {"$ref": f"#/components/schemas/{error}"}
    failed = {
        "description": "What went wrong.",
        "content": {"application/json": {"schema": schema}},
    }
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
