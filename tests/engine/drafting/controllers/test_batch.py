"""How far each request drafts while passes are shared, at set times and acceptance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest

from engine.drafting.controllers.auto import Auto
from engine.drafting.controllers.batch import BatchController, BatchMember
from engine.drafting.controllers.factory import Fixed
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs, Times
from engine.drafting.preparing import Preparing
from engine.events import Budget, Origin, Round, Timing, Tree
from engine.values import MAX_ROWS


def crowd(
    count: int, verify: Callable[[int], float], draft_s: float, rate: float, deepest: int = 8
) -> tuple[BatchController, list[BatchMember], ExitStack]:
    """Return ``count`` requests with this acceptance and drafting time per token."""
    costs = Costs()
    for rows in (1, 2, 4, 8, 16):
        costs.verify.learn(rows, verify(rows))
    batch, stack = BatchController(costs), ExitStack()
    members = [join(batch, costs, draft_s, rate, deepest) for _ in range(count)]
    for member in members:
        stack.enter_context(batch.joined())
        stack.enter_context(member.decoding(Unread(0), 1000))
    return batch, members, stack


def join(
    batch: BatchController, costs: Costs, draft_s: float, rate: float, deepest: int = 8
) -> BatchMember:
    """Return a request's controller; earlier texts had this acceptance."""
    proposer = ProposerStatistics()
    proposer.draft_times.learn(4, 4 * draft_s)
    for index in range(300):
        accepted = next((at for at in range(4) if hash((index, at)) % 1000 >= 1000 * rate), 4)
        drafted = replace(round_of(Budget(4, 15)), accepted_path=tuple(range(accepted)))
        proposer.learn(drafted)
    auto = Auto(deepest, costs, {"draft": proposer}, clock=lambda: 0.0)
    return BatchMember(auto, batch, proposer, deepest, may_draft=True)


def flat(rows: int) -> float:
    """What verifying takes where weights take all the time."""
    return 0.05 + 0.0005 * rows


class Unread(Preparing):
    """A text of which the proposer still has to prefill ``left`` tokens."""

    def __init__(self, left: int) -> None:
        self.left, self.finished = left, not left

    def read(self) -> None:
        """Prefill all of it."""
        self.left, self.finished = 0, True


def steep(rows: int) -> float:
    """And where every row does."""
    return 0.01 + 0.02 * rows


def depths(members: list[BatchMember]) -> list[int]:
    return [member.budget().depth for member in members]


@pytest.mark.parametrize("count", [2, 3, 5, 8, 15, 16])
def test_a_pass_never_has_more_than_sixteen_rows(count: int) -> None:
    _, members, stack = crowd(count, flat, 0.0001, 0.95, deepest=15)
    with stack:
        chosen = depths(members)
        assert sum(1 + depth for depth in chosen) <= MAX_ROWS
        assert any(chosen) == (count <= MAX_ROWS // 2)


def test_drafts_go_where_they_stand() -> None:
    batch, members, stack = crowd(2, flat, 0.0001, 0.9, deepest=15)
    with stack, batch.joined():
        poor = join(batch, batch.costs, 0.0001, 0.05, deepest=15)
        with poor.decoding(Unread(0), 1000):
            assert poor.budget().depth < min(depths(members))


def test_who_drafts_for_a_few_does_not_for_many() -> None:
    """A draft takes the time of everybody who waits for it."""
    for count, drafts in ((2, True), (8, False), (12, False)):
        _, members, stack = crowd(count, flat, 0.006, 0.8)
        with stack:
            assert any(depths(members)) == drafts, count


def test_nothing_is_drafted_where_rows_take_all_the_time() -> None:
    _, members, stack = crowd(3, steep, 0.001, 0.7)
    with stack:
        budget = members[0].budget()
        assert budget.depth == 0 and budget.decision is not None
        assert "3 requests: drafting paused" in budget.decision.why
        assert budget.plain_s == pytest.approx(steep(3), rel=0.1)
        assert members[0].budget().decision is None  # said once


def test_it_says_what_drafting_brings_and_from_which_acceptance_on() -> None:
    _, members, stack = crowd(2, flat, 0.002, 0.9)
    with stack:
        decision = members[0].budget().decision
    assert decision is not None and decision.depth > 0
    assert decision.why.startswith("2 requests: drafting up to")
    assert decision.needed is not None and decision.expected is not None
    assert 0 < decision.needed < decision.expected


def test_a_round_beside_others_teaches_nothing_of_ones_own_passes() -> None:
    batch, (member,), stack = crowd(1, flat, 0.001, 0.9)
    with stack:
        known = batch.costs.verify.table(16)
        budget = member.budget()
        with batch.joined():  # somebody comes
            member.observe(round_of(budget))
            member.observe(round_of(member.budget()))
        assert batch.costs.verify.table(16) == known
        member.observe(round_of(member.budget()))
        assert batch.costs.verify.table(16) != known


def test_a_fixed_depth_stays_and_counts_for_the_others() -> None:
    batch, members, stack = crowd(2, flat, 0.0001, 0.95, deepest=15)
    fixed = BatchMember(Fixed(9), batch, ProposerStatistics(), 9, may_draft=True)
    with stack, batch.joined(), fixed.decoding(Unread(0), 1000):
        assert fixed.budget().depth == 9
        assert batch.beside(members[0]).rows >= 11


def test_beside_others_a_proposer_reads_the_prompt_before_it_drafts() -> None:
    batch, _, stack = crowd(1, flat, 0.0001, 0.95)
    with stack, batch.joined():
        late = join(batch, batch.costs, 0.0001, 0.95, 8)
        assert not late.prefills_at_once(1)
        unread = Unread(1)
        with late.decoding(unread, 1000):
            assert late.budget().depth == 0 and late.wants_prefill
            unread.read()
            assert not late.wants_prefill and late.budget().depth > 0


def test_while_recalled_text_brings_more_the_drafter_does_not_read() -> None:
    """The prompt was read in the draft, which then drafted nothing: all was recalled."""
    batch, _, stack = crowd(0, flat, 0.001, 0.9)
    with stack, batch.joined():
        late = join(batch, batch.costs, 0.001, 0.9)
        late._auto._recall = "suffix", Times(proportional=True)  # type: ignore[union-attr]
        late = BatchMember(late.inner, batch, late._statistics, 8, may_draft=True)
        with late.decoding(Unread(10), 1000):
            for emitted, reads in ((12, False), (12, False), (1, True)):
                for _ in range(30):
                    budget = late.budget()
                    late.observe(replace(round_of(budget), emitted=emitted))
                late.budget()
                assert late.wants_prefill == reads


def test_proposers_read_one_after_the_other() -> None:
    """A pass waits for one part at most, however many prompts are to be read."""
    batch, _, stack = crowd(1, flat, 0.0001, 0.95)
    with stack, batch.joined():
        late = [join(batch, batch.costs, 0.0001, 0.95, 6) for _ in range(2)]
        unread = Unread(1)
        with late[0].decoding(unread, 1000), late[1].decoding(Unread(1), 1000):
            assert depths(late) == [0, 0]
            assert [member.wants_prefill for member in late] == [True, False]
            unread.read()
            assert [member.wants_prefill for member in late] == [False, True]


@pytest.mark.parametrize(("count", "token_s"), [(0, 0.015), (1, 0.006)])
def test_a_prompt_is_read_once_that_may_pay_before_the_reply_ends(
    count: int, token_s: float
) -> None:
    """Alone, and beside another request, which waits meanwhile; in a short reply, never."""
    batch, _, stack = crowd(count, flat, 0.001, 0.9)
    with stack, batch.joined():
        for limit, undrafted, pays in ((1000, 0, True), (1000, 600, True), (400, 0, False)):
            late = join(batch, batch.costs, 0.001, 0.9)
            late._statistics.observe_prefill(100, 100 * token_s)
            assert not late.prefills_at_once(600)
            with late.decoding(Unread(600), limit, undrafted):
                late.budget()
                assert late.wants_prefill == (undrafted > 0)
                for _ in range(399):
                    late.observe(round_of(late.budget()))
                late.budget()
                assert late.wants_prefill == pays
                assert late.undrafted == undrafted + 399


def round_of(budget: Budget) -> Round:
    return Round(
        index=0,
        proposer="draft",
        budget=budget,
        tree=Tree.chain(range(budget.depth)),
        accepted_path=tuple(range(budget.depth)),
        next_token=1,
        origin=Origin.BONUS,
        p=(None,) * budget.depth,
        q=(None,) * budget.depth,
        next_p=1.0,
        timing=Timing(0.001, 0.05, 0.06),
        emitted=1,
    )


@pytest.mark.parametrize("verified", [1, 5, 16])
def test_replies_keep_half_their_speed_while_a_prompt_is_read(verified: int) -> None:
    """All rows that were free were the prompt's, and replies stood still for several passes."""

    def taken(rows: int) -> float:
        return 0.07 + 0.006 * rows

    batch, _, _ = crowd(1, taken, 0.001, 0.5)
    read = batch.prefill_rows(verified, 64)
    assert taken(verified + read) <= 2 * taken(verified) < taken(verified + read + 1)


def test_a_prompt_is_read_however_dear_its_rows_are_and_where_they_are_cheap_all_at_once() -> None:
    assert crowd(1, steep, 0.001, 0.5)[0].prefill_rows(1, 64) == 8
    assert crowd(1, flat, 0.001, 0.5)[0].prefill_rows(4, 64) == 60
    assert BatchController(Costs()).prefill_rows(1, 64) == 8  # nothing was measured yet
