"""The intersection of two vocabularies: the same bytes, once each, control tokens by role."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.cross_vocabulary.token_table import TokenTable
from engine.drafting.cross_vocabulary.vocabulary_map import Shared, VocabularyMap, map_vocabularies
from tests.engine.drafting.cross_vocabulary.conftest import mapped

KINDS = ("bytes", "pieces", "bare")
PAIRS = list(itertools.product(KINDS, KINDS))


def pairs(found: VocabularyMap) -> dict[int, int]:
    return dict(zip(found.target_ids, found.draft_ids, strict=True))


def ordinary(found: VocabularyMap) -> dict[int, int]:
    return {ours: theirs for ours, theirs in pairs(found).items() if ours in found.target.spelled}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_shared_tokens_spell_the_same_and_come_once(
    lexicons: dict[str, TokenTable], ours: str, theirs: str
) -> None:
    found = mapped(lexicons[ours], lexicons[theirs])
    assert len(set(found.draft_ids)) == len(found.draft_ids) == len(set(found.target_ids))
    for target, draft in ordinary(found).items():
        assert lexicons[ours].spelled[target] == lexicons[theirs].spelled[draft] != b""
    spelled = set(lexicons[ours].spelled.values()) & set(lexicons[theirs].spelled.values()) - {b""}
    assert len(ordinary(found)) == len(spelled)  # none is missing
    assert found.target_ids == tuple(sorted(found.target_ids))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_it_is_the_same_from_the_other_side(
    lexicons: dict[str, TokenTable], ours: str, theirs: str
) -> None:
    there, back = mapped(lexicons[ours], lexicons[theirs]), mapped(lexicons[theirs], lexicons[ours])
    assert {v: k for k, v in pairs(back).items()} == pairs(there)
    assert there.shared == Shared(back.shared.tokens, back.shared.draft, back.shared.target)


def test_the_end_of_a_text_is_matched_by_role_and_the_rest_by_name(
    lexicons: dict[str, TokenTable],
) -> None:
    ours, theirs = lexicons["bytes"], lexicons["pieces"]
    controls = {k: v for k, v in pairs(mapped(ours, theirs)).items() if k in ours.control}
    assert controls == {ours.eos: theirs.eos}
    named = dataclasses.replace(theirs, control={0: "<|user|>", 1: "<s>", 2: "</s>"})
    user = next(number for number, name in ours.control.items() if name == "<|user|>")
    assert pairs(mapped(ours, named))[user] == 0


def test_an_end_that_is_another_tokens_already_is_left(lexicons: dict[str, TokenTable]) -> None:
    """The draft ends with what the target calls by the same name and uses for something else."""
    ours = lexicons["bytes"]
    theirs = dataclasses.replace(lexicons["pieces"], control={2: "<|user|>"})
    found = pairs(mapped(ours, theirs))
    assert ours.eos not in found
    assert 2 in found.values()


@given(target_rows=st.integers(0, 400), draft_rows=st.integers(0, 400))
def test_only_tokens_with_logits_count(
    lexicons: dict[str, TokenTable], target_rows: int, draft_rows: int
) -> None:
    found = map_vocabularies(
        lexicons["bytes"], lexicons["pieces"], target_rows=target_rows, draft_rows=draft_rows
    )
    assert all(number < target_rows for number in found.target_ids)
    assert all(number < draft_rows for number in found.draft_ids)
    assert 0 <= found.shared.of_target <= 1


def test_where_no_text_is_shared_the_ends_are_not_either(lexicons: dict[str, TokenTable]) -> None:
    mute = dataclasses.replace(lexicons["pieces"], spelled={}, ids={})
    assert mapped(lexicons["bytes"], mute).target_ids == ()


def test_a_vocabulary_shares_all_with_itself(lexicons: dict[str, TokenTable]) -> None:
    found = mapped(lexicons["bytes"], lexicons["bytes"])
    assert found.shared.tokens == found.shared.target == found.shared.draft
    assert not found.shared.little
    assert all(ours == theirs for ours, theirs in pairs(found).items())
