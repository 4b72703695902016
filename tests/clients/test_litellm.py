"""litellm: OpenAI's chats and responses, and Ollama's chats."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

litellm = pytest.importorskip("litellm")

ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


@pytest.fixture
def ask(base: str, model: str) -> dict[str, Any]:
    return {
        "model": f"openai/{model}",
        "api_base": base,
        "api_key": "unused",
        "messages": ASK,
        "max_tokens": 60,
        "temperature": 0,
    }


def test_a_reply_whole_streamed_and_awaited(ask: dict[str, Any]) -> None:
    whole = litellm.completion(**ask)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens > 0
    chunks = list(litellm.completion(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens

    async def both() -> list[Any]:
        return await asyncio.gather(*(litellm.acompletion(**ask) for _ in range(2)))

    assert [one.choices[0].message.content for one in asyncio.run(both())] == [text] * 2


def test_tools_are_called_and_answered(ask: dict[str, Any]) -> None:
    called = litellm.completion(**ask, tools=[TOOL], tool_choice="required")
    assert called.choices[0].finish_reason == "tool_calls"
    message = called.choices[0].message
    for call in message.tool_calls:
        assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")
    answers = [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in message.tool_calls
    ]
    history = [*ASK, message.model_dump(exclude_none=True), *answers]
    assert litellm.completion(**{**ask, "messages": history}, tools=[TOOL]).choices


def test_structured_output(ask: dict[str, Any]) -> None:
    format = {
        "type": "json_schema",
        "json_schema": {"name": "weather", "schema": PARAMETERS, "strict": True},
    }
    reply = litellm.completion(**ask, response_format=format)
    assert json.loads(reply.choices[0].message.content)["city"] in ("Oslo", "Rome")


def test_responses_with_a_tool(ask: dict[str, Any]) -> None:
    given = {name: ask[name] for name in ("model", "api_base", "api_key", "temperature")}
    tool = {"type": "function", **TOOL["function"]}
    reply = litellm.responses(
        **given, input="The weather?", tools=[tool], tool_choice="required", max_output_tokens=60
    )
    kinds = {item.type for item in reply.output}
    assert kinds == {"function_call"}


def test_ollamas_protocol(ask: dict[str, Any], url: str, model: str) -> None:
    given = {"model": f"ollama_chat/{model}", "api_base": url, "messages": ASK, "max_tokens": 20}
    whole = litellm.completion(**given)
    streamed = litellm.completion(**given, stream=True)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert said == whole.choices[0].message.content


def test_mistakes_become_its_own_errors(ask: dict[str, Any]) -> None:
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(**{**ask, "temperature": 99})
    with pytest.raises(litellm.NotFoundError, match="none-of-that-name"):
        litellm.completion(**{**ask, "model": "openai/none-of-that-name"})
