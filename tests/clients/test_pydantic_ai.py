"""pydantic-ai: agents over chats and over responses."""

from __future__ import annotations

from typing import Any, Literal

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, NativeOutput, ToolOutput  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Rome"]
    sunny: bool


@pytest.fixture(params=[OpenAIChatModel, OpenAIResponsesModel], ids=["chats", "responses"])
def chosen(request: pytest.FixtureRequest, base: str, model: str) -> Any:
    return request.param(model, provider=OpenAIProvider(base_url=base, api_key="unused"))


SETTINGS = {"temperature": 0, "max_tokens": 200}


@pytest.mark.parametrize("output", [ToolOutput, NativeOutput])
def test_an_agent_answers_by_a_class(chosen: Any, output: Any) -> None:
    agent = Agent(chosen, output_type=output(Weather), model_settings=SETTINGS)
    assert isinstance(agent.run_sync("The weather in Oslo?").output, Weather)


async def _streamed(agent: Any, question: str) -> str:
    async with agent.run_stream(question) as result:
        parts = [part async for part in result.stream_text(delta=True)]
    return "".join(parts)


def test_text_is_streamed_and_a_conversation_goes_on(chosen: Any) -> None:
    import asyncio

    agent = Agent(chosen, instructions="Be brief.", model_settings={**SETTINGS, "max_tokens": 30})
    first = agent.run_sync("Tell me a tale.")
    assert asyncio.run(_streamed(agent, "Tell me a tale.")) == first.output
    second = agent.run_sync("And then?", message_history=first.all_messages())
    assert second.output and second.usage().output_tokens > 0


def test_an_agent_uses_its_tools(chosen: Any, sensible: str) -> None:
    agent = Agent(chosen, instructions=sensible, model_settings=SETTINGS)
    asked = []

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return "17 degrees and snow"

    said = agent.run_sync("What is the weather in Oslo? Call get_weather.").output
    assert asked and "Oslo" in asked[0]
    assert said  # what it makes of the answer is the model's
