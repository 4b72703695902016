"""The ollama package: chats, tools, structure, lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

ollama = pytest.importorskip("ollama")

ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: its name
    """
    return f"17 degrees in {city}"


@pytest.fixture
def client(url: str) -> Any:
    return ollama.Client(host=url)


def test_models_and_replies(client: Any, model: str) -> None:
    assert model in [one.model for one in client.list().models]
    assert "tools" in client.show(model).capabilities
    assert client.ps().models[0].model == model
    given = {"model": model, "options": {"num_predict": 20, "temperature": 0}}
    whole = client.chat(**given, messages=ASK)
    assert whole.message.content and whole.eval_count
    parts = list(client.chat(**given, messages=ASK, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert client.generate(**given, prompt="Once upon", raw=True).response


def test_structure(client: Any, model: str) -> None:
    said = client.chat(model=model, messages=ASK, format=SCHEMA, options={"num_predict": 60})
    assert json.loads(said.message.content)["city"] in ("Oslo", "Rome")


def test_a_history_with_calls_is_taken(client: Any, model: str) -> None:
    call = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    history = [
        *ASK,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "17 degrees", "tool_name": "get_weather"},
    ]
    given = {"model": model, "messages": history, "tools": [get_weather]}
    assert client.chat(**given, options={"num_predict": 20}).message is not None


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called(client: Any, model: str, sensible: str, stream: bool) -> None:
    told = {"role": "system", "content": sensible}
    asked = {"role": "user", "content": "What is the weather in Oslo? Call get_weather."}
    given = {"model": model, "messages": [told, asked], "tools": [get_weather]}
    reply = client.chat(**given, options={"num_predict": 100, "temperature": 0}, stream=stream)
    parts = list(reply) if stream else [reply]
    calls = [call.function for part in parts for call in part.message.tool_calls or ()]
    assert calls and {call.name for call in calls} == {"get_weather"}
    assert "Oslo" in calls[0].arguments["city"]
