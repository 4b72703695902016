"""Tools in /v1/responses, by the openai package: calls as items, their events, and what follows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from openai import APIStatusError, OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field

from engine.events import Finished
from engine.request import Request
from engine.values.messages import Message
from engine.values.tools import ToolCall
from tests.support.serving import Served

ASK = "What is the weather?"
CITY = {"enum": ["Rome", "Oslo"]}
SCHEMA = {
    "type": "object",
    "properties": {"city": CITY},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}
NAMED: Any = {"type": "function", "name": "get_weather"}


class Addition(BaseModel):
    """Adds two numbers."""

    a: int = Field(ge=0, le=99)
    b: int = Field(ge=0, le=99)


def text_of(server, *messages: Message, max_tokens: int) -> str:
    last = server.direct(Request(messages=messages, max_tokens=max_tokens))[-1]
    assert isinstance(last, Finished)
    return last.text


def test_a_call_what_it_returned_and_the_next_reply(server, client: OpenAI) -> None:
    """Whether the call is kept here or sent back, by value or by its id."""
    ask: dict[str, Any] = {"model": server.model, "input": ASK, "max_output_tokens": 100}
    first = client.responses.create(**ask, tools=[TOOL], tool_choice="required")
    assert first.status == "completed" and first.output_text == ""
    calls = [item for item in first.output if item.type == "function_call"]
    assert calls == first.output and {call.name for call in calls} == {"get_weather"}
    made = [(call.name, json.loads(call.arguments)["city"]) for call in calls]
    assert all(city in CITY["enum"] for _, city in made)
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        for call in calls
    ]
    given: dict[str, Any] = {"model": server.model, "max_output_tokens": 12}
    kept = client.responses.create(**given, previous_response_id=first.id, input=outputs)
    asked: Any = {"role": "user", "content": ASK}
    sent: Any = [asked, *(item.to_dict() for item in first.output), *outputs]
    by_value = client.responses.create(**given, input=sent)
    references: Any = [{"type": "item_reference", "id": call.id} for call in calls]
    by_id = client.responses.create(**given, input=[asked, *references, *outputs])
    whole = [
        Message("user", ASK),
        Message(
            "assistant",
            "",
            tuple(ToolCall(call.call_id, call.name, call.arguments) for call in calls),
        ),
        *(
            Message("tool", "sunny", tool_call_id=call.call_id, name="get_weather")
            for call in calls
        ),
    ]
    own = text_of(server, *whole, max_tokens=12)
    assert [kept.output_text, by_value.output_text, by_id.output_text] == [own] * 3
    items = client.responses.input_items.list(by_id.id, order="asc").data
    assert [item.type for item in items] == [
        "message",
        *["function_call"] * len(calls),
        *["function_call_output"] * len(calls),
    ]
    assert all(item.id for item in items)
    # An id that a client chose is not known to others, who might choose the same.
    secret: Any = [{"type": "message", "role": "user", "id": "msg_1", "content": "Secret"}]
    stored = client.responses.create(**given, input=secret)
    (own,) = client.responses.input_items.list(stored.id).data
    client.responses.create(**given, input=[{"type": "item_reference", "id": own.id}])
    with pytest.raises(APIStatusError, match="no stored response has an item 'msg_1'"):
        client.responses.create(**given, input=[{"type": "item_reference", "id": "msg_1"}])


def test_a_named_call_is_streamed_in_openais_events(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {
        "model": server.model,
        "input": ASK,
        "tools": [TOOL, pydantic_tool()],
        "tool_choice": NAMED,
        "max_output_tokens": 100,
        "temperature": 0.9,
        "extra_body": {"seed": 4},
    }
    (whole,) = client.responses.create(**ask).output
    with client.responses.stream(**ask) as stream:
        events = list(stream)
    deltas = [e for e in events if e.type == "response.function_call_arguments.delta"]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        *["response.function_call_arguments.delta"] * len(deltas),
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert len(deltas) > 1  # as it is written, and not at once
    opened, (call,) = events[2].item, events[-1].response.output
    assert (opened.status, opened.arguments) == ("in_progress", "")
    assert (opened.id, opened.call_id, opened.name) == (call.id, call.call_id, call.name)
    assert "".join(event.delta for event in deltas) == call.arguments == whole.arguments
    assert events[-3].arguments == events[-2].item.arguments == call.arguments
    assert events[-1].response.tools[0].name == "get_weather"
    assert events[-1].response.tool_choice.name == "get_weather"


def pydantic_tool() -> Any:
    """As the openai package makes it of a class for chats, in the form of responses."""
    function = pydantic_function_tool(Addition)["function"]
    return {"type": "function", **function}


def test_logprobs_are_those_of_the_text(server, client: OpenAI) -> None:
    """Where tools are offered too: the tokens of a stream's deltas are those of the whole."""
    ask: dict[str, Any] = {"model": server.model, "input": ASK, "max_output_tokens": 15}
    ask |= {"include": ["message.output_text.logprobs"], "tools": [TOOL]}
    with client.responses.stream(**ask) as stream:
        events = list(stream)
    (part,) = events[-1].response.output[0].content
    told = [
        entry.token
        for event in events
        if event.type == "response.output_text.delta"
        for entry in event.logprobs
    ]
    assert told == [entry.token for entry in part.logprobs] and "".join(told) == part.text
    called = client.responses.create(**{**ask, "max_output_tokens": 80}, tool_choice=NAMED)
    assert [item.type for item in called.output] == ["function_call"]


def test_arguments_are_parsed_and_tools_narrowed(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {"model": server.model, "input": ASK, "max_output_tokens": 100}
    allowed: Any = {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}
    some = client.responses.create(
        **ask, tools=[pydantic_tool(), TOOL], tool_choice=allowed, parallel_tool_calls=False
    )
    assert [item.name for item in some.output] == ["get_weather"]
    parsed = client.responses.parse(
        **ask,
        tools=[pydantic_function_tool(Addition)],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    (call,) = parsed.output
    assert isinstance(call.parsed_arguments, Addition)
    plain = client.responses.create(**ask, tools=[TOOL], tool_choice="none")
    assert plain.output_text == client.responses.create(**ask).output_text


def test_a_call_that_was_cut_is_told_and_gone_on_from(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {"model": server.model, "input": ASK, "max_output_tokens": 1000}
    whole = client.responses.create(**ask, tools=[TOOL], tool_choice=NAMED)
    for limit in range(whole.usage.output_tokens - 1, 0, -1):
        cut = client.responses.create(
            **{**ask, "max_output_tokens": limit}, tools=[TOOL], tool_choice=NAMED
        )
        assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        (call,) = cut.output
        whole_call = call.arguments == whole.output[0].arguments
        assert call.status == ("completed" if whole_call else "incomplete")
        if not whole_call:
            break
    assert whole.output[0].arguments.startswith(call.arguments)
    answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Cut."}
    again: dict[str, Any] = {"model": server.model, "max_output_tokens": 4}
    kept = client.responses.create(**again, previous_response_id=cut.id, input=[answer])
    asked: Any = {"role": "user", "content": ASK}
    sent = client.responses.create(**again, input=[asked, call.to_dict(), answer])
    made = ToolCall(call.call_id, call.name, call.arguments or "{}")
    whole_chat = (
        Message("user", ASK),
        Message("assistant", "", (made,)),
        Message("tool", "Cut.", tool_call_id=call.call_id, name="get_weather"),
    )
    own = text_of(server, *whole_chat, max_tokens=4)
    assert [kept.output_text, sent.output_text] == [own] * 2


OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "2"}
SENT = [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]


@pytest.mark.parametrize(
    ("given", "param", "status"),
    [
        ({"input": [OUTPUT]}, "input[0].call_id", 400),
        ({"input": [{"role": "tool", "content": "2"}]}, "input[0].role", 400),
        ({"input": [*SENT, {**OUTPUT, "output": None}]}, "input[1].output", 400),
        ({"input": [*SENT, {**OUTPUT, "output": [{"type": "x"}]}]}, "input[1].output[0].type", 400),
        ({"input": [{"type": "item_reference", "id": "no"}]}, "input[0].id", 404),
        ({"input": [{"id": "no"}]}, "input[0].id", 404),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input", 400),
        ({"input": [{"role": "user"}]}, "input[0].content", 400),
        ({"input": [{}]}, "input[0].role", 400),
        ({"input": [{"type": "item_reference"}]}, "input[0].id", 400),
        ({"tools": [{"type": "web_search"}]}, "tools", 400),
        ({"tools": [{"type": "function"}]}, "tools[0].name", 400),
        ({"tools": [{**TOOL, "parameters": {"type": "odd"}}]}, "tools[0].parameters", 400),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", 400),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "sub"}}, "tool_choice", 400),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice", 400),
        ({"tool_choice": "required"}, "tool_choice", 400),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice", 400),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []},
            },
            "tool_choice",
            400,
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "odd", "tools": []}},
            "tool_choice.mode",
            400,
        ),
        ({"top_logprobs": 2}, "top_logprobs", 400),
        (
            {
                "tools": [TOOL],
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "sub"}],
                },
            },
            "tool_choice",
            400,
        ),
    ],
)
def test_what_cannot_be_names_the_field(
    server, http: httpx.Client, given: dict[str, Any], param: str, status: int
) -> None:
    found = http.post("/v1/responses", json={"input": ASK, "max_output_tokens": 1, **given})
    assert found.status_code == status, found.text
    error = found.json()["error"]
    assert error["param"] == param, error
    assert param in error["message"], error


def test_a_tool_that_is_named_as_the_other_protocol_does_is_told_how(http: httpx.Client) -> None:
    inside = {"type": "function", "function": {"name": "get_weather"}}
    chat = {"messages": [{"role": "user", "content": ASK}], "tools": [inside]}
    for path, body, choice, form in (
        (
            "responses",
            {"input": ASK, "tools": [TOOL]},
            inside,
            '{"type": "function", "name": NAME}',
        ),
        ("chat/completions", chat, NAMED, '"function": {"name": NAME}'),
    ):
        found = http.post(f"/v1/{path}", json={**body, "max_tokens": 1, "tool_choice": choice})
        assert found.status_code == 400
        assert form in found.json()["error"]["message"]


def test_text_and_two_calls_are_three_items(caller: Served) -> None:
    """The same whole, as a stream, and kept; no item begins before the last has ended."""
    ask: dict[str, Any] = {"model": "default", "input": ASK, "tools": [TOOL]}
    with OpenAI(base_url=f"{caller.url}/v1", api_key="unused", max_retries=0) as client:
        whole = client.responses.create(**ask)
        with client.responses.stream(**ask) as stream:
            events = list(stream)
        kept = client.responses.retrieve(whole.id)
    assert [item.type for item in whole.output] == ["message", "function_call", "function_call"]
    assert whole.output_text == "Let me look.\n"
    cities = [json.loads(item.arguments)["city"] for item in whole.output[1:]]
    assert cities == ["Rome", "Oslo"]
    assert len({item.call_id for item in whole.output[1:]}) == 2
    assert kept.output == whole.output
    last = events[-1].response
    assert [item.type for item in last.output] == [item.type for item in whole.output]
    turns = [
        (event.type, event.output_index)
        for event in events
        if event.type in ("response.output_item.added", "response.output_item.done")
    ]
    added, done = "response.output_item.added", "response.output_item.done"
    assert turns == [(kind, at) for at in range(3) for kind in (added, done)]
    for at, item in enumerate(last.output):
        of_item = [event for event in events if getattr(event, "output_index", None) == at]
        told = "".join(e.delta for e in of_item if e.type.endswith(".delta"))
        assert told == (item.arguments if at else last.output_text)
        assert (of_item[-1].item.id, of_item[-1].item.status) == (item.id, "completed")
