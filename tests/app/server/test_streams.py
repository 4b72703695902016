"""Streams: read by the openai package, and byte by byte."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from openai import APIError, AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk

from app.server.sending import encode
from engine.events import Failed, Finished
from engine.values import MAX_DEPTH

ASK = [{"role": "user", "content": "Tell me a tale of a fox."}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def streamed(http: httpx.Client, path: str, body: dict) -> list[dict]:
    """A stream's objects; checks the framing on the way."""
    reply = http.post(path, json={**body, "stream": True})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.content.endswith(b"\n\n")
    blocks = reply.content.decode().split("\n\n")[:-1]
    blocks = [block for block in blocks if not block.startswith(":")]
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    assert blocks[-1] == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


def test_a_stream_says_what_the_whole_reply_says(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 40}
    whole = client.chat.completions.create(**ask)
    chunks = list(client.chat.completions.create(**ask, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].model_extra["timings"]["predicted_n"] == whole.usage.completion_tokens


def test_chunks_have_the_form_that_clients_rely_on(server, http: httpx.Client) -> None:
    chunks = streamed(http, CHAT, {"messages": ASK, "max_tokens": 20})
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk, strict=True)
        assert chunk["choices"][0]["index"] == 0
        assert "usage" not in chunk
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    *earlier, last = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert earlier == [None] * len(earlier)
    assert last in ("length", "stop")
    assert [chunk for chunk in chunks if "timings" in chunk] == chunks[-1:]
    assert chunks[-1]["metrics"]["speculative_decoding"]["num_spec_tokens"] == MAX_DEPTH


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(server, http: httpx.Client) -> None:
    body = {"messages": ASK, "max_tokens": 10, "stream_options": {"include_usage": True}}
    *chunks, last = streamed(http, CHAT, body)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"] == http.post(CHAT, json={**body, "stream": False}).json()["usage"] | {
        "prompt_tokens_details": last["usage"]["prompt_tokens_details"]
    }
    assert last["timings"] == chunks[-1]["timings"]
    assert last["metrics"] == chunks[-1]["metrics"]


def test_choices_follow_one_another_under_their_own_index(server, http: httpx.Client) -> None:
    body = {"messages": ASK, "max_tokens": 8, "n": 2, "temperature": 1, "seed": 5}
    whole = http.post(CHAT, json=body).json()
    chunks = streamed(http, CHAT, body)
    for index in (0, 1):
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant"
        text = "".join(choice["delta"].get("content", "") for choice in mine)
        assert text == whole["choices"][index]["message"]["content"]
        assert mine[-1]["finish_reason"] == whole["choices"][index]["finish_reason"]


def test_text_completions_stream_too(server, client: OpenAI) -> None:
    ask = {"model": server.model, "prompt": "Once upon a time", "max_tokens": 30}
    whole = client.completions.create(**ask)
    chunks = list(client.completions.create(**ask, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_streamed_logprobs_are_those_of_the_whole_reply(
    server, http: httpx.Client, path: str
) -> None:
    if path == CHAT:
        body = {"messages": ASK, "max_tokens": 12, "logprobs": True}
        chunks = streamed(http, path, body)
        parts = [c["choices"][0]["logprobs"] for c in chunks]
        entries = [entry for part in parts if part for entry in part["content"]]
        whole = http.post(path, json=body).json()["choices"][0]["logprobs"]["content"]
        assert entries == whole
    else:
        body = {"prompt": "Once upon a time", "max_tokens": 12, "logprobs": 0}
        parts = [c["choices"][0]["logprobs"] for c in streamed(http, path, body)]
        whole = http.post(path, json=body).json()["choices"][0]
        for key in ("tokens", "token_logprobs", "text_offset"):
            assert [x for part in parts if part for x in part[key]] == whole["logprobs"][key]
        tokens, offsets = whole["logprobs"]["tokens"], whole["logprobs"]["text_offset"]
        for token, offset in zip(tokens, offsets, strict=True):
            assert whole["text"][offset:].startswith(token)


def test_no_part_of_a_stop_string_is_ever_shown(server, http: httpx.Client) -> None:
    body = {"messages": ASK, "max_tokens": 40}
    text = http.post(CHAT, json=body).json()["choices"][0]["message"]["content"]
    for size in (1, 2, 7):
        stop = text[len(text) // 2 :][:size]
        chunks = streamed(http, CHAT, {**body, "stop": [stop], "depth": 8})
        shown = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        assert shown == text[: text.index(stop)]
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_characters_are_never_split(stories_server) -> None:
    """A random tongue of single bytes: most rounds end inside a character."""
    with httpx.Client(base_url=stories_server.url, timeout=60) as http:
        body = {
            "prompt": "Zoë ❤ 小さな 🦊🦊🦊🦊",
            "max_tokens": 80,
            "temperature": 5,
            "seed": 11,
            "ignore_eos": True,
        }
        chunks = streamed(http, TEXT, body)
        whole = http.post(TEXT, json=body).json()["choices"][0]["text"]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole


def test_line_ends_of_any_alphabet_stay_inside_their_object() -> None:
    value = {"text": "a\u2028b\u2029c\x85d\ne\rf\x1cg ❤"}
    line = encode(value).decode()
    assert len(line.splitlines()) == 1
    assert json.loads(line) == value
    assert "❤" in line


def test_an_async_client_reads_streams(server) -> None:
    async def read() -> str:
        async with AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="unused", max_retries=0
        ) as client:
            stream = await client.chat.completions.create(
                model=server.model, messages=ASK, max_tokens=20, stream=True
            )
            return "".join([c.choices[0].delta.content or "" async for c in stream])

    text = asyncio.run(read())
    assert isinstance(server.recorder.traces[0][-1], Finished)
    assert text == server.recorder.traces[0][-1].text


def test_a_failure_inside_a_stream_is_an_error_object(
    server, client: OpenAI, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine breaks in the middle of a reply."""
    session = server.runtime.engine.local._pair.session
    real = session.target.verify

    def breaks(pending: int, tree: object) -> object:
        if len(session.target.keys) > 12:
            raise RuntimeError("a broken kernel")
        return real(pending, tree)

    monkeypatch.setattr(session.target, "verify", breaks)
    ask = {"model": server.model, "messages": ASK, "max_tokens": 60}
    with pytest.raises(APIError, match="broken kernel"):
        list(client.chat.completions.create(**ask, stream=True))
    assert isinstance(server.recorder.traces[-1][-1], Failed)
    *_, last = streamed(http, CHAT, ask)
    assert set(last["error"]) == {"message", "type", "param", "code"}
    assert last["error"]["type"] == "server_error"
    reply = http.post(CHAT, json=ask)
    assert reply.status_code == 500
    assert reply.json() == last
    monkeypatch.undo()
    session.target.clear()
    assert http.post(CHAT, json=ask).status_code == 200
