"""The OpenAPI document says what is accepted: its routes answer, and its schemas are the checks."""

from __future__ import annotations

import httpx
import pytest

from app.server import document


def test_every_operation_of_the_document_is_served(server, http: httpx.Client) -> None:
    told = http.get("/v1/openapi.json").json()
    assert told == document.build()
    assert told["openapi"].startswith("3.1")
    for path, operations in told["paths"].items():
        for method in operations:
            reply = http.request(method, path.replace("{name}", "none"), content=b"{}")
            said = reply.text if reply.status_code >= 400 else ""
            assert "There is no" not in said or "{name}" in path, path
            assert reply.status_code in (200, 400) or "{name}" in path, path
            assert reply.status_code < 500, path


def test_what_is_read_can_be_asked_for_by_its_head(server, http: httpx.Client) -> None:
    for path, operations in document.build()["paths"].items():
        if "get" in operations and "{" not in path:
            head = http.head(path)
            assert (head.status_code, head.content) == (200, b""), path


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages", "top_logprobs", "logit_bias", "prediction", "top_k"}),
        ("/v1/completions", {"prompt", "logprobs", "speculation"}),
        ("/v1/responses", {"input", "instructions", "previous_response_id"}),
        ("/v1/messages", {"messages", "system", "stop_sequences", "thinking", "speculation"}),
        ("/v1/messages/count_tokens", {"messages", "tools"}),
        ("/api/chat", {"messages", "options"}),
    ],
)
def test_its_schemas_name_the_fields(path: str, fields: set[str]) -> None:
    told = document.build()
    body = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rpartition("/")[2]
    assert fields <= told["components"]["schemas"][name]["properties"].keys()
