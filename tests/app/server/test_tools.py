"""Tools over a real socket: asked for by the openai package, called by Pip, who knows nothing of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from openai import OpenAI

from app.paths import catalog_file
from app.server.answer import Answer, chat_reason
from app.server.responses.job import Job
from app.server.responses.response_store import ResponseStore
from app.server.responses.schemas import ResponseBody
from engine.api import LoadRequest
from engine.events import Emitted, Finished, FinishReason
from engine.loading.catalog import open_catalog
from engine.request import Request
from engine.tool_calls.styles import HERMES
from engine.values.grammar import Grammar, GrammarKind
from engine.values.messages import Message
from engine.values.tools import Tool, ToolCall
from tests.support.fake_engine import FakeEngine
from tests.support.serving import Served

ASK: list[Any] = [{"role": "user", "content": "What is the weather?"}]


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS: Any = [
    tool("get_weather", city={"enum": ["Rome", "Oslo"]}),
    tool("add", a={"type": "integer", "minimum": 0, "maximum": 99}),
]


def test_a_call_its_answer_and_the_next_reply(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {"model": server.model, "tools": TOOLS, "max_tokens": 150}
    choice = client.chat.completions.create(**ask, messages=ASK, tool_choice="required").choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    calls = choice.message.tool_calls or []
    assert calls and {call.function.name for call in calls} <= {"get_weather", "add"}
    for call in calls:
        assert json.loads(call.function.arguments).keys() <= {"city", "a"}
    answers = [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny <|end|>"} for call in calls
    ]
    again = client.chat.completions.create(
        **ask, messages=[*ASK, choice.message.model_dump(exclude_none=True), *answers]
    )
    assert again.usage.prompt_tokens > len(calls)
    assert again.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_a_named_tool_is_called_alone_and_streamed(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {
        "model": server.model,
        "messages": ASK,
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "max_tokens": 100,
        "temperature": 0.9,
        "seed": 4,
    }
    whole = client.chat.completions.create(**ask).choices[0].message.tool_calls
    assert whole is not None and [call.function.name for call in whole] == ["get_weather"]
    with client.chat.completions.stream(**ask) as stream:
        chunks = [event.chunk for event in stream if event.type == "chunk"]
        last = stream.get_final_completion().choices[0]
    assert last.message.tool_calls[0].function.arguments == whole[0].function.arguments
    assert last.finish_reason == "tool_calls"
    deltas = [
        call for chunk in chunks for each in chunk.choices for call in each.delta.tool_calls or []
    ]
    assert deltas[0].id and deltas[0].type == "function" and deltas[0].function.arguments == ""
    assert all(delta.index == 0 and delta.id is None for delta in deltas[1:])
    assert len(deltas) > 2  # as it is written, and not at once
    assert "".join(each.delta.content or "" for chunk in chunks for each in chunk.choices) == ""


def test_tools_are_the_models_own_choice_and_none_is_told_of_none(server, client: OpenAI) -> None:
    ask: dict[str, Any] = {"model": server.model, "messages": ASK, "max_tokens": 20}
    plain = client.chat.completions.create(**ask)
    none = client.chat.completions.create(**ask, tools=TOOLS, tool_choice="none")
    assert none.choices[0].message.content == plain.choices[0].message.content
    assert none.usage.prompt_tokens == plain.usage.prompt_tokens
    auto = client.chat.completions.create(**ask, tools=TOOLS, logprobs=True)
    assert auto.usage.prompt_tokens > plain.usage.prompt_tokens
    assert auto.choices[0].message.content or auto.choices[0].message.tool_calls
    assert auto.choices[0].logprobs.content
    streamed = client.chat.completions.create(**ask, tools=TOOLS, stream=True)
    said = "".join(each.delta.content or "" for chunk in streamed for each in chunk.choices)
    assert said == (auto.choices[0].message.content or "")


def test_a_reply_that_is_the_json_of_a_call_ends_for_it() -> None:
    """Which all dialects tell by the same answer. By a schema such JSON is what was asked for."""
    text = '```json\n{"name": "find", "arguments": {"q": "a"}}\n```'
    request = Request(messages=(Message("user", "Find a"),), tools=(Tool("find"),))
    finished = Finished(reason=FinishReason.STOP, tail="", text=text, token_ids=None)
    answer = Answer(request, HERMES)
    for event in (Emitted(text=text[:9]), Emitted(text=text[9:]), finished):
        answer.add(event)
    assert [(call.name, call.arguments) for call in answer.called] == [("find", '{"q": "a"}')]
    assert answer.content == "" and chat_reason(answer) == "tool_calls"
    answer = Answer(replace(request, grammar=Grammar(GrammarKind.JSON_OBJECT)), HERMES)
    for event in (Emitted(text=text), finished):
        answer.add(event)
    assert (answer.content, answer.called, chat_reason(answer)) == (text, [], "stop")


def test_a_call_that_a_stop_string_cut_is_told_as_cut() -> None:
    """Agents ran it, with half of its arguments."""
    text = 'Well: <tool_call>\n{"name": "find", "arguments": {"q": "a'
    request = Request(messages=(Message("user", "Find a"),), tools=(Tool("find"),))
    answer = Answer(request, HERMES)
    for event in (Emitted(text=text), Finished(FinishReason.STOP, "", text, None, stop_string="b")):
        answer.add(event)
    assert [call.arguments for call in answer.called] == ['{"q": "a']
    assert chat_reason(answer) == "stop"
    engine = FakeEngine(catalog=lambda: open_catalog(catalog_file()))
    loaded = engine.load(LoadRequest(target="pip"))
    job = Job(ResponseBody(input="Find a"), loaded, (), (), ResponseStore())
    items = job.output("completed", answer)
    assert [item["status"] for item in items] == ["completed", "incomplete"]


def test_text_and_two_calls_are_told_whole_and_in_a_stream(caller: Served) -> None:
    """Calls in doubled braces, as Qwen2.5-Coder writes them, were text, with finish_reason stop."""
    ask: dict[str, Any] = {"model": "default", "messages": ASK, "tools": TOOLS}
    with OpenAI(base_url=f"{caller.url}/v1", api_key="unused", max_retries=0) as client:
        (choice,) = client.chat.completions.create(**ask).choices
        chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**ask, stream=True)]
    assert choice.message.content == "Let me look.\n"
    cities = [json.loads(call.function.arguments) for call in choice.message.tool_calls]
    assert cities == [{"city": "Rome"}, {"city": "Oslo"}]
    assert choice.finish_reason == chunks[-1].finish_reason == "tool_calls"
    assert "".join(chunk.delta.content or "" for chunk in chunks) == choice.message.content
    told = [call for chunk in chunks for call in chunk.delta.tool_calls or ()]
    assert [call.function.name for call in told if call.id] == ["get_weather"] * 2
    arguments = ["", ""]
    for call in told:
        arguments[call.index] += call.function.arguments
    assert [json.loads(each) for each in arguments] == cities


def test_a_call_that_max_tokens_cut_can_be_sent_back(server, client: OpenAI) -> None:
    """It was a 400, at which the client's agent ended."""
    ask: dict[str, Any] = {"model": server.model, "tools": TOOLS, "tool_choice": "required"}
    for limit in range(60, 0, -1):
        reply = client.chat.completions.create(**ask, messages=ASK, max_tokens=limit)
        message = reply.choices[0].message
        if message.tool_calls and not message.tool_calls[-1].function.arguments.endswith("}"):
            break
    history = [*ASK, message.model_dump(exclude_none=True)]
    history += [
        {"role": "tool", "tool_call_id": call.id, "content": "Cut."} for call in message.tool_calls
    ]
    again = client.chat.completions.create(model=server.model, messages=history, max_tokens=4)
    made = tuple(
        ToolCall(call.id, call.function.name, call.function.arguments or "{}")
        for call in message.tool_calls
    )
    chat = (
        Message("user", ASK[0]["content"]),
        Message("assistant", "", made),
        *(
            Message("tool", "Cut.", tool_call_id=call.id, name=call.function.name)
            for call in message.tool_calls
        ),
    )
    *_, finished = server.direct(Request(messages=chat, max_tokens=4))
    assert again.choices[0].message.content == finished.text


def test_of_a_call_cut_before_its_arguments_no_markup_is_said(server, client: OpenAI) -> None:
    """``<tool_call>`` and half a name stood in the content."""
    ask: dict[str, Any] = {"model": server.model, "messages": ASK, "tools": TOOLS}
    for limit in (1, 3, 9):
        cut = {**ask, "tool_choice": "required", "max_tokens": limit}
        choice = client.chat.completions.create(**cut).choices[0]
        assert choice.finish_reason == "length"
        assert not choice.message.content and not choice.message.tool_calls
        chunks = [
            each
            for chunk in client.chat.completions.create(**cut, stream=True)
            for each in chunk.choices
        ]
        assert not any(each.delta.content or each.delta.tool_calls for each in chunks)
        assert chunks[-1].finish_reason == "length"
        response = client.responses.create(
            model=server.model,
            input="What is the weather?",
            tools=[{"type": "function", **each["function"]} for each in TOOLS],
            tool_choice="required",
            max_output_tokens=limit,
        )
        assert (response.status, response.output_text) == ("incomplete", "")


def taking(parameters: dict[str, Any]) -> Any:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@pytest.mark.parametrize("parameters", [{"properties": {}}, {"type": ["null", "object"]}])
def test_arguments_are_an_object_whatever_the_schema_leaves_open(
    server, client: OpenAI, parameters: dict[str, Any]
) -> None:
    """They were lists and null, with the markup behind the call among them."""
    reply = client.chat.completions.create(
        model=server.model,
        messages=ASK,
        tools=[taking(parameters)],
        tool_choice="required",
        max_tokens=80,
    )
    (call, *_) = reply.choices[0].message.tool_calls
    assert call.function.arguments.startswith("{") and "</tool_call>" not in call.function.arguments


BAD = {"type": "function", "function": {"name": "f", "parameters": {"type": "nonsense"}}}
BROKEN = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{"}}
ANSWER = {"role": "tool", "content": "1"}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"tools": [TOOLS[0], BAD]}, "tools[1].function.parameters"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [taking({"type": "string"})]}, "tools[0].function.parameters"),
        ({"tools": [taking({"type": ["null"]})]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "sub"}}},
            "tool_choice",
        ),
        ({"tools": TOOLS, "structured_outputs": {"regex": "a"}}, "structured_outputs.regex"),
        ({"functions": [{"name": "add"}]}, "functions"),
        (
            {"messages": [*ASK, {"role": "assistant", "tool_calls": [BROKEN]}, ANSWER]},
            "messages[2].tool_call_id",
        ),
        ({"messages": [*ASK, {**ANSWER, "tool_call_id": "1"}]}, "messages[1].tool_call_id"),
        ({"messages": [{"role": "user", "tool_calls": [BROKEN]}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ],
)
def test_what_cannot_be_is_a_400_that_names_the_field(
    server, http: Any, asked: dict[str, Any], param: str
) -> None:
    found = http.post("/v1/chat/completions", json={"messages": ASK, "max_tokens": 1, **asked})
    assert found.status_code == 400, found.text
    assert found.json()["error"]["param"].startswith(param), found.text
