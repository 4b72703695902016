"""Anthropic's Messages API on the real engine, asked by the anthropic package."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from openai import OpenAI

from app.server.models import DEFAULT
from engine.events import Finished, FinishReason, Started
from engine.request import Request
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tests.support.documents import pdf

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic.types import Message as Reply

HI: Any = [{"role": "user", "content": "Tell me a tale of a fox."}]
PDF: Any = {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}}
WITHIN: Any = {"type": "document", "source": {"type": "content", "content": [PDF] * 17}}
WEATHER: Any = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


@pytest.fixture
def claude(anthropic: Any, server) -> Iterator[Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as client:
        yield client


def text_of(message: Reply) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def told(server) -> Request:
    """The request that the engine got last."""
    started = next(e for e in server.recorder.traces[-1] if isinstance(e, Started))
    assert started.prompt_tokens
    return started


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_words_are_those_of_chats_under_every_proposer(
    server, client: OpenAI, claude: Anthropic, temperature: float
) -> None:
    loaded = server.runtime.engine.loaded
    ask: dict[str, Any] = {"model": server.model, "max_tokens": 24}
    sampling = {"seed": 5, "temperature": temperature, "top_k": 30}
    own = client.chat.completions.create(
        **ask,
        messages=[{"role": "system", "content": "Be brief."}, *HI],
        extra_body=sampling,
    )
    for proposer in loaded.capabilities.names:
        extra = {**sampling, "speculation": {"proposer": proposer}}
        ask_here = {**ask, "messages": HI, "system": "Be brief.", "extra_body": extra}
        message = claude.messages.create(**ask_here)
        assert text_of(message) == own.choices[0].message.content, proposer
        with claude.messages.stream(**ask_here) as stream:
            assert "".join(stream.text_stream) == text_of(message), proposer
            assert stream.get_final_message().stop_reason == message.stop_reason


def test_a_message_is_complete(server, claude: Anthropic) -> None:
    ask: Any = {"model": DEFAULT, "max_tokens": 6, "messages": HI}
    first, again = claude.messages.create(**ask), claude.messages.create(**ask)
    assert (first.type, first.role, first.model) == ("message", "assistant", server.model)
    assert first.id.startswith("msg_") and first.id != again.id
    assert (first.stop_reason, first.stop_sequence) == ("max_tokens", None)
    assert first._request_id and first._request_id != again._request_id
    used = again.usage
    assert (used.output_tokens, used.cache_creation_input_tokens) == (6, 0)
    assert (used.input_tokens, used.output_tokens_details.thinking_tokens) == (1, 0)
    assert used.cache_read_input_tokens == first.usage.input_tokens + (
        (first.usage.cache_read_input_tokens or 0) - 1
    )
    counted = claude.messages.count_tokens(model=DEFAULT, messages=HI)
    assert counted.input_tokens == used.input_tokens + used.cache_read_input_tokens
    assert again.model_extra["timings"]["predicted_n"] == 6


def test_the_raw_stream_has_anthropics_events_in_order(server, http: httpx.Client) -> None:
    body = {"max_tokens": 8, "messages": HI, "stream": True, "model": server.model}
    answer = http.post("/v1/messages?beta=true", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [
        (part.split("\n")[0].removeprefix("event: "), json.loads(part.split("data: ", 1)[1]))
        for part in answer.text.split("\n\n")
        if part
    ]
    assert all(name == event["type"] for name, event in events)
    kinds = [name for name, _ in events if name != "ping"]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert "ping" in dict(events)
    begun = dict(events)["message_start"]["message"]
    assert (begun["content"], begun["stop_reason"]) == ([], None)
    ended = dict(events)["message_delta"]
    assert ended["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert ended["usage"] == {
        **begun["usage"],
        "output_tokens": 8,
        "output_tokens_details": {"thinking_tokens": 0},
    }
    assert ended["metrics"]["seeds"]


def test_the_stop_sequence_that_matched_is_told(server, claude: Anthropic, client) -> None:
    ask: Any = {"model": server.model, "max_tokens": 40, "messages": HI}
    whole = text_of(claude.messages.create(**ask))
    sought = whole[10:14]
    stops = ["never said", sought]
    message = claude.messages.create(**ask, stop_sequences=stops)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", sought)
    assert text_of(message) == whole[: whole.find(sought)]
    with claude.messages.stream(**ask, stop_sequences=stops) as stream:
        assert stream.get_final_message().stop_sequence == sought
    choice = client.chat.completions.create(**ask, stop=stops).choices[0]
    assert choice.model_extra["stop_reason"] == sought  # as vLLM tells it


def test_a_prefill_is_continued_and_not_repeated(server, claude: Anthropic) -> None:
    """Token by token what the model says behind these words, even where they hold a stop string."""
    whole = text_of(claude.messages.create(model=DEFAULT, max_tokens=30, messages=HI))
    begun = whole[: whole.find(" ", 20)]
    ask: Any = {"model": DEFAULT, "messages": [*HI, {"role": "assistant", "content": begun}]}
    message = claude.messages.create(**ask, max_tokens=12, stop_sequences=[begun])
    assert whole.startswith(begun + text_of(message)) and text_of(message)
    assert message.usage.output_tokens <= 12
    tokens = server.runtime.engine.tokenizer
    asked = Request(messages=(Message("user", HI[0]["content"]),))
    own = (*tokens.prompt(asked), *tokens.encode(begun))
    assert told(server).prompt_tokens == own
    assert claude.messages.count_tokens(**ask).input_tokens == len(own)


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [WEATHER], "tool_choice": {"type": "any"}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ],
)
def test_a_prefill_is_refused_where_it_could_break_a_form(
    anthropic: Any, server, claude: Anthropic, more: dict[str, Any]
) -> None:
    messages = [*HI, {"role": "assistant", "content": "{"}]
    with pytest.raises(anthropic.BadRequestError, match=r"prefill\) is not possible"):
        claude.messages.create(model=DEFAULT, max_tokens=5, messages=messages, **more)


def test_tools_are_called_answered_and_called_again(server, claude: Anthropic) -> None:
    ask: Any = {"model": server.model, "tools": [WEATHER], "max_tokens": 150}
    choice: Any = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    first = claude.messages.create(**ask, messages=HI, tool_choice=choice)
    assert first.stop_reason == "tool_use"
    (call,) = first.content
    assert call.type == "tool_use" and call.input["city"] in ("Rome", "Oslo")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny", "is_error": True}
    history: Any = [
        *HI,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
    ]
    with claude.messages.stream(**ask, messages=history, tool_choice={"type": "any"}) as stream:
        parts = [e.partial_json for e in stream if e.type == "input_json"]
        last = stream.get_final_message()
    assert last.stop_reason == "tool_use" and len(parts) > 1
    assert all(block.type == "tool_use" for block in last.content)
    none = claude.messages.create(**ask, messages=history, tool_choice={"type": "none"})
    assert none.content[0].type == "text"


def test_the_packages_own_loop_of_tools_runs(anthropic: Any, server, claude: Anthropic) -> None:
    asked = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: Where.
        """
        asked.append(city)
        return "sunny"

    runner = claude.beta.messages.tool_runner(
        model=server.model,
        max_tokens=60,
        tools=[get_weather],
        messages=HI,
        tool_choice={"type": "any"},
        max_iterations=2,
    )
    messages = list(runner)
    assert asked and len(messages) == 2


def test_a_format_is_kept(server, claude: Anthropic) -> None:
    schema = {
        "type": "object",
        "properties": {"word": {"enum": ["fox", "hen"]}},
        "required": ["word"],
        "additionalProperties": False,
    }
    message = claude.messages.create(
        model=server.model,
        max_tokens=60,
        messages=HI,
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}},
    )
    assert json.loads(text_of(message))["word"] in ("fox", "hen")


def test_several_at_once_from_the_asynchronous_client(anthropic: Any, server) -> None:
    async def ask() -> list[str]:
        async with anthropic.AsyncAnthropic(
            base_url=server.url, api_key="x", max_retries=0
        ) as client:

            async def one(seed: int) -> str:
                async with client.messages.stream(
                    model=DEFAULT,
                    max_tokens=10,
                    messages=HI,
                    extra_body={"seed": seed, "temperature": 1},
                ) as stream:
                    return "".join([text async for text in stream.text_stream])

            return await asyncio.gather(*(one(seed % 2) for seed in range(4)))

    said = asyncio.run(ask())
    assert said[0] == said[2] != said[1] == said[3]
    sampling = Sampling(temperature=1, seed=0)
    request = Request(
        messages=(Message("user", HI[0]["content"]),), sampling=sampling, max_tokens=10
    )
    assert server.direct(request)[-1].text == said[0]


def test_a_client_that_leaves_ends_its_reply(server, claude: Anthropic) -> None:
    server.recorder.hold()
    with claude.messages.stream(model=DEFAULT, max_tokens=900, messages=HI) as stream:
        next(iter(stream.text_stream))
    while not server.recorder.replies[-1].cancelled:
        time.sleep(0.01)
    server.recorder.release()
    assert server.idle()
    last = server.recorder.traces[-1][-1]
    assert isinstance(last, Finished) and last.reason is FinishReason.CANCELLED


def test_documents_and_search_results_are_read_as_text(server, claude: Anthropic) -> None:
    encoded = base64.b64encode(pdf(["The fox sleeps.", "It wakes."])).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": encoded}
    blocks: Any = [
        {"type": "document", "title": "Fox", "source": source},
        {
            "type": "document",
            "context": "A note.",
            "source": {"type": "text", "media_type": "text/plain", "data": "Hens fly."},
        },
        {
            "type": "search_result",
            "title": "Geese",
            "source": "https://geese.example",
            "content": [{"type": "text", "text": "Geese swim."}],
        },
        {"type": "text", "text": "What?"},
    ]
    messages: Any = [{"role": "user", "content": blocks}]
    claude.messages.create(model=DEFAULT, max_tokens=1, messages=messages)
    text = server.runtime.engine.tokenizer.decode(told(server).prompt_tokens)
    for part in ("Fox", "The fox sleeps.", "It wakes.", "A note.", "Hens fly.", "Geese swim."):
        assert part in text
    assert text.rfind("What?") > text.find("https://geese.example")


def test_what_differs_in_every_request_of_claude_code_is_left_out(server, claude) -> None:
    """Behind such a block no prompt could be reused."""
    block = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1f;"}
    system = [block, {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    count = claude.messages.count_tokens
    alike = count(model=DEFAULT, messages=HI, system="Be brief.")
    assert count(model=DEFAULT, messages=HI, system=system) == alike
    assert count(model=DEFAULT, messages=HI).input_tokens < alike.input_tokens


def test_models_are_listed_for_both_clients(server, claude: Anthropic, client: OpenAI) -> None:
    (model,) = claude.models.list()
    assert (model.id, model.type) == (server.model, "model")
    assert model.display_name and model.created_at.year >= 2026
    (other,) = client.models.list()
    assert claude.models.retrieve(model.id).id == other.id == model.id
    assert model.capabilities is None is not other.capabilities  # the package has its own form


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": []}, "messages is"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences contains an empty string"),
        ({"stop_sequences": ["a"] * 65}, "stop_sequences"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens is missing"),
        ({"tools": [{"name": "x"}]}, r"tools\[0\].input_schema is missing"),
        (
            {"tools": [{"name": "bash", "type": "bash_20250124"}]},
            r"tools\[0\].type: .*'bash_20250124'.* input_schema, without a type\.$",
        ),
        (
            {"tools": [WEATHER, {**WEATHER, "name": "b", "input_schema": {"$ref": "#/no"}}]},
            r"tools\[1\].input_schema",
        ),
        ({"tool_choice": {"type": "any"}}, "tool_choice requires a call"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name is missing"),
        ({"speculation": {"proposer": "none "}}, "proposer"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "no"}}}},
            r"output_config.format.schema",
        ),
        (
            {"messages": [*HI, {"role": "user", "content": [{"type": "server_tool_use"}]}]},
            r"messages\[1\].content\[0\].type: .*'server_tool_use'",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "a"},
                            {"type": "tool_result", "tool_use_id": "no"},
                        ],
                    }
                ]
            },
            r"messages\[0\].content\[1\].tool_use_id is 'no'",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "url", "url": "http://a"}}
                        ],
                    }
                ]
            },
            r"messages\[0\].content\[0\].source.type: .*\. Send the data itself\.$",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [PDF],
                    }
                ]
            },
            r"messages\[0\].content\[0\].source.data: the document",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "document",
                                "source": {"type": "base64", "data": "PGI+YTwvYj4="},
                            }
                        ],
                    }
                ]
            },
            r"messages\[0\].content\[0\].source.data: the document is no PDF",
        ),
        (
            {"messages": [{"role": "user", "content": [WITHIN]}]},
            "have 17 PDF documents; at most 16",
        ),
        ({"messages": "x" * 9}, "messages"),
        (
            {"messages": [{"role": "assistant", "content": "Once"}]},
            r"\(a prefill\) is not possible: .* another one must come before it",
        ),
        (
            {"messages": [{"role": "user", "content": "long " * 9000}]},
            r"^prompt is too long: more than \d+ tokens > \d+ maximum\. The text is",
        ),
        (
            {"messages": [{"role": "user", "content": "a " * 2100}]},
            r"^prompt is too long: \d+ tokens > \d+ maximum\. The prompt has .* Shorten it by",
        ),
    ],
)
def test_mistakes_are_a_400_that_names_anthropics_field(
    server, http: httpx.Client, change: dict[str, Any], said: str
) -> None:
    body = {"model": server.model, "max_tokens": 5, "messages": HI, **change}
    answer = http.post("/v1/messages", json=body)
    assert answer.status_code == 400, answer.text
    told = answer.json()
    assert told.keys() == {"type", "error"} and told["type"] == "error"
    assert told["error"].keys() == {"type", "message", "details"}
    assert told["error"]["details"]["error_code"] in (
        "context_length_exceeded",
        "invalid_value",
        "missing_value",
        "unsupported_value",
    )
    assert told["error"]["type"] == "invalid_request_error"
    assert re.search(said, told["error"]["message"]), answer.text


def test_the_package_raises_its_own_errors(
    anthropic: Any, server, start, claude: Anthropic, empty
) -> None:
    ask: Any = {"model": server.model, "max_tokens": 1, "messages": HI}
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(**{**ask, "model": "claude-opus"})
    assert missing.value.type == "not_found_error" and missing.value.request_id
    with anthropic.Anthropic(base_url=empty.url, api_key="x", max_retries=0) as client:
        with pytest.raises(anthropic.ServiceUnavailableError) as busy:
            client.messages.create(**ask)
        assert busy.value.type == "overloaded_error"
        with pytest.raises(anthropic.NotFoundError):
            client.messages.batches.list()
        with pytest.raises(anthropic.NotFoundError):
            client.beta.files.list()


def test_a_key_may_be_sent_in_either_header(anthropic: Any, start) -> None:
    locked = start(key="sécret")
    for kind, value in (("x-api-key", "sécret"), ("authorization", "Bearer sécret")):
        for path in ("/v1/models", "/api/tags"):
            headers = {kind: value.encode()}
            assert httpx.get(locked.url + path, headers=headers, timeout=60).status_code == 200
    with (
        anthropic.Anthropic(base_url=locked.url, api_key="wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError) as refused,
    ):
        client.messages.create(model=DEFAULT, max_tokens=1, messages=HI)
    assert refused.value.type == "authentication_error" and refused.value.request_id
    assert "x-api-key" in refused.value.message
