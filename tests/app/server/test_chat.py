"""/v1/chat/completions, asked by the openai package."""

from __future__ import annotations

import asyncio
import math

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types.chat import ChatCompletion

from app.server.request_queue import RequestQueue
from engine.events import Emitted, Finished, Prefilled, Started
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling

ASK = [{"role": "user", "content": "Tell me a tale of a fox."}]


def finished(events: list) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def own_request(**options) -> Request:
    return Request(messages=(Message("user", ASK[0]["content"]),), **options)


def test_the_text_is_the_engines_own(server, client: OpenAI) -> None:
    reply = client.chat.completions.create(model=server.model, messages=ASK, max_tokens=30)
    own = finished(server.direct(own_request(max_tokens=30)))
    assert reply.choices[0].message.content == own.text
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason == own.reason
    assert reply.object == "chat.completion"
    assert reply.id.startswith("chatcmpl-")
    assert reply.model == server.model


def test_usage_adds_up(server, client: OpenAI) -> None:
    reply = client.chat.completions.create(model=server.model, messages=ASK, max_tokens=17)
    usage = reply.usage
    started = next(e for e in server.recorder.traces[0] if isinstance(e, Started))
    assert usage.prompt_tokens == len(started.prompt_tokens)
    assert usage.completion_tokens == len(finished(server.recorder.traces[0]).token_ids)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert reply.choices[0].finish_reason == "length" or usage.completion_tokens < 17


def test_a_follow_up_is_told_what_was_reused(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 5}
    client.chat.completions.create(**ask)
    again = client.chat.completions.create(**ask)
    timings = again.model_extra["timings"]
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1
    assert timings["cache_n"] + timings["prompt_n"] == again.usage.prompt_tokens
    assert timings["prompt_per_second"] == 0  # nothing was left to prefill


def test_a_drawn_seed_is_told_and_makes_the_reply_again(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 25, "temperature": 1.0}
    first = client.chat.completions.create(**ask)
    (seed,) = first.model_extra["metrics"]["seeds"]
    again = client.chat.completions.create(**ask, seed=seed)
    assert again.choices[0].message.content == first.choices[0].message.content


def test_several_choices_count_the_seed_up(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 15, "temperature": 1.0}
    three = client.chat.completions.create(**ask, n=3, seed=2**64 - 2)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert three.model_extra["metrics"]["seeds"] == [2**64 - 2, 2**64 - 1, 0]
    seeds = (2**64 - 2, 2**64 - 1, 0)
    singles = [client.chat.completions.create(**ask, seed=seed) for seed in seeds]
    for choice, single in zip(three.choices, singles, strict=True):
        assert choice.message.content == single.choices[0].message.content
    assert three.usage.prompt_tokens == singles[0].usage.prompt_tokens
    spoken = [finished(trace).token_ids for trace in server.recorder.traces[:3]]
    assert three.usage.completion_tokens == sum(map(len, spoken))
    assert three.model_extra["metrics"]["speculative_decoding"] is None


def test_a_stop_string_ends_the_reply_and_is_not_in_it(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 40}
    text = client.chat.completions.create(**ask).choices[0].message.content
    stop = text[len(text) // 2 :][:4]
    reply = client.chat.completions.create(**ask, stop=["never to be found", stop])
    assert reply.choices[0].message.content == text[: text.index(stop)]
    assert reply.choices[0].finish_reason == "stop"
    alone = client.chat.completions.create(**ask, stop=stop)
    assert alone.choices[0].message.content == reply.choices[0].message.content


def test_content_may_come_in_parts_and_developers_are_the_system(foreign) -> None:
    parts = [{"type": "text", "text": "Tell me"}, {"type": "text", "text": "a tale."}]
    with OpenAI(base_url=f"{foreign.url}/v1", api_key="unused", max_retries=0) as client:
        reply = client.chat.completions.create(
            model="default",
            messages=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": parts},
            ],
            max_tokens=12,
        )
    own = Request(
        messages=(Message("system", "Be brief."), Message("user", "Tell me\na tale.")),
        speculation=Speculation(proposer="ngram"),
        max_tokens=12,
    )
    assert reply.choices[0].message.content == finished(foreign.direct(own)).text
    assert foreign.recorder.traces[-1]  # n-grams drafted: this model has no draft
    started = next(e for e in foreign.recorder.traces[-1] if isinstance(e, Started))
    assert started.proposer == "ngram"


def test_both_names_of_the_limit_are_known(server, client: OpenAI) -> None:
    for limit in ({"max_tokens": 6}, {"max_completion_tokens": 6}):
        reply = client.chat.completions.create(
            model=server.model, messages=ASK, extra_body={"ignore_eos": True}, **limit
        )
        assert reply.usage.completion_tokens == 6
        assert reply.choices[0].finish_reason == "length"


def test_logprobs_are_the_targets_one_for_each_token(server, client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=server.model, messages=ASK, max_tokens=20, logprobs=True
    )
    entries = reply.choices[0].logprobs.content
    tokens = [
        token
        for event in server.recorder.traces[0]
        if isinstance(event, Emitted)
        for token in event.tokens
    ]
    assert len(entries) == reply.usage.completion_tokens
    assert [entry.logprob for entry in entries] == [math.log(token.p) for token in tokens]
    assert "".join(entry.token for entry in entries) == reply.choices[0].message.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == (
        reply.choices[0].message.content
    )


def test_the_likeliest_tokens_are_told_in_streams_too(server, client: OpenAI) -> None:
    ask = {
        "model": server.model,
        "messages": ASK,
        "max_tokens": 20,
        "temperature": 0.8,
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 4,
    }
    entries = client.chat.completions.create(**ask).choices[0].logprobs.content
    assert all(1 <= len(entry.top_logprobs) <= 4 for entry in entries)
    for entry in entries:
        told = [other.logprob for other in entry.top_logprobs]
        assert told == sorted(told, reverse=True)
        assert sum(map(math.exp, told)) <= 1 + 1e-5
        chosen = [other.logprob for other in entry.top_logprobs if other.token == entry.token]
        assert entry.logprob in chosen or entry.logprob <= told[-1]
    streamed = [
        entry
        for chunk in client.chat.completions.create(**ask, stream=True)
        for choice in chunk.choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content
    ]
    assert streamed == entries
    plain = client.chat.completions.create(**ask, extra_body={"proposer": "none"})
    told = [[other.token for other in entry.top_logprobs] for entry in entries]
    plainly = plain.choices[0].logprobs.content
    assert told == [[other.token for other in entry.top_logprobs] for entry in plainly]


def test_a_bias_bans_tokens_whoever_drafts(server, client: OpenAI) -> None:
    """The same words by every proposer, and others than without."""
    ask = {"model": server.model, "messages": ASK, "max_tokens": 24, "temperature": 0.7, "seed": 5}
    free = client.chat.completions.create(**ask, logprobs=True)
    own = own_request(max_tokens=24, sampling=Sampling(temperature=0.7, seed=5))
    banned = {str(token): -100 for token in finished(server.direct(own)).token_ids[::3]}
    texts = set()
    for proposer in ("none", "draft", "ngram"):
        server.recorder.clear()
        reply = client.chat.completions.create(
            **ask, logit_bias=banned, extra_body={"proposer": proposer}
        )
        texts.add(reply.choices[0].message.content)
        said = finished(server.recorder.traces[0]).token_ids
        assert not {str(token) for token in said} & set(banned)
    assert len(texts) == 1
    assert texts != {free.choices[0].message.content}
    for wrong in ({"x": 1}, {"99999999": 1}, {"5": 101}):
        with pytest.raises(BadRequestError) as caught:
            client.chat.completions.create(**ask, logit_bias=wrong)
        assert caught.value.param == "logit_bias"


def test_the_choices_of_a_prompt_are_tokenized_and_prefilled_once(
    server, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = server.runtime.engine.local._pair.session
    encode, encoded = session.codec.encode_request, []

    def counting(request: Request, context: int | None = None) -> list[int]:
        encoded.append(request)
        return encode(request, context)

    monkeypatch.setattr(session.codec, "encode_request", counting)
    ask = {"messages": [{"role": "user", "content": "Another tale, of four bears."}], "n": 4}
    reply = client.chat.completions.create(model=server.model, max_tokens=3, **ask)
    assert len(encoded) == 1
    assert len({choice.message.content for choice in reply.choices}) == 1
    prefilled = [e for t in server.recorder.traces for e in t if isinstance(e, Prefilled)]
    assert [one.tokens - one.reused for one in prefilled[1:]] == [1, 1, 1]


def test_unknown_fields_are_ignored_and_nulls_mean_left_out(server, http: httpx.Client) -> None:
    ask = {"messages": ASK, "max_tokens": 5}
    usual = http.post("/v1/chat/completions", json=ask).json()
    odd = http.post(
        "/v1/chat/completions",
        json={
            **ask,
            "user": "me",
            "store": False,
            "made_up": {"a": [1]},
            "temperature": None,
            "stop": None,
            "stream": None,
            "tools": [],
            "tool_choice": "auto",
            "response_format": {"type": "text"},
            "prediction": {"type": "content", "content": "Once"},
            "seed": -1,
            "top_k": -1,
        },
    )
    assert odd.status_code == 200
    assert odd.json()["choices"] == usual["choices"]
    ChatCompletion.model_validate(odd.json(), strict=True)


def test_no_limit_may_be_said_with_minus_one(server, http: httpx.Client) -> None:
    body = {"messages": ASK, "max_tokens": -1, "ignore_eos": True, "stop": ["e"]}
    reply = http.post("/v1/chat/completions", json=body)
    assert reply.json()["choices"][0]["finish_reason"] == "stop"


def test_two_clients_at_once_both_get_their_own_reply(server) -> None:
    async def both() -> list[ChatCompletion]:
        async with AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="unused", max_retries=0
        ) as client:
            return await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model=server.model, messages=ASK, max_tokens=limit
                    )
                    for limit in (4, 9)
                )
            )

    short, long = asyncio.run(both())
    assert (short.usage.completion_tokens, long.usage.completion_tokens) == (4, 9)
    assert long.choices[0].message.content.startswith(short.choices[0].message.content)


def test_the_queue_is_empty_when_nobody_is_there(server, client: OpenAI) -> None:
    """A ticket that is closed twice must not let more in than were there."""
    queue = RequestQueue(server.runtime.engine)

    async def admit() -> None:
        ticket = await queue.admit([own_request(max_tokens=1)])
        assert len(queue.tickets) == 1
        ticket.close()
        ticket.close()

    asyncio.run(admit())
    assert not queue.tickets
