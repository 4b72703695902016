"""Every method, rule, format and batch gives equal tokens and log probabilities; what differs is found.

A long run is ``foretoken verify pip --prompts assets/prompts/pip.jsonl --count 1000``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.bench.prompts import read
from engine.bench.real.contest import EncodedPrompt
from engine.bench.verify.comparison import RULES, TOP, Found, cases, run
from engine.decoding.verifier import Verifier, VerifierOutput
from engine.local.engine import LocalEngine
from engine.request import PLAIN, Request
from engine.values import MAX_DEPTH
from engine.values.messages import Message
from tests.support.acceptance import accept_first
from tests.support.heads import IN_FOLDERS, heads_of_pip
from tests.support.loading import request_for
from tests.support.places import PIP

TEXTS = [prompt.turns[0] for prompt in read()]


def encoded(engine: LocalEngine, count: int) -> list[EncodedPrompt]:
    requests = [Request(messages=(Message("user", text),)) for text in TEXTS[:count]]
    return [EncodedPrompt("chat", tuple(engine.tokens(request))) for request in requests]


@pytest.fixture(scope="module")
def engine(pair: tuple[Path, Path]) -> Iterator[LocalEngine]:
    with closing(LocalEngine()) as engine:
        engine.load(request_for(*pair))
        yield engine


def test_pip_is_equal_by_every_method_alone_and_several_at_once() -> None:
    """In bf16; the other formats are what ``tests/engine/test_lossless.py`` has, on more prompts."""
    with closing(LocalEngine()) as engine:
        heads = list(heads_of_pip())
        loaded = engine.load(
            request_for(PIP / "target", PIP / "draft", heads, quantization="bf16", parallel=3)
        )
        assert loaded.capabilities.parallel == 3
        found, told = Found(), list[tuple[int, int]]()
        run(
            engine,
            encoded(engine, 2),
            found,
            max_tokens=12,
            on_progress=lambda *now: told.append(now),
        )
    assert not found.differences and all(row.differ == 0 for row in found.rows.values())
    assert set(found.rows) == {
        ("bf16", name, rule, count) for name in IN_FOLDERS for rule in RULES for count in (1, 3)
    }
    # Four questions alone, then two groups of three, the last of which begins anew.
    assert told[-1] == (10 * len(IN_FOLDERS), 10 * len(IN_FOLDERS))
    for name in IN_FOLDERS:
        own = [row for row in found.rows.values() if row.proposer == name]
        assert sum(row.replies for row in own) == 10
        drafted, accepted = sum(row.drafted for row in own), sum(row.accepted for row in own)
        if name == "assistant":  # Pip's is random
            assert 0 <= accepted < drafted
        else:
            assert 0 < accepted < drafted if name != PLAIN else drafted == 0, name
    assert [row.is_reference for row in found.rows.values() if row.proposer == PLAIN] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_random_pair_is_equal(engine: LocalEngine) -> None:
    """Its draft is wrong as often as right. ``test_batch.py`` and ``test_loop.py`` have more rounds."""
    found = Found()
    run(engine, encoded(engine, 2), found, seed=3)
    assert not found.differences
    drafts = [row for row in found.rows.values() if row.proposer == "draft"]
    assert 0 < sum(row.accepted for row in drafts) < sum(row.drafted for row in drafts)
    assert {row.at_once for row in found.rows.values()} == {1}  # this engine runs one at a time


def test_a_broken_acceptance_rule_is_found_with_its_place_and_both_tokens(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that takes whatever comes first, right or wrong."""

    monkeypatch.setattr("engine.decoding.verifier.accept_matching", accept_first)
    # What is taken so has a probability, and is not refused as a token of broken logits.
    monkeypatch.setattr("engine.bench.verify.comparison._TRUNCATIONS", ({},))
    found = Found()
    run(engine, encoded(engine, 2), found, seed=3)
    assert sum(row.differ for row in found.rows.values()) == len(found.differences) > 0
    assert PLAIN not in {one.proposer for one in found.differences}
    greedy = next(one for one in found.differences if one.sampling.temperature == 0)
    expected, other = greedy.first.expected, greedy.first.found
    assert expected is not None and other is not None and expected.id != other.id
    assert expected.logprob is not None and other.logprob is not None
    assert other.logprob < expected.logprob < 0  # by the target, which is greedy
    assert engine.tokenizer is not None and expected.text == engine.tokenizer.piece(expected.id)


def test_a_log_probability_alone_is_a_difference(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the last bit of one probability that a round with drafts reports; the words stay the same."""
    original = Verifier._output

    def nudged(self: Verifier, acceptance, probabilities, tree, *more) -> VerifierOutput:  # type: ignore[no-untyped-def]
        made = original(self, acceptance, probabilities, tree, *more)
        return replace(made, next_p=math.nextafter(made.next_p, 0)) if tree.tokens else made

    monkeypatch.setattr(Verifier, "_output", nudged)
    found = Found()
    run(engine, encoded(engine, 1), found)
    assert found.differences
    for one in found.differences:
        assert one.first.expected is not None and one.first.found is not None
        assert one.first.expected.id == one.first.found.id


def test_the_likeliest_tokens_are_compared_too(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    generate = engine.generate
    monkeypatch.setattr(engine, "generate", lambda one: asked.append(one) or generate(one))
    run(engine, encoded(engine, 1), Found(), max_tokens=2)
    assert {request.top_logprobs for request in asked} == {TOP}


def test_depths_and_sampling_are_drawn_and_come_again() -> None:
    prompts = [EncodedPrompt("chat", (number,)) for number in range(100)]
    drawn = list(cases(prompts, seed=1))
    assert drawn == list(cases(prompts, seed=1)) != list(cases(prompts, seed=2))
    assert [case.prompt for case in drawn] == [number for number in range(100) for _ in RULES]
    assert {case.depth for case in drawn} == {None, *range(1, MAX_DEPTH + 1)}
    for greedy, coupled in zip(drawn[::2], drawn[1::2], strict=True):
        assert greedy.request.sampling.temperature == 0 < coupled.request.sampling.temperature
    fixed = next(case for case in drawn if case.depth is not None)
    assert fixed.by("draft").speculation.depth == fixed.depth
    assert fixed.by(PLAIN).speculation.depth is None
