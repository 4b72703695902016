"""What a model thinks before it answers, as DeepSeek, vLLM, llama.cpp and Ollama tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from engine.loading.request import LoadRequest
from engine.request import Request
from engine.tool_calls.styles import HERMES
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


def test_a_response_has_the_answer_alone(http: httpx.Client) -> None:
    output = post(http, "/v1/responses", input="Hi").json()["output"]
    assert [each["content"][0]["text"] for each in output] == ["Three."]


def test_ollama_has_it_as_thinking(http: httpx.Client) -> None:
    whole = post(http, "/api/chat", messages=HI, stream=False).json()["message"]
    assert (whole["thinking"], whole["content"]) == ("It is\n 3.", "Three.")
    lines = post(http, "/api/chat", messages=HI).text.splitlines()
    told = [json.loads(line)["message"] for line in lines]
    assert "".join(each.get("thinking", "") for each in told) == "It is\n 3."
    assert "".join(each["content"] for each in told) == "Three."
