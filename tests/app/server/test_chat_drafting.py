"""Who drafts for a chat, by what it asks, and what it is told of that."""

from __future__ import annotations

import re

import pytest
from openai import BadRequestError, OpenAI

from app.settings.defaults import Defaults, Winner
from engine.events import Emitted
from engine.request import Request, Speculation
from engine.stats import Tally
from engine.values.messages import Message
from engine.values.sampling import Sampling

ASK = [{"role": "user", "content": "Tell me a tale of a fox."}]


@pytest.mark.parametrize("proposer", ["none", "draft", "ngram"])
@pytest.mark.parametrize("temperature", [0, 0.9])
def test_the_words_do_not_depend_on_the_proposer(
    server, client: OpenAI, proposer: str, temperature: float
) -> None:
    reply = client.chat.completions.create(
        model="default",
        messages=ASK,
        max_tokens=40,
        temperature=temperature,
        seed=7,
        extra_body={"proposer": proposer, "depth": 3},
    )
    plain = Request(
        messages=(Message("user", ASK[0]["content"]),),
        max_tokens=40,
        sampling=Sampling(temperature=temperature, seed=7),
        speculation=Speculation(proposer="none"),
    )
    assert reply.choices[0].message.content == server.direct(plain)[-1].text


def test_statistics_equal_the_trace(server, client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=server.model,
        messages=ASK,
        max_tokens=40,
        temperature=1.2,
        seed=3,
        extra_body={"speculation": {"proposer": "draft", "depth": 5, "acceptance": "rejection"}},
    )
    (trace,) = server.recorder.traces
    tally = Tally()
    for event in trace:
        tally.add(event)
    expected = tally.statistics()
    assert reply.model_extra["timings"] == {
        "cache_n": expected.reused_tokens,
        "prompt_n": expected.prompt_tokens - expected.reused_tokens,
        "prompt_ms": expected.prefill_s * 1000,
        "prompt_per_second": (
            (expected.prompt_tokens - expected.reused_tokens - 1) / expected.prefill_s
        ),
        "predicted_n": expected.completion_tokens,
        "predicted_ms": expected.decode_s * 1000,
        "predicted_per_second": expected.tokens_per_s,
        "draft_n": expected.drafted,
        "draft_n_accepted": expected.accepted,
    }
    rounds = [event.round for event in trace if isinstance(event, Emitted)]
    drafting = reply.model_extra["metrics"]["speculative_decoding"]
    histogram = drafting["acceptance_histogram"]
    assert histogram == [sum(round.accepted == length for round in rounds) for length in range(6)]
    assert sum(histogram) == drafting["num_spec_steps"] == len(rounds)
    assert sum(i * n for i, n in enumerate(histogram)) == drafting["num_accepted_draft_tokens"]
    assert drafting["num_draft_tokens"] == expected.drafted
    assert drafting["num_spec_tokens"] == 5
    assert drafting["draft_acceptance_rate"] == expected.acceptance_rate
    assert drafting["mean_acceptance_length"] == expected.mean_acceptance_length
    assert drafting["per_position_acceptance_rates"] == list(expected.per_position)


def test_plain_decoding_has_no_drafting_statistics(server, client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model=server.model, messages=ASK, max_tokens=4, extra_body={"proposer": "none"}
    )
    assert reply.model_extra["metrics"]["speculative_decoding"] is None
    assert reply.model_extra["timings"]["draft_n"] == 0


def test_a_prediction_is_drafted_from_and_counted(server, client: OpenAI) -> None:
    ask = {"model": server.model, "messages": ASK, "max_tokens": 40}
    plain = client.chat.completions.create(**ask)
    text = plain.choices[0].message.content
    none = plain.usage.completion_tokens_details
    assert (none.accepted_prediction_tokens, none.rejected_prediction_tokens) == (0, 0)
    parts = [{"type": "text", "text": text}]
    for content, right in ((text, True), (parts, True), ("It will say nothing like it.", False)):
        server.recorder.clear()
        reply = client.chat.completions.create(
            **ask,
            prediction={"type": "content", "content": content},
            extra_body={"depth": 8, "spec_decode_metrics": "detailed"},
        )
        assert reply.choices[0].message.content == text
        rounds = [e.round for e in server.recorder.traces[0] if isinstance(e, Emitted)]
        ours = [one for one in rounds if one.proposer == "predicted"]
        told = reply.usage.completion_tokens_details
        accepted = sum(one.accepted for one in ours)
        assert told.accepted_prediction_tokens == accepted
        assert told.rejected_prediction_tokens == sum(len(one.tree) for one in ours) - accepted
        assert (accepted >= 20) is right
        steps = reply.model_extra["metrics"]["speculative_decoding"]
        assert steps["per_step_accepted"] == [one.accepted for one in rounds]
        assert steps["per_step_drafted"] == [len(one.tree) for one in rounds]
        assert steps["per_step_proposer"] == [one.proposer for one in rounds]
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(
            **ask,
            prediction={"type": "content", "content": text},
            extra_body={"proposer": "none"},
        )
    assert caught.value.param == "prediction"


def test_the_controller_and_its_reasons_are_told(server, client: OpenAI) -> None:
    for given, name in (({}, "auto"), ({"depth": 3}, "fixed"), ({"controller": "off"}, "off")):
        reply = client.chat.completions.create(
            model=server.model, messages=ASK, max_tokens=20, extra_body=given
        )
        told = reply.model_extra["metrics"]["controller"]
        assert told["name"] == name
        if name == "auto":
            assert re.match(r"(\w[\w -]*: )?drafting ", told["decision"]["why"])
        else:
            assert told["decision"] is None


def test_where_nothing_is_chosen_the_measured_default_drafts_and_the_model_says_so(
    server, client: OpenAI
) -> None:
    defaults, loaded = Defaults(server.runtime.data_dir), server.runtime.engine.loaded
    defaults.keep(loaded, Winner("suffix", "fixed", 3, 2.0, 9), {})
    try:
        told = client.models.retrieve(server.model).model_extra["default"]
        assert (told["proposer"], told["controller"], told["depth"]) == ("suffix", "fixed", 3)
        assert "(measured " in told["measured"]
        for given, proposer, depths in (
            ({}, "suffix", {3}),
            ({"acceptance": "greedy"}, "suffix", {3}),
            ({"depth": 2, "proposer": "draft"}, "draft", {2}),
            ({"proposer": "none"}, "none", {0}),
        ):
            server.recorder.clear()
            client.chat.completions.create(
                model=server.model, messages=ASK, max_tokens=8, extra_body=given
            )
            (trace,) = server.recorder.traces
            rounds = [event.round for event in trace if isinstance(event, Emitted)]
            assert {one.proposer for one in rounds} == {proposer}
            # The last ones are shallower: the reply has an end.
            assert {rounds[0].budget.depth} == depths
    finally:
        defaults.clear()
    assert client.models.retrieve(server.model).model_extra["default"]["measured"] is None
