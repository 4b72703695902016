"""What a model thinks before it answers, as DeepSeek, vLLM, llama.cpp and Ollama tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from engine.loading.request import LoadRequest
from engine.request import Request
from engine.tool_calls.styles import GEMMA4, HERMES, QWEN3_CODER, CallStyle
from engine.tool_calls.styles import LFM2 as LFM2_CALLS
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.serving import Served, fake_runtime, served

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def asked() -> list[Request]:
    return []


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, asked: list[Request]) -> Iterator[httpx.Client]:
    def script(request: Request) -> Script:
        asked.append(request)
        text = f"<think>\nIt is\n 3.\n</think>\n\n{CALL if request.tools else 'Three.'}"
        return Script([text[at : at + 3] for at in range(0, len(text), 3)])

    engine = FakeEngine(script, capabilities=replace(CAPABILITIES, calls=HERMES, grammars=True))
    runtime = fake_runtime(tmp_path_factory.mktemp("data"), engine)
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime) as running:
        assert isinstance(running, Served)
        with running.client() as client:
            yield client


def post(http: httpx.Client, path: str, **body) -> httpx.Response:
    reply = http.post(path, json={"model": "pip", **body})
    assert reply.status_code == 200, reply.text
    return reply


def test_a_chat_has_it_beside_the_content(http: httpx.Client) -> None:
    message = post(http, "/v1/chat/completions", messages=HI).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("It is\n 3.", "Three.")


def test_a_call_behind_it_is_a_call(http: httpx.Client) -> None:
    body = {"messages": HI, "tools": TOOLS}
    message = post(http, "/v1/chat/completions", **body).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("It is\n 3.", None)
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["add"]


QWEN = (
    "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=to>\n1\n</parameter>\n"
    "</function>\n</tool_call>"
)
GEMMA = '<|tool_call>call:add{a:1,to:<|"|>1<|"|>}<tool_call|>'
LFM = '<|tool_call_start|>[add(a=1, to="1")]<|tool_call_end|>'


@pytest.mark.parametrize(
    ("style", "text"), [(QWEN3_CODER, QWEN), (GEMMA4, GEMMA), (LFM2_CALLS, LFM)]
)
def test_calls_in_a_familys_own_form_stream_as_json(
    tmp_path: Path, style: CallStyle, text: str
) -> None:
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    engine = FakeEngine(
        lambda request: Script(["<think>\n", "Sum.", "\n</think>\n\n", *pieces]),
        capabilities=replace(CAPABILITIES, calls=style, grammars=True),
    )
    runtime = fake_runtime(tmp_path, engine)
    runtime.engine.load(LoadRequest(target="pip"))
    own = {"a": {"type": "integer"}, "to": {"type": "string"}}
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"properties": own}}}]
    with served(runtime) as running, running.client() as client:
        body = {"messages": HI, "tools": tools}
        message = post(client, "/v1/chat/completions", **body).json()["choices"][0]["message"]
        lines = post(client, "/v1/chat/completions", **body, stream=True).text.split("\n\n")
    (call,) = message["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": 1, "to": "1"}
    assert (message["content"], message["reasoning_content"]) == (None, "Sum.")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if '"choices"' in line]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    calls = [each for delta in deltas for each in delta.get("tool_calls", ())]
    told = "".join(each["function"].get("arguments", "") for each in calls)
    assert told == call["function"]["arguments"]
    assert not any(delta.get("content") for delta in deltas)


def test_a_stream_tells_both_as_they_come(http: httpx.Client) -> None:
    lines = post(http, "/v1/chat/completions", messages=HI, stream=True).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if '"choices"' in line]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    thought = [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta]
    assert len(thought) > 1 and "".join(thought) == "It is\n 3."
    assert "".join(delta.get("content") or "" for delta in deltas) == "Three."


def test_what_comes_back_is_given_to_the_template_apart(
    http: httpx.Client, asked: list[Request]
) -> None:
    before = {"role": "assistant", "content": "Three.", "reasoning_content": "It is 3."}
    post(http, "/v1/chat/completions", messages=[*HI, before, *HI])
    told = asked[-1].messages[1]
    assert (told.content, told.reasoning) == ("Three.", "It is 3.")


def test_a_completion_is_the_text_as_it_was_written(http: httpx.Client) -> None:
    text = post(http, "/v1/completions", prompt="Hi", max_tokens=99).json()["choices"][0]["text"]
    assert text.startswith("<think>\nIt is")


def test_a_response_has_it_as_an_item_of_its_own(http: httpx.Client, asked: list[Request]) -> None:
    output = post(http, "/v1/responses", input="Hi").json()["output"]
    told = [(each["type"], each["content"][0]["text"]) for each in output]
    assert told == [("reasoning", "It is\n 3."), ("message", "Three.")]
    post(http, "/v1/responses", input=[HI[0], *output, HI[0]])
    reply = asked[-1].messages[1]
    assert (reply.content, reply.reasoning) == ("Three.", "It is\n 3.")
    usage = post(http, "/v1/responses", input="Hi").json()["usage"]["output_tokens_details"]
    assert 0 < usage["reasoning_tokens"] < 10


@pytest.mark.parametrize("tools", [{}, {"tools": [{"type": "function", **TOOLS[0]["function"]}]}])
def test_a_stream_of_a_response_has_each_item_between_its_events(
    http: httpx.Client, tools: dict
) -> None:
    text = post(http, "/v1/responses", input="Hi", stream=True, **tools).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    kinds = [each["type"].removeprefix("response.") for each in events]
    items = [each["item"]["type"] for each in events if each["type"].endswith("item.added")]
    assert items == ["reasoning", "function_call" if tools else "message"]
    thought = [each["delta"] for each in events if each["type"].endswith("reasoning_text.delta")]
    assert len(thought) > 1 and "".join(thought) == "It is\n 3."
    ended = kinds.index("output_item.done")
    assert kinds[ended - 2 : ended] == ["reasoning_text.done", "content_part.done"]
    indices = [each["output_index"] for each in events if "output_index" in each]
    assert indices == sorted(indices) and set(indices) == {0, 1}
    whole = events[-1]["response"]["output"]
    assert [each["type"] for each in whole] == items


def test_how_much_to_think_reaches_the_engine_and_has_bounds(
    http: httpx.Client, asked: list[Request]
) -> None:
    def given(path: str = "/v1/chat/completions", **body: object) -> tuple:
        post(http, path, **({"messages": HI} | body))
        return asked[-1].thinking, asked[-1].thinking_budget, dict(asked[-1].template_values)

    assert given() == ("", None, {})
    assert given(reasoning_effort="none") == ("off", None, {})
    assert given(reasoning_effort="high", thinking_budget=5) == ("high", 5, {})
    assert given(thinking_token_budget=0) == ("", 0, {})  # vLLM's name
    assert given(thinking_budget_tokens=-1) == ("", None, {})  # llama.cpp's
    assert given(chat_template_kwargs={"enable_thinking": False, "x": None})[2] == {
        "enable_thinking": False
    }
    assert given("/v1/responses", input="Hi", reasoning={"effort": "low"}) == ("low", None, {})
    assert given("/api/chat", think=False) == ("off", None, {})
    assert given("/api/chat", think="high") == ("high", None, {})
    for wrong, name in (
        ({"reasoning_effort": "a lot"}, "reasoning_effort"),
        ({"thinking_budget": -2}, "thinking_budget"),
        ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": {}}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": "a" * 9000}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {f"x{at}": 1 for at in range(99)}}, "chat_template_kwargs"),
    ):
        reply = http.post("/v1/chat/completions", json={"model": "pip", "messages": HI, **wrong})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"].startswith(name), reply.text


def test_ollama_has_it_as_thinking(http: httpx.Client) -> None:
    whole = post(http, "/api/chat", messages=HI, stream=False).json()["message"]
    assert (whole["thinking"], whole["content"]) == ("It is\n 3.", "Three.")
    lines = post(http, "/api/chat", messages=HI).text.splitlines()
    told = [json.loads(line)["message"] for line in lines]
    assert "".join(each.get("thinking", "") for each in told) == "It is\n 3."
    assert "".join(each["content"] for each in told) == "Three."
