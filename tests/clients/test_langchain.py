"""langchain-openai, over chats and over responses."""

from __future__ import annotations

from typing import Any, Literal

import pytest

langchain_openai = pytest.importorskip("langchain_openai")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from pydantic import BaseModel  # noqa: E402

ASK = [HumanMessage("What is the weather in Oslo?")]


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Rome"]
    sunny: bool


@tool
def get_weather(city: Literal["Oslo", "Rome"]) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.fixture(params=[False, True], ids=["chats", "responses"])
def chat(request: pytest.FixtureRequest, base: str, model: str) -> Any:
    return langchain_openai.ChatOpenAI(
        base_url=base,
        api_key="unused",
        model=model,
        temperature=0,
        max_tokens=80,
        max_retries=0,
        stream_usage=True,
        use_responses_api=request.param,
    )


def test_a_reply_whole_streamed_and_in_batches(chat: Any) -> None:
    whole = chat.invoke(ASK)
    assert whole.text and whole.usage_metadata["output_tokens"] > 0
    chunks = list(chat.stream(ASK))
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert [one.text for one in chat.batch([ASK] * 3)] == [whole.text] * 3


def test_a_tool_is_called_and_its_answer_taken(chat: Any) -> None:
    bound = chat.bind_tools([get_weather], tool_choice="get_weather")
    called = bound.invoke(ASK)
    (call,) = called.tool_calls
    assert call["name"] == "get_weather" and call["args"]["city"] in ("Oslo", "Rome")
    answer = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
    said = chat.invoke([*ASK, called, answer])
    assert isinstance(said, AIMessage) and not said.tool_calls
    gathered = None
    for chunk in bound.stream(ASK):
        gathered = chunk if gathered is None else gathered + chunk
    assert [one["args"] for one in gathered.tool_calls] == [call["args"]]


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(chat: Any, method: str) -> None:
    if method == "json_mode":
        found = chat.with_structured_output(None, method=method, include_raw=True).invoke(
            "Answer in JSON: what is the weather?"
        )
        assert found["raw"].text.startswith("{")
    else:
        found = chat.with_structured_output(Weather, method=method).invoke(ASK)
        assert isinstance(found, Weather)
