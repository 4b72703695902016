"""EAGLE-3's drafts: from its own states while it drafts, from the target's once that has read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.backends.linear_factory import LinearFactory
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import PREFILL_CHUNK, Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads
from engine.drafting.heads.eagle3 import Eagle3Head
from engine.drafting.proposers.eagle3 import Eagle3Proposer
from engine.drafting.resources import Resources
from engine.events import Budget, Origin
from engine.models.hidden_states import AuxLayer
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.drawn_drafts import PENALISED, SAMPLED, check_beginning, check_q, with_q
from tests.support.fakes import TableModel
from tests.support.heads import FakeShape, eagle3, write_head

VOCABULARY = 40
GREEDY = AcceptanceRule.GREEDY
TEXT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 35)


class Watched(Target):
    """Notes which tokens' states are read."""

    def __init__(self, aux_layers: tuple[AuxLayer, ...], context: int) -> None:
        model = TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY, context=context)
        super().__init__(model, aux_layers)
        self.seen: list[int] = []

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        self.seen += range(start, end)
        return super().aux_hidden_states(aux_layer, start, end)


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Eagle3Head:
    shape = FakeShape(TableModel.HIDDEN, VOCABULARY, TableModel.LAYERS)
    folder = write_head(tmp_path_factory.mktemp("head"), *eagle3(shape, draft_vocabulary=25))
    loaded = heads.load(heads.inspect(folder, shape), LinearFactory("fp32", torch.device("cpu")))
    assert isinstance(loaded, Eagle3Head)
    return loaded


class Bench:
    """A proposer, its target and one text that grows."""

    def __init__(self, head: Eagle3Head, room: int = 64) -> None:
        self.target = Watched(head.aux_layers, room)
        resources = Resources(heads={"eagle3": head}, backbone=self.target)
        self.proposer = Eagle3Proposer(Eagle3Proposer.Options(), resources)

    def begin(
        self,
        text: tuple[int, ...] = TEXT,
        sampling: Sampling = SAMPLED,
        rule: AcceptanceRule = AcceptanceRule.COUPLED,
    ) -> Bench:
        self.context = Context(text)
        self.target.extend(text[self.target.reuse(text[:-1]) : -1])
        self.sampler = Sampler(sampling, rule, 4, self.context, VOCABULARY)
        self.target.seen.clear()
        self.proposer.begin(self.context, self.sampler)
        for _ in self.proposer.prepare(self.context):
            pass
        return self

    def draft(self, depth: int = 5) -> DraftProposal:
        self.target.seen.clear()
        return self.proposer.propose(self.context, Budget(depth, depth))

    def accept(self, proposal: DraftProposal, count: int, correction: int) -> None:
        path = tuple(range(count))
        self.target.verify(self.context.tokens[-1], proposal.tree)
        self.target.commit(path)
        acceptance = Acceptance(path, correction, Origin.CORRECTION)
        self.proposer.observe(acceptance)
        self.context.tokens += [*proposal.tree.tokens[:count], correction]


def same(actual: DraftProposal, expected: DraftProposal) -> None:
    assert actual.tree == expected.tree
    assert actual.chosen_q == pytest.approx(expected.chosen_q, abs=1e-5)


@pytest.mark.parametrize("rule", [GREEDY, AcceptanceRule.COUPLED])
@pytest.mark.parametrize("accepted", [0, 1, 3, 5])
def test_after_any_acceptance_it_drafts_as_from_scratch(
    head: Eagle3Head, accepted: int, rule: AcceptanceRule
) -> None:
    """What was accepted is read again from the target's states, also where nothing was rejected."""
    bench = Bench(head).begin(rule=rule)
    bench.accept(bench.draft(), accepted, 11)
    actual = bench.draft()
    first = len(TEXT) - 1
    assert sorted(set(bench.target.seen)) == [*range(first, first + accepted + 1)]
    same(actual, Bench(head).begin(tuple(bench.context.tokens), rule=rule).draft())


@pytest.mark.parametrize("text", [TEXT, TEXT[:4], (*TEXT[:6], 7, 7, 7), (9, *TEXT), (3, 1)])
def test_another_text_keeps_the_rows_of_what_they_share(
    head: Eagle3Head, text: tuple[int, ...]
) -> None:
    bench = Bench(head).begin()
    bench.accept(bench.draft(), 2, 11)
    bench.draft()
    same(bench.begin(text).draft(), Bench(head).begin(text).draft())


def test_rows_that_are_there_are_not_made_again(head: Eagle3Head) -> None:
    bench = Bench(head).begin()
    bench.draft()
    bench.begin((*TEXT, 8, 8))
    bench.draft()
    # The row of the token before the old pending one held that one already.
    assert sorted(set(bench.target.seen)) == [len(TEXT)]
    assert bench.proposer.rows == len(TEXT) + 1


def test_a_long_text_is_read_in_parts_and_the_last_row_waits(head: Eagle3Head) -> None:
    text = tuple(number % VOCABULARY for number in range(PREFILL_CHUNK + 40))
    bench = Bench(head, room=1024)
    bench.context = Context(text)
    bench.target.extend(text[:-1])
    bench.proposer.begin(bench.context, Sampler(SAMPLED, GREEDY, 4, bench.context, VOCABULARY))
    work = bench.proposer.prepare(bench.context)
    next(work)
    assert bench.proposer.rows == 0  # it stops before each part
    next(work)
    assert bench.proposer.rows == PREFILL_CHUNK
    assert list(work) == [] and bench.proposer.rows == len(text) - 2
    in_parts = bench.draft()
    at_once = Bench(head, room=1024)  # it did not prepare, as after many rounds without drafts
    at_once.context = bench.context
    at_once.target.extend(text[:-1])
    at_once.proposer.begin(bench.context, bench.proposer.sampler)
    same(at_once.draft(), in_parts)


def test_greedy_drafts_are_the_likeliest_however_they_are_drawn(head: Eagle3Head) -> None:
    """The way without distributions names the same tokens as the way with them."""
    quick = Bench(head).begin(sampling=Sampling(), rule=GREEDY).draft()
    harmless = Sampling(frequency_penalty=1e-30)
    slow = Bench(head).begin(sampling=harmless, rule=GREEDY).draft()
    assert quick.q is None and slow.q is not None
    same(quick, slow)


def test_only_tokens_of_the_drafts_vocabulary_are_drafted(head: Eagle3Head) -> None:
    assert head.targets is not None
    sampling = Sampling(temperature=3.0, seed=1)
    proposal = Bench(head).begin(sampling=sampling, rule=AcceptanceRule.REJECTION).draft(15)
    assert proposal.q is not None and proposal.q.shape == (15, VOCABULARY)
    assert set(proposal.tree.tokens) <= set(head.targets.tolist())
    possible = proposal.q.sum(0).nonzero()[:, 0].tolist()
    assert set(possible) == set(head.targets.tolist())
    assert torch.allclose(proposal.q.sum(1), torch.ones(15))


@pytest.mark.parametrize("depth", [1, 2, 15])
def test_as_much_is_drafted_as_asked_for(head: Eagle3Head, depth: int) -> None:
    assert len(Bench(head).begin().draft(depth).tree) == depth


def test_nothing_is_drafted_at_depth_0_or_behind_a_single_token(head: Eagle3Head) -> None:
    assert Bench(head).begin().draft(0).tree.tokens == ()
    assert Bench(head).begin((3,)).draft().tree.tokens == ()


@with_q
def test_q_is_what_the_tokens_were_drawn_from(
    head: Eagle3Head, sampling: Sampling, rule: AcceptanceRule
) -> None:
    bench = Bench(head).begin(sampling=sampling, rule=rule)
    proposal = bench.draft()
    check_q(proposal, bench.sampler, len(TEXT), 5)


@pytest.mark.parametrize("rule", [AcceptanceRule.COUPLED, AcceptanceRule.REJECTION])
def test_whether_a_token_is_drafted_depends_on_no_later_one(
    head: Eagle3Head, rule: AcceptanceRule
) -> None:
    """A shallower draft is the beginning of a deeper one, q and all."""
    deep, shallow = (
        Bench(head).begin(sampling=PENALISED, rule=rule).draft(depth) for depth in (5, 2)
    )
    check_beginning(shallow, deep)


def test_closing_forgets(head: Eagle3Head) -> None:
    bench = Bench(head).begin()
    bench.draft()
    bench.proposer.close()
    assert bench.proposer.rows == 0 and bench.proposer.drafts.memory.keys.shape[2] == 0


def test_proposers_that_share_a_head_do_not_disturb_each_other(head: Eagle3Head) -> None:
    first, second = Bench(head).begin(), Bench(head).begin((5, 5, 5, 5))
    first.draft()
    second.draft()
    same(first.draft(), Bench(head).begin().draft())
