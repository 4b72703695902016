"""A draft that chooses among a part of the vocabulary changes no word: Pip's, cut to almost nothing."""

from __future__ import annotations

import functools

import pytest

from engine.drafting import draft_reader, vocabulary_trimmer
from engine.drafting.proposers.draft import DraftModelProposer
from engine.kernels.operands import GROUP
from engine.request import Speculation
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.lossless import (
    COUPLED,
    GREEDY,
    PROMPTS,
    Pair,
    answer,
    asked,
    assert_distribution,
)
from tests.support.places import PIP

FREQUENT = 20
"""Groups of Pip's 256."""
WEIGHING = [rule for rule in AcceptanceRule if rule.weighs_q]

pytestmark = pytest.mark.usefixtures("library", "cut")


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_reader, "frequent_tokens", lambda vocabulary: FREQUENT * GROUP)
    monkeypatch.setattr(vocabulary_trimmer, "MISSES", 1000)


@functools.cache
def embedded() -> Pair:
    return Pair(PIP / "target", PIP / "draft")


def among() -> int:
    """How many groups of tokens the last draft was chosen among."""
    _, proposer = embedded().speculative._slots.first._proposers["draft"]
    assert isinstance(proposer, DraftModelProposer)
    found = proposer.reader.trimmed
    assert found is not None
    groups = sum(map(len, found.runs))
    assert FREQUENT < groups < 160
    return groups


def test_words_are_those_of_plain_decoding() -> None:
    drafted = accepted = new = 0
    for number, prompt in enumerate(PROMPTS[::10]):
        sampling = (GREEDY, *COUPLED)[number % (1 + len(COUPLED))]
        found = embedded().check(prompt, sampling, Speculation(proposer="draft", depth=4), 32)
        drafted, accepted = drafted + found.drafted, accepted + found.accepted
        new += among() - FREQUENT
    assert 0 < accepted < drafted
    assert new


@pytest.mark.parametrize("rule", WEIGHING)
def test_rules_that_weigh_q_leave_the_targets_distribution(rule: AcceptanceRule) -> None:
    wanted = Speculation(proposer="draft", depth=2, acceptance=rule)
    assert_distribution(embedded().speculative, wanted)
    assert among()


@pytest.mark.parametrize("rule", WEIGHING)
def test_a_seeds_words_do_not_depend_on_earlier_texts(rule: AcceptanceRule) -> None:
    """Under these rules they depend on the draft, and so on what it may choose among."""
    wanted = Speculation(proposer="draft", depth=4, acceptance=rule)
    sampling = Sampling(temperature=1.0, seed=3)
    first, other, again = (
        answer(embedded().speculative, asked(PROMPTS[number], sampling, wanted, 24)).tokens
        for number in (0, 55, 0)
    )
    assert first == again != other
