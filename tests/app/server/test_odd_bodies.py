"""Good bodies with something odd in them: whatever is sent, no 5xx, and an answer in the API's form.

Schemathesis does as much and more by the API's document (``python -m tools.clients fuzz``); this is what
every run of the tests affords.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx

CASES = 12
"""Of each good body, two thirds of which are refused before anything is computed."""
SHORT = {"max_tokens": 2, "n": 1}
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**70, "", "x", " ", "\x00", "ü\u2028<|end|>", [], {}, [[]], [None], {"": {}},
    {"type": "function"}, {"type": "text"}, "auto", "none",
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "f", "description": "Tells.", "parameters": SCHEMA, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}
NAMED = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Rome"}'}}
DRAFTS = {
    "proposer": "ngram",
    "depth": 3,
    "controller": "auto",
    "options": {"prompt_lookup_min": 2},
}
PART = {"type": "text", "text": "Hello"}
COMMON = {
    "model": "default", "stream": False, "temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.01,
    "seed": 1, "stop": ["\n\n"], "logit_bias": {"5": 1}, "speculation": DRAFTS, "presence_penalty": 0.1,
    "prediction": {"type": "content", "content": [PART]}, "stream_options": {"include_usage": True},
    "spec_decode_metrics": "detailed",
}  # fmt: skip
CHAT = {
    **COMMON,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [PART]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    ],
    "logprobs": True,
    "top_logprobs": 1,
}
OLLAMA = {
    "model": "default:latest",
    "stream": False,
    "options": {"temperature": 0.5, "num_predict": 2, "stop": ["x"], "repeat_penalty": 1.1},
}
MESSAGES: dict[str, Any] = {
    "model": "default",
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {
            "role": "user",
            "content": [
                PART,
                {
                    "type": "document",
                    "title": "A",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Hens."},
                },
                {"type": "search_result", "source": "x", "title": "B", "content": [PART]},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [PART], "is_error": True}
            ],
        },
    ],
    "tools": [{"name": "f", "description": "Tells.", "input_schema": SCHEMA, "strict": True}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
    "output_config": {"effort": "low"},
}
GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions", {**CHAT, "tools": [TOOL], "tool_choice": NAMED}),
    (
        "/v1/chat/completions",
        {
            **CHAT,
            "tools": [TOOL],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [NAMED]},
            },
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
            },
        },
    ),
    (
        "/v1/completions",
        {
            **COMMON,
            "prompt": ["Once", "Two"],
            "structured_outputs": {"json": SCHEMA},
            "logprobs": 1,
        },
    ),
    (
        "/v1/responses",
        {
            **COMMON,
            "input": [
                {"role": "user", "content": "Hello"},
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "sunny"},
            ],
            "instructions": "Be brief.",
            "tools": [{"type": "function", **FUNCTION}],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            },
            "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
            "include": ["message.output_text.logprobs"],
            "metadata": {"a": "b"},
        },
    ),
    (
        "/api/chat",
        {
            **OLLAMA,
            "messages": [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
                {"role": "tool", "tool_name": "f", "content": "sunny"},
            ],
            "tools": [TOOL],
            "format": SCHEMA,
        },
    ),
    ("/api/generate", {**OLLAMA, "prompt": "Once", "system": "Be brief.", "format": "json"}),
    (
        "/v1/messages",
        {
            **MESSAGES,
            "max_tokens": 2,
            "stop_sequences": ["\n\n"],
            "temperature": 0.7,
            "stream": False,
            "speculation": DRAFTS,
            "seed": 1,
        },
    ),
    ("/v1/messages/count_tokens", MESSAGES),
    (
        "/tokenize",
        {
            "content": "Hello",
            "messages": CHAT["messages"],
            "with_pieces": True,
            "add_special": True,
            "parse_special": False,
        },
    ),
    ("/detokenize", {"tokens": [1, 2, 3], "model": "default"}),
    ("/apply-template", {"messages": CHAT["messages"], "tools": [TOOL], "tool_choice": NAMED}),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or object in it, with each of its keys."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def odd(good: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """``good`` with one or two things replaced, left out or doubled. Replies stay short."""
    body = copy.deepcopy(good)
    for _ in range(draw.choice((1, 1, 2))):
        inside, key = draw.choice(list(places(body)))
        match draw.choice(("replace", "replace", "leave out", "double")):
            case "replace":
                inside[key] = copy.deepcopy(draw.choice(ODD))
            case "leave out":
                del inside[key]
            case "double":
                if isinstance(inside, list):
                    inside.append(copy.deepcopy(inside[key]))
                else:
                    inside[f"{key}s"] = copy.deepcopy(inside[key])
    options = body.get("options")
    if isinstance(options, dict):
        options["num_predict"] = 2
    elif "options" in body:
        body["options"] = {"num_predict": 2}
    return body if "options" in body else {**body, **SHORT}


def check_error(path: str, told: Any) -> None:
    if path.startswith("/v1/messages"):
        assert told.keys() == {"type", "error"} and told["error"]["message"], told
        return
    assert told.keys() == {"error"}, told
    if path.startswith("/api/"):
        assert told["error"] and isinstance(told["error"], str), told
    else:
        assert told["error"].keys() == {"message", "type", "param", "code"}, told
        assert told["error"]["message"], told


def test_whatever_is_odd_in_a_body_is_answered_in_words(server, http: httpx.Client) -> None:
    """An empty list of allowed tools was a 500."""
    draw, statuses = random.Random(1), Counter[int]()
    for path, good in GOOD:
        assert (
            http.post(path, json={**good, **({} if "options" in good else SHORT)}).status_code
            == 200
        )
        for _ in range(CASES):
            body = odd(good, draw)
            reply = http.post(path, json=body)
            statuses[reply.status_code] += 1
            assert reply.status_code < 500, f"{reply.text[:300]}\n{path} {json.dumps(body)}"
            if reply.status_code != 200:
                check_error(path, reply.json())
            elif reply.headers["content-type"].startswith("text/event-stream"):
                assert '"engine_failed"' not in reply.text, (
                    f"{reply.text[-300:]}\n{json.dumps(body)}"
                )
    assert statuses[200] > CASES and statuses[400] > CASES, statuses
