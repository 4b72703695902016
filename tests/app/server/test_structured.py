"""Replies by a schema or a grammar, asked by the openai package over a real socket."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest
from openai import BadRequestError, OpenAI
from pydantic import BaseModel, Field

ASK: list[Any] = [{"role": "user", "content": "Tell me of a fox, as JSON."}]


class Fox(BaseModel):
    name: str = Field(max_length=10)
    colour: Literal["red", "grey"]
    cubs: list[bool] = Field(max_length=3)


def test_a_reply_is_parsed_into_a_class_whatever_pip_thinks(server, client: OpenAI) -> None:
    for seed in range(3):
        reply = client.chat.completions.parse(
            model=server.model,
            messages=ASK,
            response_format=Fox,
            temperature=1.2,
            seed=seed,
            max_tokens=200,
        )
        assert reply.choices[0].finish_reason == "stop"
        assert isinstance(reply.choices[0].message.parsed, Fox)


@pytest.mark.parametrize("seed", range(3))
def test_no_reply_in_json_fills_up_with_spaces(server, client: OpenAI, seed: int) -> None:
    """Any object was once written with as much space as the model liked, which could be all it wrote."""
    given: dict[str, Any] = {"model": server.model, "temperature": 1.5}
    limits: dict[str, Any] = {"extra_body": {"seed": seed}}
    chat = client.chat.completions.create(
        **given, **limits, messages=ASK, max_tokens=60, response_format={"type": "json_object"}
    )
    response = client.responses.create(
        **given,
        **limits,
        input=ASK,
        max_output_tokens=60,
        text={"format": {"type": "json_object"}},
    )
    for text in (chat.choices[0].message.content, response.output_text):
        bare = re.sub(r'"(\\.|[^"\\])*("|$)', "", text)
        assert text.startswith("{") and not re.search(r"\s\s|[\n\t]", bare), text


def test_what_is_cut_is_the_beginning_of_what_it_would_be(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {"model": server.model, "messages": ASK}
    ask["response_format"] = {"type": "json_object"}
    whole = client.chat.completions.create(**ask, max_tokens=60).choices[0]
    cut = client.chat.completions.create(**ask, max_tokens=5).choices[0]
    assert cut.finish_reason == "length"
    assert whole.message.content.startswith(cut.message.content.strip() or "{")
    assert cut.message.content.startswith("{")


@pytest.mark.parametrize(
    ("outputs", "pattern"),
    [
        ({"regex": "[0-9]{3}-[a-f]{2}"}, "[0-9]{3}-[a-f]{2}"),
        ({"choice": ["a fox", 'a "crow"']}, 'a fox|a "crow"'),
        ({"grammar": 'start: "yes" | "no"'}, "yes|no"),
        ({"grammar": 'root ::= "si" | "no"'}, "si|no"),
        ({"json": {"enum": [1, 22]}}, "1|22"),
    ],
)
def test_vllms_fields_hold_chats_and_completions(
    server, client: OpenAI, outputs: dict[str, Any], pattern: str
) -> None:
    more: dict[str, Any] = {"max_tokens": 40, "extra_body": {"structured_outputs": outputs}}
    chat = client.chat.completions.create(model=server.model, messages=ASK, **more)
    assert re.fullmatch(pattern, chat.choices[0].message.content)
    text = client.completions.create(model=server.model, prompt="Well,", **more)
    assert re.fullmatch(pattern, text.choices[0].text)
    assert text.choices[0].finish_reason == "stop"


def schema_format(schema: Any, **more: Any) -> dict[str, Any]:
    inside = {"name": "it", "schema": schema, **more}
    return {"response_format": {"type": "json_schema", "json_schema": inside}}


SCHEMA = "response_format.json_schema.schema"
UNIQUE = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


@pytest.mark.parametrize(
    ("asked", "param", "words"),
    [
        (schema_format({"type": "nonsense"}), SCHEMA, "Invalid type: nonsense"),
        (schema_format(UNIQUE, strict=True), SCHEMA, "uniqueItems"),
        (schema_format({"type": "array"}, strict=True), SCHEMA, "further names"),
        (schema_format(None), SCHEMA, "is missing"),
        ({"response_format": {"type": "json_schema"}}, SCHEMA.rpartition(".")[0], "is missing"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex", "unclosed"),
        ({"structured_outputs": {"grammar": "start: a"}}, "structured_outputs.grammar", "unknown"),
        (
            {"structured_outputs": {"structural_tag": "x"}},
            "structured_outputs.structural_tag",
            "no such field",
        ),
        ({"structured_outputs": {}}, "structured_outputs", "exactly one"),
        ({"structured_outputs": {"regex": "a"}, "ignore_eos": True}, "ignore_eos", "grammar"),
        (
            {"structured_outputs": {"regex": "a"}, **schema_format({})},
            "structured_outputs",
            "exclude each other",
        ),
        ({"guided_json": {}}, "guided_json", "structured_outputs"),
    ],
)
def test_what_cannot_be_is_a_400_that_names_the_field(
    server, client: OpenAI, asked: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.create(
            model=server.model, messages=ASK, max_tokens=1, extra_body=asked
        )
    assert refused.value.param == param and words in str(refused.value)
    assert (refused.value.code == "missing_value") == ("is missing" in words)
    assert "<state>" not in str(refused.value)


def test_a_schema_that_is_not_strict_leaves_out_what_it_cannot_enforce(
    server, client: OpenAI
) -> None:
    asked = schema_format({**UNIQUE, "items": {"type": "boolean"}, "maxItems": 2})
    reply = client.chat.completions.create(
        model=server.model, messages=ASK, max_tokens=60, extra_body=asked
    )
    assert all(isinstance(each, bool) for each in json.loads(reply.choices[0].message.content))


def test_the_other_dialects_hold_replies_to_schemas_too(server, client: OpenAI, http: Any) -> None:
    schema = Fox.model_json_schema()
    made = client.responses.parse(
        model=server.model, input="A fox, please.", text_format=Fox, max_output_tokens=200
    )
    assert isinstance(made.output_parsed, Fox)
    told = http.post(
        "/api/generate", json={"prompt": "A fox.", "format": schema, "stream": False}
    ).json()
    assert Fox.model_validate_json(told["response"])
    refused = http.post(
        "/v1/responses",
        json={"input": "x", "text": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
    )
    assert refused.json()["error"]["param"] == "text.format.schema"
    without = http.post(
        "/v1/responses", json={"input": "x", "text": {"format": {"type": "json_schema"}}}
    )
    assert without.json()["error"]["param"] == "text.format.schema"
    assert without.json()["error"]["code"] == "missing_value"
    for path in ("/v1/completions", "/v1/responses", "/api/chat"):
        body = {"prompt": "x", "input": "x", "messages": ASK, "tools": [{"type": "function"}]}
        assert http.post(path, json=body).status_code == 400
