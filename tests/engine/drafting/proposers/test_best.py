"""Which member drafts: the one that is named, or past text where there is enough of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.proposers import create
from engine.drafting.proposers.best import BestProposer, RecallAccuracy
from engine.drafting.resources import Resources
from engine.events import Budget, Origin, Tree
from engine.values.sampling import AcceptanceRule, Sampling

TEXT = [*range(20, 32), 1, *range(20, 26)]
"""What follows 25 is known: 26, 27, ... for as many tokens as matched."""


class Written:
    """Drafts its own number, over and over; records what it observes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.observed: list[tuple[int, ...]] = []
        self.closed = False

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.observed.clear()

    def prepare(self, context: Context) -> Iterator[int]:
        yield len(context.tokens)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens = [self.number] * budget.depth
        return DraftProposal(Tree.chain(tokens), None, (None,) * len(tokens))

    def observe(self, acceptance: Acceptance) -> None:
        self.observed.append(acceptance.path)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def best() -> BestProposer:
    proposer = create("best", {}, Resources())
    assert isinstance(proposer, BestProposer)
    proposer.members = {"a": Written(1), "b": Written(2)}  # type: ignore[dict-item]
    proposer._preferred = "b"
    return proposer


def begin(proposer: BestProposer, text: Sequence[int] = TEXT) -> Context:
    context = Context(text)
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, 100)
    proposer.begin(context, sampler)
    assert sum(1 for _ in proposer.prepare(context)) >= len(proposer.members)
    return context


def drafted(proposal: DraftProposal) -> tuple[str | None, tuple[int, ...]]:
    return proposal.by, proposal.tree.tokens


ALWAYS, NEVER = (0.0,) * 15, (20.0,) * 15


def accepted(*path: int, next_token: int = 5) -> Acceptance:
    return Acceptance(path, next_token, Origin.CORRECTION)


def test_the_named_one_drafts_and_is_told_what_stood(best: BestProposer) -> None:
    context = begin(best)
    budget = Budget(3, 15, proposer="a", needed=NEVER)
    assert drafted(best.propose(context, budget)) == ("a", (1, 1, 1))
    best.observe(accepted(0))
    a, b = best.members.values()
    assert isinstance(a, Written) and isinstance(b, Written)
    assert (a.observed, b.observed) == ([(0,)], [])


def test_past_text_drafts_where_enough_of_it_is_expected_to_stand(best: BestProposer) -> None:
    context = begin(best)
    expected = best.accuracy.expected(6)
    for slack, by in ((-0.01, "suffix"), (0.01, "a")):
        needed = tuple(each + slack for each in (*expected, *NEVER))
        proposal = best.propose(context, Budget(2, 15, proposer="a", needed=needed))
        assert proposal.by == by
        best.observe(accepted())
    first = best.members["a"]
    assert isinstance(first, Written) and len(first.observed) == 1


def test_of_past_text_as_much_is_drafted_as_is_fastest(best: BestProposer) -> None:
    context = begin(best)
    expected = best.accuracy.expected(6)
    for most in (1, 4, 6):
        needed = [each + 1 for each in expected]
        needed[most - 1] = expected[most - 1] - 1
        proposal = best.propose(context, Budget(2, 15, proposer="a", needed=tuple(needed)))
        assert drafted(proposal) == ("suffix", tuple(range(26, 26 + most)))


def test_past_text_is_cut_to_what_is_still_wanted(best: BestProposer) -> None:
    context = begin(best)
    # It counts as accurate as all that is recalled, which a long match precedes.
    expected = best.accuracy.expected(6)[2]
    assert best.accuracy.expected(3)[2] < expected
    wanted = Budget(2, 15, proposer="a", needed=(*NEVER[:2], expected - 0.01))
    assert drafted(best.propose(context, wanted)) == ("suffix", (26, 27, 28))


def test_while_drafting_pauses_past_text_may_still_draft(best: BestProposer) -> None:
    context = begin(best)
    assert best.propose(context, Budget(0, 0, proposer="a", needed=ALWAYS)).by == "suffix"
    for budget in (Budget(0, 0, proposer="a", needed=NEVER), Budget(0, 0)):
        # Past text has no part in such a round: who pauses has to learn that it is over.
        assert drafted(best.propose(context, budget)) == (None, ())


def test_what_past_text_would_have_been_worth_is_learnt_whoever_drafts(best: BestProposer) -> None:
    budget = Budget(2, 15, proposer="a", needed=NEVER)
    context = begin(best)
    before = best.accuracy.expected(6)
    for _ in range(5):
        assert best.propose(context, budget).by == "a"
        best.observe(accepted(next_token=26))
    after = best.accuracy.expected(6)
    assert after[5] > before[5]
    for _ in range(15):
        best.propose(context, budget)
        best.observe(accepted(next_token=99))
    assert best.accuracy.expected(6)[5] < 0.5 * after[5]
    begin(best)
    assert best.accuracy.expected(6) == before  # each text is copied from, or not, in its own way


def test_where_short_recollections_come_true_longer_ones_are_believed() -> None:
    accuracy = RecallAccuracy()
    before = accuracy.expected(5)
    for _ in range(5):
        accuracy.observe((1, 2, 3), (1, 2, 3, 4))
    assert accuracy.expected(5)[4] > 1.3 * before[4]
    assert accuracy.expected(1) == RecallAccuracy().expected(1)


def test_the_more_recalled_tokens_are_right_the_likelier_the_next_one_is() -> None:
    one, two, three, *_ = RecallAccuracy().expected(6)
    assert (two - one) / one == pytest.approx(one)
    assert (three - two) / (two - one) > one + 0.1


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 16)), max_size=60))
def test_foresight_is_of_probabilities(seen: list[tuple[int, int]]) -> None:
    accuracy = RecallAccuracy()
    for length, right in seen:
        came = [*range(min(right, length)), -1]
        accuracy.observe(range(length), came)
    for length in range(16):
        expected = accuracy.expected(length)
        assert len(expected) == length
        steps = [b - a for a, b in pairwise([0.0, *expected])]
        assert all(0 <= b <= a + 1e-12 <= 1 + 1e-12 for a, b in pairwise([1.0, *steps]))


def test_under_a_fixed_depth_the_usual_one_drafts_or_text_that_goes_on_as_far(
    best: BestProposer,
) -> None:
    context = begin(best)
    assert drafted(best.propose(context, Budget(4, 15))) == ("suffix", (26, 27, 28, 29))
    assert drafted(best.propose(context, Budget(7, 15))) == ("b", (2,) * 7)


def test_with_nothing_loaded_it_is_suffix() -> None:
    proposer = create("best", {}, Resources())
    assert isinstance(proposer, BestProposer) and not proposer.members
    assert drafted(proposer.propose(begin(proposer), Budget(4, 15))) == ("suffix", (26, 27, 28, 29))


def test_closing_closes_all(best: BestProposer) -> None:
    begin(best)
    best.close()
    assert all(isinstance(one, Written) and one.closed for one in best.members.values())
