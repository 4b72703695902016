"""A draft with another vocabulary: what it proposes is its own, in the target's tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import DraftProposal
from engine.decoding.sampling import Sampler
from engine.drafting.cross_vocabulary.token_table import (
    TokenTable,
    VocabularyMap,
    map_vocabularies,
    read_token_table,
)
from engine.drafting.draft_reader import OtherVocabulary
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.resources import Resources
from engine.events import Budget, Origin
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.checkpoints import write_tokenizer
from tests.support.fakes import FakeState, TableModel
from tests.support.vocabularies import write_sentencepiece

ROWS, DRAFT_ROWS = 320, 360
RULES = [AcceptanceRule.GREEDY, AcceptanceRule.COUPLED, AcceptanceRule.REJECTION]
patterns = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TokenTable:
    folder = tmp_path_factory.mktemp("target")
    write_tokenizer(folder)
    return read_token_table(folder)


@pytest.fixture(scope="module")
def both(target: TokenTable, tmp_path_factory: pytest.TempPathFactory) -> VocabularyMap:
    """A byte-level target and a draft in SentencePiece's way."""
    folder = tmp_path_factory.mktemp("draft")
    write_sentencepiece(folder)
    draft = read_token_table(folder)
    return map_vocabularies(target, draft, target_rows=ROWS, draft_rows=DRAFT_ROWS)


def table(tokens: Sequence[int]) -> list[float]:
    """Words and pieces of them, hardly any single bytes."""
    chance = random.Random(hash(tuple(tokens[-3:])))
    likely = [chance.gauss(0, 2) for _ in range(DRAFT_ROWS - 259)]
    return [*([-9.0] * 3), *(chance.gauss(-5, 2) for _ in range(256)), *likely]


def model(context: int = 4000, logits: object = table) -> TableModel:
    return TableModel(logits, DRAFT_ROWS, context=context)  # type: ignore[arg-type]


def begin(
    draft: TableModel,
    both: VocabularyMap,
    context: Context,
    rule: AcceptanceRule = AcceptanceRule.COUPLED,
) -> DraftModelProposer:
    resources = Resources(draft=draft, vocabularies=both)
    proposer = DraftModelProposer(DraftModelProposer.Options(), resources)
    proposer.begin(context, sampler(context, rule))
    return proposer


def sampler(context: Context, rule: AcceptanceRule = AcceptanceRule.COUPLED) -> Sampler:
    temperature = 0.0 if rule is AcceptanceRule.GREEDY else 0.9
    return Sampler(Sampling(temperature=temperature, top_p=0.95), rule, 11, context, ROWS)


def reader(proposer: DraftModelProposer) -> OtherVocabulary:
    assert isinstance(proposer.reader, OtherVocabulary)
    return proposer.reader


def play(proposer: DraftModelProposer, context: Context, rounds: list[tuple[int, int]]) -> None:
    """Goes through ``rounds``; the target goes on with a token that was not drafted."""
    for depth, most in rounds:
        drafted = proposer.propose(context, Budget(depth, depth)).tree.tokens
        stand = min(most, len(drafted))
        correction = 100 + len(context.tokens) * 7 % 200
        context.tokens += [*drafted[:stand], correction]
        proposer.observe(Acceptance(tuple(range(stand)), correction, Origin.CORRECTION))


def assert_same(first: DraftProposal, second: DraftProposal) -> None:
    assert first.tree == second.tree
    assert (first.q is None) == (second.q is None)
    assert first.q is None or second.q is None or torch.equal(first.q, second.q)


@settings(max_examples=25, deadline=None)
@given(rounds=patterns, rule=st.sampled_from(RULES))
def test_after_every_pattern_of_acceptance_the_draft_is_that_of_a_fresh_start(
    both: VocabularyMap,
    target: TokenTable,
    rounds: list[tuple[int, int]],
    rule: AcceptanceRule,
) -> None:
    context = Context(target.encode("The lamp told 😀 tales"))
    proposer = begin(model(), both, context, rule)
    play(proposer, context, rounds)
    state = reader(proposer).state
    assert isinstance(state, FakeState)
    assert state.tokens == reader(proposer).tokens
    fresh = begin(model(), both, context, rule)
    assert_same(proposer.propose(context, Budget(5, 5)), fresh.propose(context, Budget(5, 5)))


@pytest.mark.parametrize("rule", RULES)
def test_it_writes_the_drafts_greedy_text_in_the_targets_tokens(
    both: VocabularyMap, target: TokenTable, rule: AcceptanceRule
) -> None:
    context = Context(target.encode("The lamp"))
    proposer = begin(model(), both, context, rule)
    proposal = proposer.propose(context, Budget(5, 5))
    assert proposal.q is None and len(proposal.tree) == 5
    written = [*both.draft.opening, *both.draft.encode(" The lamp")]
    start = len(written)
    for _ in range(30):
        written.append(int(torch.tensor(table(written)).argmax()))
    text = b"".join(both.draft.token_bytes[token] for token in written[start:])
    proposed = b"".join(target.token_bytes[token] for token in proposal.tree.tokens)
    assert text.startswith(proposed)


def test_the_draft_may_end_the_text(both: VocabularyMap, target: TokenTable) -> None:
    """Its own end of a text is the target's."""
    ends = model(logits=lambda tokens: [9.0 if token == 2 else 0.0 for token in range(DRAFT_ROWS)])
    context = Context(target.encode("The lamp"))
    proposer = begin(ends, both, context, AcceptanceRule.GREEDY)
    assert proposer.propose(context, Budget(1, 1)).tree.tokens == (target.eos,)


def test_it_stops_at_a_token_that_spells_nothing(both: VocabularyMap, target: TokenTable) -> None:
    silent = model(
        logits=lambda tokens: [9.0 if token == 1 else 0.0 for token in range(DRAFT_ROWS)]
    )
    context = Context(target.encode("The lamp"))
    proposer = begin(silent, both, context)
    assert proposer.propose(context, Budget(4, 4)).tree.tokens == ()


def test_a_round_feeds_the_same_however_long_the_text_is(
    both: VocabularyMap, target: TokenTable
) -> None:
    context = Context(target.encode("The lamp told tales. " * 40))
    draft = model()
    proposer = begin(draft, both, context)
    proposer.propose(context, Budget(2, 2))
    for _ in range(60):
        fed = draft.fed
        play(proposer, context, [(2, 1)])
        assert draft.fed - fed <= 90  # a run of text and the drafted tokens


def test_a_follow_up_feeds_only_what_is_new(both: VocabularyMap, target: TokenTable) -> None:
    draft = model()
    text = target.encode("The lamp told tales. " * 20)
    context = Context(text)
    proposer = begin(draft, both, context)
    assert list(proposer.prepare(context))
    play(proposer, context, [(4, 2)])
    fed = draft.fed
    longer = Context([*context.tokens, *target.encode(" It was a lamp.")])
    proposer.begin(longer, sampler(longer))
    for _ in proposer.prepare(longer):
        pass
    proposal = proposer.propose(longer, Budget(1, 1))
    assert draft.fed - fed <= 60 < len(text)
    fresh = begin(model(), both, longer)
    assert_same(proposal, fresh.propose(longer, Budget(1, 1)))
    proposer.begin(Context(()), sampler(Context(())))  # nothing may be reused
    assert reader(proposer).tokens == []


@pytest.mark.parametrize("room", [0, 1, 2, 5])
def test_nothing_is_drafted_beyond_the_drafts_own_context(
    both: VocabularyMap, target: TokenTable, room: int
) -> None:
    context = Context(target.encode("The lamp told tales"))
    text = [*both.draft.opening, *both.draft.encode(" The lamp told tales")]
    draft = model(context=len(text) + room)
    proposer = begin(draft, both, context)
    assert bool(list(proposer.prepare(context))) == (room > 0)
    assert len(proposer.propose(context, Budget(9, 9)).tree) <= room
    assert reader(proposer).state.end <= len(text) + room


def test_a_state_that_cannot_be_cropped_has_no_more_pending_rows_than_it_keeps(
    both: VocabularyMap, target: TokenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft with recurrent layers that wrote single letters for long tokens ended the reply."""
    monkeypatch.setattr(FakeState, "crops", False)
    text = b" The lamp told tales."

    def letters(tokens: Sequence[int]) -> list[float]:
        wanted = both.draft.ids[bytes([text[len(tokens) % len(text)]])]
        return [float(token == wanted) for token in range(DRAFT_ROWS)]

    context = Context(target.encode("The lamp"))
    proposer = begin(model(logits=letters), both, context)
    assert proposer.propose(context, Budget(MAX_DEPTH, MAX_DEPTH)).tree.tokens
    assert reader(proposer).state.pending <= MAX_DEPTH


def test_nothing_is_drafted_in_a_character_that_the_draft_cannot_finish(
    target: TokenTable, tmp_path: Path
) -> None:
    write_sentencepiece(tmp_path, byte_tokens=False)
    bare = map_vocabularies(target, read_token_table(tmp_path), target_rows=ROWS, draft_rows=ROWS)
    *begun, last = target.encode("The lamp é")
    context = Context(begun)
    proposer = begin(model(), bare, context)
    assert proposer.propose(context, Budget(2, 2)).tree.tokens == ()
    assert not reader(proposer).room(context)
    context.tokens.append(last)
    assert reader(proposer).room(context) > 2


def test_a_text_of_nothing_but_an_opening_is_not_drafted_for(target: TokenTable) -> None:
    same = map_vocabularies(target, target, target_rows=ROWS, draft_rows=ROWS)
    context = Context([target.bos or 0])
    proposer = begin(model(), same, context)
    assert proposer.propose(context, Budget(2, 2)).tree.tokens == ()
