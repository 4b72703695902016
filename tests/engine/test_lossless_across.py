"""A draft with another vocabulary changes speed, never words: whole models, both ways, every rule.

The random target writes all kinds of broken characters. Its drafts: the pair's own with other numbers
for its tokens, which is often right, and one that splits text in SentencePiece's way. Trained models
that lie beside the repository draft for the embedded target.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from pathlib import Path

import pytest

from engine.events import Prefilled
from engine.request import AcceptanceRule, Control, Message, Request, Sampling, Speculation
from engine.stats import Statistics
from tests.engine.test_lossless import (
    COUPLED,
    GREEDY,
    PIP,
    PROMPTS,
    Pair,
    asked,
    compare,
    distribution,
    first_tokens,
    p_value,
    reply,
)
from tests.support.checkpoints import open_session
from tests.support.vocabularies import relabel

PLAIN = Speculation(proposer="none", depth=0)
WAYS = ("tli", "slem")
SAMPLINGS = (*GREEDY, *COUPLED[::3])
SCRIPTS = PROMPTS[-10:]
"""Prompts with accents, ideographs and an emoji."""


def drafting(way: str, depth: int, rule: AcceptanceRule = AcceptanceRule.AUTO) -> Speculation:
    return Speculation(
        proposer="draft",
        depth=depth,
        controller=Control.FIXED,
        acceptance=rule,
        options={"across": way},
    )


@pytest.fixture(scope="module", params=["strangers", "pieces"])
def random_pair(request: pytest.FixtureRequest, pair: tuple[Path, Path]) -> Pair:
    found = request.getfixturevalue(request.param)
    return Pair(pair[0], found[1] if isinstance(found, tuple) else found, "fp32")


@pytest.fixture(scope="module", params=["stories", "gptneo"])
def trained_pair(request: pytest.FixtureRequest) -> Pair:
    """The second one runs through transformers."""
    if not (PIP / "target" / "model.safetensors").is_file():
        pytest.skip("the embedded pair's weights are not here")
    return Pair(PIP / "target", request.getfixturevalue(request.param), "fp32")


@pytest.mark.parametrize("samplings", [GREEDY, COUPLED], ids=["greedy", "coupled"])
def test_every_proposer_and_controller_says_the_same(
    random_pair: Pair, samplings: tuple[Sampling, ...]
) -> None:
    compare(random_pair, PROMPTS[::8], samplings, stands=False)


@pytest.mark.parametrize("way", WAYS)
def test_both_ways_say_the_same_under_every_sampling(random_pair: Pair, way: str) -> None:
    assert_same(random_pair, way, (*PROMPTS[:140:20], *SCRIPTS[::2]))


@pytest.mark.parametrize("way", WAYS)
def test_a_trained_draft_says_the_same(trained_pair: Pair, way: str) -> None:
    assert_same(trained_pair, way, (PROMPTS[3], *SCRIPTS[::4]))


@pytest.mark.parametrize("way", WAYS)
def test_a_draft_is_as_good_as_with_the_targets_own_numbers(tmp_path: Path, way: str) -> None:
    """The embedded draft, its tokens numbered anew: nearly as many of its tokens stand."""
    if not (PIP / "draft" / "model.safetensors").is_file():
        pytest.skip("the embedded pair's weights are not here")
    shutil.copytree(PIP / "draft", tmp_path / "draft")
    relabel(tmp_path / "draft")
    lengths = []
    for draft in (PIP / "draft", tmp_path / "draft"):
        session, total = open_session(PIP / "target", draft), Statistics()
        assert (session.resources.vocabularies is None) == (draft.parent == PIP)
        for prompt in PROMPTS[::20]:
            asking = asked(prompt, Sampling(), drafting(way, 4))
            total += reply(session, dataclasses.replace(asking, max_tokens=32))[1]
        lengths.append(total.accepted / total.rounds)
    assert lengths[1] > 0.8 * lengths[0] > 0.4


@pytest.mark.parametrize("way", WAYS)
def test_a_conversation_goes_on_from_what_both_models_hold(random_pair: Pair, way: str) -> None:
    session = random_pair.speculative
    turns: tuple[Message, ...] = ()
    for number, words in enumerate(("Tell me a tale of 😀 é.", "And then?", "漢字, you say?")):
        turns = (*turns, Message("user", words))
        request = Request(messages=turns, speculation=PLAIN, max_tokens=12, ignore_eos=True)
        expected, _ = reply(random_pair.plain, request)
        request = dataclasses.replace(request, speculation=drafting(way, 4))
        events = list(session.run(request, lambda: False))
        assert events[-1].token_ids == expected  # type: ignore[union-attr]
        prefilled = next(event for event in events if isinstance(event, Prefilled))
        assert prefilled.reused or not number
        turns = (*turns, Message("assistant", events[-1].text))  # type: ignore[union-attr]


@pytest.mark.parametrize(("draft", "way"), [("strangers", "tli"), ("pieces", "slem")])
def test_rejection_sampling_leaves_the_targets_distribution(
    draft: str, way: str, pair: tuple[Path, Path], request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(draft)
    session = open_session(pair[0], found[1] if isinstance(found, tuple) else found)
    sampling = Sampling(temperature=1.2, top_k=12)
    asking = Request(
        messages=(Message("user", "again and again and again and"),),
        speculation=drafting(way, 2, AcceptanceRule.REJECTION),
    )
    prompt = session.prepare(asking)
    replies = list(first_tokens(session, asking, sampling))
    firsts = [each[0] for each in replies]
    assert p_value(firsts, distribution(session, prompt, sampling)) > 1e-4
    common = max(set(firsts), key=firsts.count)
    seconds = [each[1] for each in replies if each[0] == common]
    assert p_value(seconds, distribution(session, [*prompt, common], sampling)) > 1e-4


def assert_same(pair: Pair, way: str, prompts: tuple[str, ...]) -> None:
    """Each prompt with the next sampling and depth, against plain decoding."""
    depths = itertools.cycle((1, 3, 8))
    drafted = 0
    for prompt, sampling, depth in zip(prompts, itertools.cycle(SAMPLINGS), depths, strict=False):
        expected, _ = reply(pair.plain, asked(prompt, sampling, PLAIN))
        tokens, figures = reply(pair.speculative, asked(prompt, sampling, drafting(way, depth)))
        assert tokens == expected, (prompt, way, depth, sampling)
        drafted += figures.drafted
    assert drafted
