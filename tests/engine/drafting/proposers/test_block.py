"""Block drafts: rows of one pass, drawn from their q; the stored rows follow the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from engine.backends.linear_factory import LinearFactory
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting import heads, proposers
from engine.drafting.heads.block import BlockHead
from engine.drafting.proposers.block import BlockProposer
from engine.drafting.resources import Resources
from engine.errors import InvalidRequest
from engine.events import Budget, Tree
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.drawn_drafts import PENALISED, check_beginning, check_q, with_q
from tests.support.fakes import TableModel
from tests.support.heads import FakeShape, block, block_pass, write_head

VOCABULARY, SIZE = 9, 5
GREEDY = Sampling(), AcceptanceRule.GREEDY
TEXT = (3, 1, 4, 1, 5, 2)
TARGET = FakeShape(TableModel.HIDDEN, VOCABULARY, TableModel.LAYERS)


@pytest.fixture(scope="module", params=[0, 4], ids=["dflash", "dspark"])
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BlockHead:
    folder = write_head(
        tmp_path_factory.mktemp("head"), *block(TARGET, size=SIZE, rank=request.param)
    )
    loaded = heads.load(heads.inspect(folder, TARGET), LinearFactory("fp32", torch.device("cpu")))
    assert isinstance(loaded, BlockHead)
    return loaded


class Reader:
    """A request in the making: text, target and proposer, moved on by hand."""

    def __init__(self, head: BlockHead, min_confidence: float = 0.0) -> None:
        model = TableModel(lambda tokens: [0.0] * VOCABULARY, VOCABULARY)
        self.target = Target(model, head.aux_layers)
        resources = Resources(heads={"block": head}, backbone=self.target)
        self.proposer = BlockProposer(BlockProposer.Options(min_confidence), resources)

    def begin(
        self,
        text: Sequence[int],
        sampling: Sampling = GREEDY[0],
        rule: AcceptanceRule = GREEDY[1],
    ) -> None:
        self.context = Context(tuple(text))
        self.target.reuse(text[:-1])
        self.target.extend(text[self.target.length : -1])
        self.sampler = Sampler(sampling, rule, 4, self.context, VOCABULARY)
        self.proposer.begin(self.context, self.sampler)
        for _ in self.proposer.prepare(self.context):
            pass

    def propose(self, depth: int = 8) -> DraftProposal:
        return self.proposer.propose(self.context, Budget(depth, depth))

    def take(self, drafted: Sequence[int], accepted: int, token: int) -> None:
        """The target accepts so many of ``drafted``, and goes on with ``token``."""
        tree = Tree.chain(list(drafted))
        path = tuple(range(accepted))
        self.target.verify(self.context.tokens[-1], tree)
        self.target.commit(path)
        self.context.tokens.extend([*drafted[:accepted], token])


def by_hand(head: BlockHead, text: Sequence[int]) -> list[int]:
    """The likeliest token of each row, each behind the one before."""
    reader = Reader(head)
    reader.begin(text)
    drafted = [text[-1]]
    for state in block_pass(head, reader.target, text[-1]).states.split(1):
        logits = reader.target.logits(state)
        if head.markov is not None:
            logits = logits + head.markov.after(head.markov.row(drafted[-1]))
        drafted.append(int(logits.argmax()))
    return drafted[1:]


def test_each_row_names_the_likeliest_token_behind_the_one_before(head: BlockHead) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    proposal = reader.propose()
    assert list(proposal.tree.tokens) == by_hand(head, TEXT)
    assert len(proposal.tree) == head.shape.depth == (SIZE if head.markov else SIZE - 1)
    assert proposal.q is None and all(0 < p <= 1 for p in proposal.chosen_q)


@pytest.mark.parametrize("depth", [0, 1, 2, 15])
def test_no_more_is_drafted_than_asked_for_or_than_a_block_holds(
    head: BlockHead, depth: int
) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    assert len(reader.propose(depth).tree) == min(depth, head.shape.depth)


def test_nothing_is_drafted_behind_a_single_token(head: BlockHead) -> None:
    reader = Reader(head)
    reader.begin((3,))
    assert reader.propose().tree.tokens == ()


@pytest.mark.parametrize("accepted", [0, 1, 4])
def test_catching_up_after_a_rollback_equals_a_start_from_scratch(
    head: BlockHead, accepted: int
) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    for token in (7, 0, 8):
        drafted = reader.propose().tree.tokens
        reader.take(drafted, accepted, token)
        assert list(reader.propose().tree.tokens) == by_hand(head, reader.context.tokens)


def test_rounds_without_a_draft_are_caught_up_with(head: BlockHead) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    for token in (7, 0, 8):
        reader.take((), 0, token)
    assert list(reader.propose().tree.tokens) == by_hand(head, (*TEXT, 7, 0, 8))


@pytest.mark.parametrize("text", [TEXT, TEXT[:3], (3, 1, 4, 8, 8, 8, 8), (5, 5), (*TEXT, 7, 1)])
def test_another_text_keeps_what_it_shares(head: BlockHead, text: tuple[int, ...]) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    reader.take(reader.propose().tree.tokens, 2, 7)
    reader.propose()
    reader.begin(text)
    assert list(reader.propose().tree.tokens) == by_hand(head, text)


@with_q
def test_q_is_what_the_tokens_were_drawn_from(
    head: BlockHead, sampling: Sampling, rule: AcceptanceRule
) -> None:
    reader = Reader(head)
    reader.begin(TEXT, sampling, rule)
    proposal, depth = reader.propose(), head.shape.depth
    check_q(proposal, reader.sampler, len(TEXT), depth)


@pytest.mark.parametrize("min_confidence", [0.0, 0.4])
def test_whether_a_token_is_drafted_depends_on_no_later_one(
    head: BlockHead, min_confidence: float
) -> None:
    """A shallower draft is the beginning of a deeper one, q and all, under every rule."""
    for rule in (AcceptanceRule.COUPLED, AcceptanceRule.REJECTION):
        reader = Reader(head, min_confidence)
        reader.begin(TEXT, PENALISED, rule)
        deep, shallow = reader.propose(4), reader.propose(2)
        check_beginning(shallow, deep)


def test_a_draft_ends_before_the_first_token_that_is_doubted(head: BlockHead) -> None:
    whole = by_hand(head, TEXT)
    reader = Reader(head)
    reader.begin(TEXT)
    states = block_pass(head, reader.target, TEXT[-1]).states
    before = [TEXT[-1], *whole[:-1]]
    trusts = [head.confidence(s, b) for s, b in zip(states.split(1), before, strict=True)]
    for least in (0.0, *trusts, 1.0):
        count = next((at for at, trust in enumerate(trusts) if trust < least), len(whole))
        greedy = Reader(head, least)
        greedy.begin(TEXT)
        assert list(greedy.propose().tree.tokens) == whole[:count]
        drawn = Reader(head, least)
        drawn.begin(TEXT, Sampling(temperature=1e-4, seed=1), AcceptanceRule.REJECTION)
        assert list(drawn.propose().tree.tokens) == whole[:count]  # as good as greedy
    if head.markov is None:
        assert trusts == [1.0] * len(whole)


def test_a_confidence_that_is_none_is_refused(head: BlockHead) -> None:
    with pytest.raises(InvalidRequest, match=r"min_confidence is 1\.5; it must be 0 to 1"):
        proposers.check(
            "block", {"min_confidence": 1.5}, Resources(heads={"block": head}, backbone=None)
        )


def test_closing_forgets_the_text(head: BlockHead) -> None:
    reader = Reader(head)
    reader.begin(TEXT)
    reader.propose()
    reader.proposer.close()
    assert not reader.proposer.text
    assert list(reader.propose().tree.tokens) == by_hand(head, TEXT)
