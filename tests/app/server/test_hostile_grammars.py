"""Grammars of strangers over the API: refused in words, while other clients are served."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from engine.values.grammar import Grammar, GrammarKind
from tests.app.server.conftest import Server
from tests.support.hostile_grammars import HOSTILE, LATE

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "Say it."}], "max_tokens": 30}
FIELDS = (
    "structured_outputs.json",
    "structured_outputs.regex",
    "structured_outputs.grammar",
)
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3}


def body_of(grammar: Grammar) -> dict[str, Any]:
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        return ASK | {"structured_outputs": {"json": grammar.text}}
    kind = "regex" if grammar.kind is GrammarKind.REGEX else "grammar"
    return ASK | {"structured_outputs": {kind: grammar.text}}


def post(server: Server, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)


def test_hostile_grammars_are_400s_and_nobody_else_waits(server: Server) -> None:
    def attack() -> dict[str, httpx.Response]:
        return {name: post(server, body_of(grammar)) for name, (grammar, _) in HOSTILE.items()}

    def said() -> str:
        answer = post(server, ASK | {"temperature": 0}).json()
        return str(answer["choices"][0]["message"]["content"])

    plain, waits = said(), []
    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        attacked = pool.submit(attack)
        while not attacked.done():
            began = time.monotonic()
            assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
            waits.append(time.monotonic() - began)
            assert said() == plain
            time.sleep(0.1)
        whole = time.monotonic() - start
    # One grammar had stopped all others for 8 s, most of the whole time on any machine.
    assert waits and max(waits) < 0.5 * whole
    for name, answer in attacked.result().items():
        assert answer.status_code == 400, (name, answer.text)
        error = answer.json()["error"]
        assert error["param"] in FIELDS
        assert "Correct it" in error["message"], (name, error)


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_fails_on_the_way_ends_with_an_error(server: Server, stream: bool) -> None:
    """It once ended as ``stop`` behind half a reply, or in a 500."""
    body = body_of(LATE) | {"max_tokens": 200, "temperature": 1.0, "seed": 1, "stream": stream}
    answer = post(server, body)
    error = (
        json.loads(answer.text.split("data: ")[-2])["error"] if stream else answer.json()["error"]
    )
    assert answer.status_code == (200 if stream else 400)
    assert "grammar cannot be followed beyond the" in error["message"]
    assert "Simplify it" in error["message"]
    assert post(server, ASK).status_code == 200


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (OPEN, "one could appear twice"),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, "one could appear twice"),
    ],
)
def test_strict_promises_no_name_twice_or_refuses(
    server: Server, schema: dict[str, Any], why: str
) -> None:
    given = {"name": "x", "schema": schema, "strict": True}
    answer = post(server, ASK | {"response_format": {"type": "json_schema", "json_schema": given}})
    error = answer.json()["error"]
    assert answer.status_code == 400 and why in error["message"]
    assert error["param"] == "response_format.json_schema.schema"
    function = {"name": "f", "parameters": schema, "strict": True}
    answer = post(server, ASK | {"tools": [{"type": "function", "function": function}]})
    error = answer.json()["error"]
    assert answer.status_code == 400 and why in error["message"]
    assert error["param"] == "tools[0].function.parameters"
    answer = post(server, ASK | {"structured_outputs": {"json": OPEN}})
    assert answer.status_code == 400 and "minProperties cannot be enforced" in answer.text
