"""/v1/completions and /v1/models, asked by the openai package."""

from __future__ import annotations

import httpx
import pytest
from openai import NotFoundError, OpenAI

from engine.events import Finished, Started
from engine.request import Request


def texts(server, *requests: Request) -> list[str]:
    ends = [server.direct(request)[-1] for request in requests]
    assert all(isinstance(end, Finished) for end in ends)
    return [end.text for end in ends]


def test_a_string_is_continued_as_it_is(server, client: OpenAI) -> None:
    reply = client.completions.create(model=server.model, prompt="Once upon", max_tokens=20)
    assert [reply.choices[0].text] == texts(server, Request(prompt="Once upon", max_tokens=20))
    assert reply.object == "text_completion"
    assert reply.id.startswith("cmpl-")


def test_several_prompts_get_their_choices_in_order(server, client: OpenAI) -> None:
    prompts = ["Once upon", "The little fox"]
    reply = client.completions.create(model=server.model, prompt=prompts, max_tokens=8, n=2)
    first, second = texts(server, *(Request(prompt=p, max_tokens=8) for p in prompts))
    assert [choice.text for choice in reply.choices] == [first, first, second, second]
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    started = [e for t in server.recorder.traces for e in t if isinstance(e, Started)]
    once_each = len(started[0].prompt_tokens) + len(started[2].prompt_tokens)
    assert reply.usage.prompt_tokens == once_each


def test_token_ids_are_continued_too(server, client: OpenAI) -> None:
    ids = [5, 6, 7, 8]
    (expected,) = texts(server, Request(token_ids=tuple(ids), max_tokens=8))
    one = client.completions.create(model=server.model, prompt=ids, max_tokens=8)
    assert [choice.text for choice in one.choices] == [expected]
    two = client.completions.create(model=server.model, prompt=[ids, ids[:2]], max_tokens=8)
    assert two.choices[0].text == expected
    assert two.usage.prompt_tokens == 6


def test_a_completion_has_16_tokens_unless_more_are_asked_for(server, http: httpx.Client) -> None:
    ask = {"prompt": "Once upon", "ignore_eos": True}
    assert http.post("/v1/completions", json=ask).json()["usage"]["completion_tokens"] == 16
    endless = http.post("/v1/completions", json={**ask, "max_tokens": -1, "stop": ["e"]}).json()
    assert endless["choices"][0]["finish_reason"] == "stop"


def test_logprobs_name_the_likeliest_tokens_and_where_texts_begin(server, client: OpenAI) -> None:
    ask = {"model": server.model, "prompt": "Once upon", "max_tokens": 12}
    (choice,) = client.completions.create(**ask, logprobs=3).choices
    told = choice.logprobs
    assert "".join(told.tokens) == choice.text
    for token, offset, logprob, top in zip(
        told.tokens, told.text_offset, told.token_logprobs, told.top_logprobs, strict=True
    ):
        assert choice.text[offset:].startswith(token)
        assert 1 <= len(top) <= 4
        assert max(top.values()) == pytest.approx(logprob, abs=1e-6)  # greedy: the likeliest
    assert client.completions.create(**ask, logprobs=0).choices[0].logprobs.top_logprobs is None


def test_the_loaded_pair_is_the_one_model(server, client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == server.model
    assert model.model_extra["max_model_len"] == server.runtime.engine.loaded.context
    assert client.models.retrieve(model.id) == model
    assert client.models.retrieve("default").id == model.id
    with pytest.raises(NotFoundError) as caught:
        client.models.retrieve("org/other")
    assert caught.value.code == "model_not_found"


def test_the_pair_goes_by_its_targets_name_too(server, http: httpx.Client) -> None:
    target = server.runtime.engine.loaded.target
    for name in (target, "default", server.model, None):
        body = {"model": name, "prompt": "Once", "max_tokens": 1}
        assert http.post("/v1/completions", json=body).json()["model"] == server.model


def test_health_is_what_llama_cpp_clients_expect(server, http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
