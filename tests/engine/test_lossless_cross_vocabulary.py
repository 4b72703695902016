"""A draft with another vocabulary changes speed, never words: whole models, every rule.

The random target writes all kinds of broken characters. Its drafts: the pair's own with other numbers
for its tokens, which is often right, and one that splits text in SentencePiece's way. Trained models
that lie beside the repository draft for the embedded target.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.events import Finished, Prefilled
from engine.request import Control, Request, Speculation
from engine.values import MAX_DEPTH
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule
from tests.support.checkpoints import open_session
from tests.support.lossless import (
    COUPLED,
    GREEDY,
    PLAIN,
    PROMPTS,
    Pair,
    answer,
    asked,
    assert_distribution,
    tree_options,
)
from tests.support.pairwise import all_pairs
from tests.support.places import PIP
from tests.support.vocabularies import relabel

SAMPLINGS = (GREEDY, *COUPLED[::3])
SCRIPTS = PROMPTS[-10:]
"""Prompts with accents, ideographs and an emoji."""
TOKENS = 16


def drafting(depth: int, rule: AcceptanceRule = AcceptanceRule.AUTO) -> Speculation:
    return Speculation(
        proposer="draft",
        depth=depth,
        controller=Control.FIXED,
        acceptance=rule,
    )


@pytest.fixture(scope="module", params=["strangers", "pieces"])
def random_pair(request: pytest.FixtureRequest, pair: tuple[Path, Path]) -> Pair:
    found = request.getfixturevalue(request.param)
    return Pair(pair[0], found[1] if isinstance(found, tuple) else found, "fp32")


@pytest.fixture(scope="module", params=["stories", "gptneo"])
def trained_pair(request: pytest.FixtureRequest) -> Pair:
    """The second one runs through transformers."""
    return Pair(PIP / "target", request.getfixturevalue(request.param), "fp32")


def test_every_proposer_and_controller_says_the_same(random_pair: Pair) -> None:
    cases = all_pairs(
        random_pair.proposers, SAMPLINGS, tuple(Control), (1, 4, MAX_DEPTH), (0, 5, 15)
    )
    drafted = Counter[str]()
    for (name, sampling, control, depth, nodes), prompt in zip(cases, spread(), strict=False):
        wanted = Speculation(
            proposer=name,
            depth=0 if control is Control.OFF else depth,
            controller=control,
            options=tree_options(name, nodes),
        )
        drafted[name] += random_pair.check(prompt, sampling, wanted, TOKENS).drafted
    assert drafted.keys() == set(random_pair.proposers)
    assert drafted["draft"]  # random words seldom come again: the others may find nothing


def spread() -> Iterator[str]:
    """Prompts without end, every third one with other scripts."""
    for plain, scripts in zip(itertools.cycle(PROMPTS[::7]), itertools.cycle(SCRIPTS), strict=True):
        yield from (plain, f"{plain} {plain}", scripts)


def test_it_says_the_same_under_every_sampling(random_pair: Pair) -> None:
    assert_same(random_pair, (*PROMPTS[:140:35], *SCRIPTS[::3]))


def test_a_trained_draft_says_the_same(trained_pair: Pair) -> None:
    assert_same(trained_pair, (PROMPTS[3], *SCRIPTS[::4]))


def assert_same(pair: Pair, prompts: tuple[str, ...]) -> None:
    """Each prompt with the next sampling and depth, against plain decoding."""
    depths = itertools.cycle((1, 3, 8))
    drafted = 0
    for prompt, sampling, depth in zip(prompts, itertools.cycle(SAMPLINGS), depths, strict=False):
        drafted += pair.check(prompt, sampling, drafting(depth), TOKENS).drafted
    assert drafted


def test_a_draft_is_as_good_as_with_the_targets_own_numbers(tmp_path: Path) -> None:
    """The embedded draft, its tokens numbered anew: nearly as many of its tokens stand."""
    shutil.copytree(PIP / "draft", tmp_path / "draft")
    relabel(tmp_path / "draft")
    lengths = []
    for draft in (PIP / "draft", tmp_path / "draft"):
        session, accepted, rounds = open_session(PIP / "target", draft), 0, 0
        assert (session.resources.vocabularies is None) == (draft.parent == PIP)
        for prompt in PROMPTS[::20]:
            found = answer(session, asked(prompt, GREEDY, drafting(4), 32))
            accepted, rounds = accepted + found.accepted, rounds + len(found.rounds)
        lengths.append(accepted / rounds)
    assert lengths[1] > 0.8 * lengths[0] > 0.4


def test_a_conversation_goes_on_from_what_both_models_hold(random_pair: Pair) -> None:
    session = random_pair.speculative
    turns: tuple[Message, ...] = ()
    for number, words in enumerate(("Tell me a tale of 😀 é.", "And then?", "漢字, you say?")):
        turns = (*turns, Message("user", words))
        request = Request(messages=turns, speculation=PLAIN, max_tokens=12, ignore_eos=True)
        expected = answer(random_pair.plain, request).tokens
        request = dataclasses.replace(request, speculation=drafting(4))
        events = list(session.run(request, lambda: False))
        last = events[-1]
        assert isinstance(last, Finished) and last.token_ids == expected
        prefilled = next(event for event in events if isinstance(event, Prefilled))
        assert prefilled.reused or not number
        turns = (*turns, Message("assistant", last.text))


@pytest.mark.parametrize("draft", ["strangers", "pieces"])
def test_rejection_sampling_leaves_the_targets_distribution(
    draft: str, pair: tuple[Path, Path], request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(draft)
    session = open_session(pair[0], found[1] if isinstance(found, tuple) else found)
    assert_distribution(session, drafting(2, AcceptanceRule.REJECTION))
