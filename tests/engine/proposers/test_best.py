"""Which member drafts: the one that is named, or past text where there is enough of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget, Origin, Tree
from engine.proposers import create
from engine.proposers.base import DraftProposal, Resources
from engine.proposers.best import BestProposer
from engine.request import AcceptanceRule, Sampling
from engine.sampling import Sampler

TEXT = [*range(20, 32), 1, *range(20, 26)]
"""What follows 25 is known: 26, 27, ... for as many tokens as matched."""


class Written:
    """Drafts its own number, over and over; notes what it was told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[tuple[int, ...]] = []
        self.closed = False

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.told.clear()

    def prepare(self, context: Context) -> Sequence[None]:
        return [None]

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        tokens = [self.number] * budget.depth
        return DraftProposal(Tree.chain(tokens), None, (None,) * len(tokens))

    def observe(self, acceptance: Acceptance) -> None:
        self.told.append(acceptance.path)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def best() -> BestProposer:
    proposer = create("best", {}, Resources())
    assert isinstance(proposer, BestProposer)
    proposer.members = {"a": Written(1), "b": Written(2)}  # type: ignore[dict-item]
    proposer._usual = "b"
    return proposer


def begin(proposer: BestProposer, text: Sequence[int] = TEXT) -> Context:
    context = Context(text)
    sampler = Sampler(Sampling(), AcceptanceRule.GREEDY, 0, context, 100)
    proposer.begin(context, sampler)
    assert sum(1 for _ in proposer.prepare(context)) >= len(proposer.members)
    return context


def drafted(proposal: DraftProposal) -> tuple[str | None, tuple[int, ...]]:
    return proposal.by, proposal.tree.tokens


def test_the_named_one_drafts_and_is_told_what_stood(best: BestProposer) -> None:
    context, stood = begin(best), Acceptance((0,), 5, Origin.CORRECTION)
    budget = Budget(3, 15, proposer="a", least=16, most=15)
    assert drafted(best.propose(context, budget)) == ("a", (1, 1, 1))
    best.observe(stood)
    a, b = best.members.values()
    assert isinstance(a, Written) and isinstance(b, Written)
    assert (a.told, b.told) == ([(0,)], [])


@pytest.mark.parametrize(("least", "by"), [(1, "suffix"), (6, "suffix"), (7, "a"), (16, "a")])
def test_past_text_drafts_where_it_goes_on_far_enough(
    least: int, by: str, best: BestProposer
) -> None:
    context = begin(best)
    proposal = best.propose(context, Budget(2, 15, proposer="a", least=least, most=15))
    assert drafted(proposal) == (by, tuple(range(26, 32)) if by == "suffix" else (1, 1))
    best.observe(Acceptance((), 5, Origin.CORRECTION))
    first = best.members["a"]
    assert isinstance(first, Written) and len(first.told) == (by == "a")


def test_past_text_is_cut_to_what_is_still_wanted(best: BestProposer) -> None:
    context = begin(best)
    wanted = Budget(2, 15, proposer="a", least=3, most=4)
    assert drafted(best.propose(context, wanted)) == ("suffix", (26, 27, 28, 29))


def test_while_drafting_pauses_past_text_may_still_draft(best: BestProposer) -> None:
    context = begin(best)
    assert best.propose(context, Budget(0, 0, proposer="a", least=5, most=15)).by == "suffix"
    assert not best.propose(context, Budget(0, 0, proposer="a", least=9, most=15)).tree.tokens
    assert not best.propose(context, Budget(0, 0)).tree.tokens


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
