"""An agent of three tools, fifty times, by three clients: a plain loop over the openai package, OpenAI's
agents, and pydantic-ai. And a chat of fifty turns, up to the end of the context.

Which tool is called and what is made of its result is the model's, and counted. That each call is read,
has arguments by its schema, and leaves nothing of its markup in the text is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

TURNS = int(os.environ.get("FORETOKEN_CLIENTS_TURNS", "50"))
STEPS = 4
"""Requests of a turn, at most: small models call again what they have the result of."""
SYSTEM = (
    "You are an agent. Use your tools to fulfil the user's wishes, then answer in one sentence."
)
STOCK = {"apples": 12, "pears": 3, "plums": 40}
PRICES = {"apples": 2, "pears": 5, "plums": 7}
MARKUP = re.compile(r'tool_call>|"(?:get_stock|get_price|multiply)"\s*,\s*"arguments"')
Fruit = Literal["apples", "pears", "plums"]


def get_stock(fruit: Fruit) -> str:
    """How many pieces of a fruit are in stock."""
    return f"There are {STOCK[fruit]} {fruit} in stock."


def get_price(fruit: Fruit) -> str:
    """The price of one piece of a fruit, in euros."""
    return f"One of the {fruit} costs {PRICES[fruit]} euros."


def multiply(a: float, b: float) -> str:
    """The product of two numbers."""
    return f"{a * b:.0f}"


Call = tuple[str, dict[str, Any]]
Turn = Callable[[str], tuple[list[Call], str]]
"""A question in; the calls that were made for it, and the answer."""
TOOLS: dict[str, Callable[..., str]] = {f.__name__: f for f in (get_stock, get_price, multiply)}


def questions() -> list[tuple[str, str, str]]:
    """What is asked, the tool that is meant, and its result."""
    rng, found = random.Random(7), list[tuple[str, str, str]]()
    for _ in range(TURNS):
        tool, fruit = rng.choice([*TOOLS]), rng.choice([*STOCK])
        a, b = rng.randint(11, 99), rng.randint(11, 99)
        found.append(
            {
                "get_stock": (
                    f"How many {fruit} are in stock?",
                    tool,
                    str(STOCK[fruit]),
                ),
                "get_price": (
                    f"What is the price of {fruit}?",
                    tool,
                    str(PRICES[fruit]),
                ),
                "multiply": (f"What is {a} times {b}?", tool, str(a * b)),
            }[tool]
        )
    return found


def schema(name: str) -> dict[str, Any]:
    number, fruit = {"type": "number"}, {"type": "string", "enum": sorted(STOCK)}
    properties = {"a": number, "b": number} if name == "multiply" else {"fruit": fruit}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def plain_loop(base: str, model: str, *, keeps: bool = False) -> Turn:
    """The openai package, in streams. ``keeps``: all turns are one chat, and each calls first."""
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=base, api_key="unused", max_retries=0, timeout=600)
    ask: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": 300}
    ask["tools"] = [
        {
            "type": "function",
            "function": {"name": name, "description": run.__doc__, "parameters": schema(name)},
        }
        for name, run in TOOLS.items()
    ]
    history: list[Any] = [{"role": "system", "content": SYSTEM}]

    def turn(question: str) -> tuple[list[Call], str]:
        del history[len(history) if keeps else 1 :]
        history.append({"role": "user", "content": question})
        calls: list[Call] = []
        for _ in range(STEPS):
            first = keeps and not calls
            ask["tool_choice"] = "required" if first else "auto"
            ask["parallel_tool_calls"] = not first
            with client.chat.completions.stream(**ask, messages=history) as stream:
                reply = stream.get_final_completion().choices[0]
            message = reply.message
            history.append(message.model_dump(include={"role", "content", "tool_calls"}))
            assert (reply.finish_reason == "tool_calls") is bool(message.tool_calls)
            assert not MARKUP.search(message.content or ""), message.content
            if not message.tool_calls:
                return calls, message.content or ""
            for call in message.tool_calls:
                name, arguments = call.function.name, json.loads(call.function.arguments)
                calls.append((name, arguments))
                result = TOOLS[name](**arguments)
                history.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return calls, ""

    return turn


def openai_agents(base: str, model: str) -> Turn:
    """OpenAI's agents, which speak responses."""
    agents = pytest.importorskip("agents")
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    loop = asyncio.new_event_loop()
    client = AsyncOpenAI(base_url=base, api_key="unused", max_retries=0, timeout=600)
    agent = agents.Agent(
        name="agent",
        instructions=SYSTEM,
        model=agents.OpenAIResponsesModel(model=model, openai_client=client),
        tools=[agents.function_tool(run) for run in TOOLS.values()],
        model_settings=agents.ModelSettings(temperature=0, max_tokens=300),
    )

    def turn(question: str) -> tuple[list[Call], str]:
        try:
            done = loop.run_until_complete(agents.Runner.run(agent, question, max_turns=STEPS))
        except agents.exceptions.MaxTurnsExceeded as error:
            return _agents_calls(error.run_data.new_items), ""
        return _agents_calls(done.new_items), str(done.final_output)

    return turn


def _agents_calls(items: list[Any]) -> list[Call]:
    calls = (item.raw_item for item in items if item.type == "tool_call_item")
    return [(call.name, json.loads(call.arguments)) for call in calls]


def pydantic_ai(base: str, model: str) -> Turn:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent, UsageLimits, capture_run_messages
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    served = OpenAIChatModel(model, provider=OpenAIProvider(base_url=base, api_key="unused"))
    agent = Agent(
        served, system_prompt=SYSTEM, model_settings={"temperature": 0, "max_tokens": 300}
    )
    for run in TOOLS.values():
        agent.tool_plain(run)

    def turn(question: str) -> tuple[list[Call], str]:
        said = ""
        limits = UsageLimits(request_limit=STEPS)
        # Where a reply is empty, or calls without end, there is no answer, which is counted.
        silent = contextlib.suppress(UsageLimitExceeded, UnexpectedModelBehavior)
        with capture_run_messages() as messages, silent:
            said = agent.run_sync(question, usage_limits=limits).output
        parts = [part for message in messages for part in message.parts]
        calls = [part for part in parts if isinstance(part, ToolCallPart)]
        return [(call.tool_name, call.args_as_dict()) for call in calls], said

    return turn


def check(turn: Turn, name: str) -> None:
    """Ask everything. Whether tools are called and results used is the model's, but mostly it does."""
    meant = used = answered = made = 0
    for question, tool, result in questions():
        calls, said = turn(question)
        made += len(calls)
        answered += bool(said)
        meant += tool in {name for name, _ in calls}
        used += result in said.replace(",", "")
        for called, arguments in calls:
            TOOLS[called](**arguments)  # it has what its schema asks for
        assert not MARKUP.search(said), said
        print(f"{question} | {calls} | {said!r}", flush=True)
    print(
        f"{name}, {TURNS} turns: {made} calls; the tool that was meant in {meant}, an answer in "
        f"{answered}, with its result in {used}"
    )
    assert meant >= 0.9 * TURNS and used >= 0.9 * TURNS


@pytest.mark.parametrize("client", [plain_loop, openai_agents, pydantic_ai])
def test_fifty_questions_to_an_agent_with_three_tools(
    client: Callable[[str, str], Turn], base: str, model: str, sensible: str
) -> None:
    check(client(base, model), client.__name__)


def test_a_chat_of_fifty_turns_and_the_end_of_its_context(
    base: str, model: str, sensible: str
) -> None:
    """Each turn has to call once; what no longer fits is a 400 that says so."""
    turn = plain_loop(base, model, keeps=True)
    check(turn, "one chat")
    openai = pytest.importorskip("openai")
    with pytest.raises(openai.BadRequestError, match="context") as raised:
        turn("plums " * 40_000)
    assert raised.value.code == "context_length_exceeded"
