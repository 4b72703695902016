"""Speculation changes speed, never words: the embedded pair, every proposer and controller.

What is combined here (proposer, controller, depth, tree, sampling, kernels, quantisation, length of the
prompt) is combined in pairs; ``test_loop.py`` has every proposer at every depth, on fakes.
"""

from __future__ import annotations

import functools
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from engine.decoding import verifier
from engine.decoding.acceptance import Acceptance, rejection_sample, verify_block
from engine.drafting.heads import kind_in
from engine.kernels.formats import Q4, QUANTISED
from engine.kernels.torch.attention import PAGE_SIZE
from engine.models.checkpoints.checkpoint import inspect
from engine.request import Control, Speculation
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import open_session
from tests.support.gguf_heads import write_gguf_head
from tests.support.heads import IN_FOLDERS, dflash2, heads_of_pip, peagle, write_head
from tests.support.lossless import (
    COUPLED,
    GREEDY,
    PROMPTS,
    Pair,
    answer,
    asked,
    assert_distribution,
    tree_options,
)
from tests.support.pairwise import all_pairs
from tests.support.places import PIP

DRAFTING = IN_FOLDERS[1:]
"""All that Pip has but plain decoding, which they are compared with."""


@functools.cache
def embedded(dtype: str = "auto", compiled: bool = True) -> Pair:
    """Pip with its draft and its heads."""
    heads = list(heads_of_pip())
    return Pair(PIP / "target", PIP / "draft", dtype, heads, compiled)


# -- many prompts

SHORT = 24
CASES = [
    *all_pairs(
        DRAFTING,
        (GREEDY, *COUPLED),
        (1, 2, 5, MAX_DEPTH),
        (0, 5, 15),
        (Control.FIXED, Control.AUTO),
    ),
    *((name, COUPLED[0], 4, 0, Control.OFF) for name in DRAFTING),
]


def test_there_are_200_prompts_and_every_pair_of_settings() -> None:
    assert len(set(PROMPTS)) == 200 > len(CASES)
    assert {case[0] for case in CASES} == set(embedded().proposers)
    assert {case[4] for case in CASES} == set(Control)


@pytest.mark.parametrize("name", DRAFTING)
def test_200_prompts_get_the_same_words(name: str) -> None:
    """Each with one proposer under one of its settings."""
    drafted = accepted = 0
    for number, prompt in enumerate(PROMPTS):
        proposer, sampling, depth, nodes, control = CASES[number % len(CASES)]
        if proposer == name:
            options = tree_options(name, nodes)
            wanted = Speculation(proposer=name, depth=depth, controller=control, options=options)
            found = embedded().check(prompt, sampling, wanted, SHORT)
            drafted, accepted = drafted + found.drafted, accepted + found.accepted
    assert 0 < accepted < drafted  # else half of the engine would be untested


@pytest.mark.parametrize("layout", ["p-eagle", "dflash2", "eagle3.gguf"])
def test_heads_of_other_layouts_get_the_same_words(layout: str, tmp_path: Path) -> None:
    target = inspect(PIP / "target")
    match layout:
        case "p-eagle":
            head = write_head(tmp_path / "head", *peagle(target))
        case "dflash2":
            head = write_head(tmp_path / "head", *dflash2(target))
        case _:
            head = write_gguf_head(PIP / "eagle3", tmp_path / "head.gguf", target.layers)
    pair = copy(embedded())  # whose plain words are known
    pair.speculative = open_session(PIP / "target", heads=[head], dtype="auto")
    name = kind_in(head)
    assert name is not None
    for number, prompt in enumerate(PROMPTS[:2]):
        wanted = Speculation(proposer=name, depth=(2, 7)[number % 2])
        found = pair.check(prompt, (GREEDY, COUPLED[0])[number % 2], wanted, SHORT)
        assert found.drafted


# -- long roll-backs over the borders of KV pages

LONG = 24
ENGINES = [*((dtype, True) for dtype in ("auto", *QUANTISED, Q4)), ("auto", False)]
"""Compiled, and torch's: both have an attention of their own, which is that of all quantisations."""
BEFORE_BORDERS = (PAGE_SIZE - 16, PAGE_SIZE - 8, PAGE_SIZE, 2 * PAGE_SIZE - 7)
"""Lengths of prompts: 24 tokens more cross groups of 16 positions, which the compiled attention takes
together, and soon a border of pages of the KV cache; the third one ends at one."""
SAMPLINGS = (GREEDY, COUPLED[0], COUPLED[8], COUPLED[11])
DEEP = all_pairs(DRAFTING, ENGINES, BEFORE_BORDERS, SAMPLINGS, (0, 15))


@functools.cache
def text() -> list[int]:
    """Token ids of many prompts, one after the other."""
    codec = embedded().plain.codec
    return [token for prompt in PROMPTS for token in codec.encode(prompt, special=False)]


@pytest.mark.parametrize(("dtype", "compiled"), ENGINES)
def test_drafts_of_15_tokens_that_fall_leave_no_trace(
    dtype: str, compiled: bool, request: pytest.FixtureRequest
) -> None:
    """Rejected where their rows had filled the next page already, and accepted there too."""
    if dtype == Q4:
        request.getfixturevalue("library")  # which alone multiplies it
    pair, over, met = embedded(dtype, compiled), Counter[int](), set()
    for name, engine, length, sampling, nodes in DEEP:
        if engine != (dtype, compiled):
            continue
        wanted = Speculation(proposer=name, depth=MAX_DEPTH, options=tree_options(name, nodes))
        found = pair.check(text()[:length], sampling, wanted, LONG)
        met.add(name)
        over.update({size: found.rolled_back_over(size) for size in (16, PAGE_SIZE)})
        over["longest"] = max(over["longest"], found.longest_rejection)
    assert met == set(DRAFTING)
    assert over[16] and over[PAGE_SIZE]
    assert over["longest"] >= 12


# -- rejection sampling: not the same words, but the same distribution

REJECTION = AcceptanceRule.REJECTION
WEIGHED = [
    *(
        (name, Control.FIXED, REJECTION)
        for name in ("ngram", "draft", "eagle3", "medusa", "block", "best")
    ),
    *(("draft", control, REJECTION) for control in Control if control is not Control.FIXED),
    ("best", Control.AUTO, REJECTION),
    *(
        ("draft", Control.FIXED, rule)
        for rule in AcceptanceRule
        if rule.weighs_q and rule != REJECTION
    ),
]
"""Drafts without q, drawn ones, a tree, a block, and whoever is best; every controller and every other
such rule with the one that draws its drafts; and the one that the controller chooses the proposer for.
The others give q as one of these; ``hybrid`` has its own, and ``test_acceptance.py`` enumerates."""


@pytest.mark.parametrize(("name", "control", "rule"), WEIGHED)
def test_rules_that_weigh_q_leave_the_targets_distribution(
    name: str, control: Control, rule: AcceptanceRule
) -> None:
    options = tree_options(name, 6)
    assert_distribution(
        embedded().speculative,
        Speculation(proposer=name, depth=2, controller=control, acceptance=rule, options=options),
    )


def test_rules_that_weigh_q_accept_more_than_coupled_and_not_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason to offer them. Which of the two keeps more is no matter of 30 prompts, but of
    ``test_acceptance.py``; here they are seen to be two, on the same drafts and coins."""
    differ: Counter[bool] = Counter()

    def weigh(*round: Any) -> Acceptance:
        one, other = rejection_sample(*round), verify_block(*round)
        differ[one.path != other.path] += 1
        return other

    monkeypatch.setitem(verifier._WEIGHING, AcceptanceRule.BLOCK, weigh)  # type: ignore[arg-type]
    rates = {}
    for rule in (AcceptanceRule.COUPLED, REJECTION, AcceptanceRule.BLOCK):
        drafted = accepted = 0
        for seed, prompt in enumerate(PROMPTS[:30]):
            wanted = Speculation(proposer="draft", depth=3, acceptance=rule)
            sampling = Sampling(temperature=1.0, seed=seed)
            found = answer(embedded().speculative, asked(prompt, sampling, wanted, 8))
            drafted, accepted = drafted + found.drafted, accepted + found.accepted
        rates[rule] = accepted / drafted
    assert min(rates[REJECTION], rates[AcceptanceRule.BLOCK]) > rates[AcceptanceRule.COUPLED]
    assert differ[True]


def test_a_round_shows_what_the_rule_decided_on() -> None:
    """q of every drafted token, and p of every one that was judged."""
    judged = 0
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=1)):
        wanted = Speculation(proposer="draft", depth=4)
        found = answer(embedded().speculative, asked(PROMPTS[0], sampling, wanted, SHORT))
        for one in found.rounds:
            assert all(q is not None and 0 < q <= 1 for q in one.q)
            reached = one.p[: len(one.accepted_path) + 1]
            assert all(p is not None and 0 <= p <= 1 for p in reached)
            judged += len(reached)
    assert judged > SHORT
