"""An agent with three tools on a real model: ten turns, each call valid, each answer used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai import OpenAI

from tests.support.places import real_models

STOCK = {"apples": 12, "pears": 3, "plums": 40}
PRICES = {"apples": 2, "pears": 5, "plums": 1}


def multiply(a: float, b: float) -> float:
    return a * b


TOOLS: dict[str, Callable[..., Any]] = {
    "get_stock": lambda fruit: STOCK[fruit],
    "get_price": lambda fruit: PRICES[fruit],
    "multiply": multiply,
}
FRUIT = {"type": "string", "enum": sorted(STOCK)}
NUMBER = {"type": "number"}


def described(name: str, about: str, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": about, "parameters": schema}
    return {"type": "function", "function": function}


OFFERED: Any = [
    described("get_stock", "How many pieces of a fruit there are.", fruit=FRUIT),
    described("get_price", "The price of one piece of a fruit, in euros.", fruit=FRUIT),
    described("multiply", "The product of two numbers.", a=NUMBER, b=NUMBER),
]
TURNS = [
    ("How many apples are in stock? Use a tool.", "get_stock", "12"),
    ("What does one pear cost? Use a tool.", "get_price", "5"),
    ("What is 37 times 21? Use a tool.", "multiply", "777"),
    ("How many plums are there? Use a tool.", "get_stock", "40"),
    ("And pears? How many pieces? Use a tool.", "get_stock", "3"),
    ("The price of an apple, please. Use a tool.", "get_price", "2"),
    ("Multiply 1.5 by 8. Use a tool.", "multiply", "12"),
    ("What is the price of a plum? Use a tool.", "get_price", "1"),
    ("What is 12 times 2? Use a tool.", "multiply", "24"),
    ("How many apples did you say there are? Use a tool.", "get_stock", "12"),
]


@pytest.mark.timeout(1500)
def test_ten_turns_with_three_tools(start: Any) -> None:
    """Greedy, with the smaller model drafting. Which tool it calls and what it says is the model's, and
    is told; that each call is of a tool and by its schema is ours."""
    models = real_models()
    server = start(models[-1], models[0] if len(models) > 1 else None)
    client = OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=900)
    ask: dict[str, Any] = {"model": server.model, "tools": OFFERED, "max_tokens": 120}
    called = right = 0
    history: list[Any] = [{"role": "system", "content": "You answer briefly."}]
    for question, tool, answer in TURNS:
        history.append({"role": "user", "content": question})
        message = (
            client.chat.completions.create(
                **ask, messages=history, tool_choice="required", parallel_tool_calls=False
            )
            .choices[0]
            .message
        )
        (call,) = message.tool_calls
        arguments = json.loads(call.function.arguments)
        called += call.function.name == tool
        result = TOOLS[call.function.name](**arguments)
        history.append(message.model_dump(exclude_none=True))
        history.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        said = client.chat.completions.create(**ask, messages=history, tool_choice="none")
        content = said.choices[0].message.content
        assert content and not said.choices[0].message.tool_calls
        right += answer in content
        history.append({"role": "assistant", "content": content})
    print(
        f"{called} of {len(TURNS)} calls of the tool that was meant, {right} answers with its result"
    )
    assert called >= 8
