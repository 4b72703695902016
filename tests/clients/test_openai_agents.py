"""OpenAI's own agents, which speak responses, and chats where they are told to."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

agents = pytest.importorskip("agents")

from openai import AsyncOpenAI  # noqa: E402


@pytest.fixture(params=["OpenAIResponsesModel", "OpenAIChatCompletionsModel"])
def chosen(request: pytest.FixtureRequest, base: str, model: str) -> Any:
    agents.set_tracing_disabled(True)
    kind = getattr(agents, request.param)
    client = AsyncOpenAI(base_url=base, api_key="unused", max_retries=0)
    return kind(model=model, openai_client=client)


def test_a_tool_is_called_once_and_the_reply_follows(chosen: Any) -> None:
    """The first turn must call, the next is the model's own."""
    asked: list[str] = []

    @agents.function_tool
    def get_weather(city: Literal["Oslo", "Rome"]) -> str:
        """The weather in a city."""
        asked.append(city)
        return "sunny"

    settings = agents.ModelSettings(
        tool_choice="required", parallel_tool_calls=False, temperature=0, max_tokens=100
    )
    agent = agents.Agent(name="a", model=chosen, tools=[get_weather], model_settings=settings)

    async def run() -> Any:
        whole = await agents.Runner.run(agent, "The weather in Oslo?")
        streamed = agents.Runner.run_streamed(agent, "The weather in Oslo?")
        async for _ in streamed.stream_events():
            pass
        return whole, streamed

    whole, streamed = asyncio.run(run())
    assert len(asked) == 2 and set(asked) <= {"Oslo", "Rome"}
    assert isinstance(whole.final_output, str)
    assert streamed.final_output == whole.final_output
