"""The blocks of Anthropic's messages: thoughts, texts and calls, whole and as they are streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.loading.request import LoadRequest
from engine.request import Request
from engine.tool_calls.styles import HERMES
from engine.values.messages import Message
from engine.values.tools import ToolCall
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.serving import fake_runtime, served

if TYPE_CHECKING:
    from anthropic import Anthropic

HI: Any = [{"role": "user", "content": "Hi"}]
TOOLS: Any = [{"name": "add", "input_schema": {"type": "object"}}]
THOUGHT = "<think>\nIt is\n 3.\n</think>\n\n"


def call(a: int) -> str:
    return f'<tool_call>\n{{"name": "add", "arguments": {{"a": {a}, "why": "sum"}}}}\n</tool_call>'


SAID = {
    "think": f"{THOUGHT}Three.",
    "call": f"{THOUGHT}{call(1)}\n{call(2)}",
    "say and call": f"Let me see.\n{call(1)}",
    "blank": " \n",
}


@pytest.fixture(scope="module")
def asked() -> list[Request]:
    return []


@pytest.fixture(scope="module")
def claude(
    anthropic: Any, tmp_path_factory: pytest.TempPathFactory, asked: list[Request]
) -> Iterator[Anthropic]:
    def script(request: Request) -> Script:
        asked.append(request)
        last = request.messages[-1].content
        text = SAID.get(last, last)
        failure = "The kernel failed." if last == "fail" else None
        return Script([text[at : at + 3] for at in range(0, len(text), 3)], failure=failure)

    capabilities = replace(CAPABILITIES, calls=HERMES, grammars=True, thinking_budget=True)
    runtime = fake_runtime(
        tmp_path_factory.mktemp("data"), FakeEngine(script, capabilities=capabilities)
    )
    runtime.engine.load(LoadRequest(target="pip"))
    with (
        served(runtime) as running,
        anthropic.Anthropic(base_url=running.url, api_key="x", max_retries=0) as client,
    ):
        yield client


def ask(said: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}]
    return {"model": "pip", "max_tokens": 500, "messages": messages, "tools": TOOLS, **more}


@pytest.mark.parametrize("said", ["think", "call", "say and call", "blank"])
@pytest.mark.parametrize("most", [500, 3, 12, 24, 30])
def test_a_stream_adds_up_to_the_whole_message(claude: Anthropic, said: str, most: int) -> None:
    whole = claude.messages.create(**ask(said, max_tokens=most))
    with claude.messages.stream(**ask(said, max_tokens=most)) as stream:
        streamed = stream.get_final_message()
    without_ids = [
        [block.model_dump(exclude={"id"}) for block in message.content]
        for message in (whole, streamed)
    ]
    assert without_ids[0] == without_ids[1]
    assert (whole.stop_reason, whole.usage) == (streamed.stop_reason, streamed.usage)


def test_a_thought_is_a_block_of_its_own_with_a_signature(claude: Anthropic) -> None:
    message = claude.messages.create(**ask("think"))
    thought, text = message.content
    assert (thought.type, thought.thinking, text.text) == ("thinking", "It is\n 3.", "Three.")
    assert thought.signature and message.stop_reason == "end_turn"
    assert message.usage.output_tokens_details.thinking_tokens > 0
    other = claude.messages.create(**ask("<think>\nOther.\n</think>\n\nThree.")).content[0]
    assert other.signature != thought.signature


def test_a_thoughts_text_is_omitted_on_request(claude: Anthropic) -> None:
    omitted: Any = {"type": "adaptive", "display": "omitted"}
    whole = claude.messages.create(**ask("think", thinking=omitted))
    with claude.messages.stream(**ask("think", thinking=omitted)) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_message().content[0] == whole.content[0]
    assert "thinking" not in kinds and "signature" in kinds
    assert whole.content[0].thinking == "" != whole.content[0].signature


def test_calls_are_blocks_with_objects(claude: Anthropic) -> None:
    message = claude.messages.create(**ask("call"))
    thought, *calls = message.content
    assert thought.type == "thinking" and message.stop_reason == "tool_use"
    assert [one.input for one in calls] == [{"a": 1, "why": "sum"}, {"a": 2, "why": "sum"}]
    assert len({one.id for one in calls}) == 2
    said, one = claude.messages.create(**ask("say and call")).content
    assert said.text.startswith("Let me see.") and one.name == "add"


def test_a_call_that_was_cut_has_what_was_written(claude: Anthropic) -> None:
    written = "Let me see.\n" + call(1)
    cut = -(-(written.index('"why"') + 2) // 3)  # tokens of three characters
    message = claude.messages.create(**ask("say and call", max_tokens=cut))
    assert message.stop_reason == "max_tokens"
    assert message.content[-1].input == {"a": 1}


@pytest.mark.parametrize("written", ['{"a" 1}', "[1]", '{"a": NaN}'])
def test_a_call_whose_arguments_are_no_object_has_an_empty_one(
    claude: Anthropic, written: str
) -> None:
    """Models of servers write such calls; the message ended in an error."""
    said = call(1).replace('{"a": 1, "why": "sum"}', written)
    assert claude.messages.create(**ask(said)).content[-1].input == {}
    # Its package reads the deltas itself, and raises for these.
    assert [*claude.messages.create(**ask(said), stream=True)][-1].type == "message_stop"


def test_what_comes_back_is_the_conversation(claude: Anthropic, asked: list[Request]) -> None:
    first = claude.messages.create(**ask("call"))
    results: Any = [
        {"type": "tool_result", "tool_use_id": one.id, "content": "3"}
        for one in first.content
        if one.type == "tool_use"
    ]
    results[1] |= {"is_error": True, "content": [{"type": "text", "text": "too large"}]}
    messages: Any = [
        *HI,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "think"}]},
        {"role": "user", "content": "think"},
    ]
    claude.messages.create(**ask("") | {"messages": messages, "system": "Be brief."})
    one, two = [each.id for each in first.content[1:]]
    arguments = json.dumps({"a": 1, "why": "sum"})
    assert asked[-1].messages == (
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message(
            "assistant",
            "",
            tool_calls=(
                ToolCall(one, "add", arguments),
                ToolCall(two, "add", arguments.replace("1", "2")),
            ),
            reasoning="It is\n 3.",
        ),
        Message("tool", "3", tool_call_id=one, name="add"),
        Message("tool", "Error:\ntoo large", tool_call_id=two, name="add"),
        Message("user", "think\nthink"),
    )


@pytest.mark.parametrize(
    ("fields", "thinking", "budget"),
    [
        ({}, "", None),
        ({"thinking": {"type": "disabled"}}, "off", None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "medium", 1024),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "high", None),
        ({"output_config": {"effort": "low"}}, "low", None),
    ],
)
def test_how_much_to_think(
    claude: Anthropic, asked: list[Request], fields: Any, thinking: str, budget: int | None
) -> None:
    claude.messages.create(**ask("think", **fields))
    assert (asked[-1].thinking, asked[-1].thinking_budget) == (thinking, budget)


def test_an_engine_that_fails_ends_a_stream_with_an_error(
    anthropic: Any, claude: Anthropic
) -> None:
    with pytest.raises(anthropic.InternalServerError, match="The kernel failed"):
        claude.messages.create(**ask("fail"))
    with (
        pytest.raises(anthropic.APIStatusError) as failed,
        claude.messages.stream(**ask("fail")) as stream,
    ):
        stream.get_final_message()
    assert failed.value.body["error"]["type"] == "api_error"


def test_a_model_on_a_server_counts_no_tokens(anthropic: Any, claude: Anthropic) -> None:
    """Only the server knows them; the fake engine stands for it here."""
    with pytest.raises(anthropic.BadRequestError, match=r"model: .* which alone knows its tokens"):
        claude.messages.count_tokens(model="pip", messages=HI)
