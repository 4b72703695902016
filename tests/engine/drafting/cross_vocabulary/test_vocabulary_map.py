"""Two vocabularies share the tokens that spell the same bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafting.cross_vocabulary.token_table import Shared, TokenTable, map_vocabularies
from tests.engine.drafting.cross_vocabulary.conftest import mapped

KINDS = ("bytes", "pieces", "bare")
PAIRS = list(itertools.product(KINDS, KINDS))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_shared_tokens_spell_the_same_from_both_sides(
    tables: dict[str, TokenTable], ours: str, theirs: str
) -> None:
    there, back = mapped(tables[ours], tables[theirs]), mapped(tables[theirs], tables[ours])
    spelled = set(tables[ours].token_bytes.values()) & set(tables[theirs].token_bytes.values()) - {
        b""
    }
    assert there.shared.tokens == len(spelled)
    assert there.shared == Shared(back.shared.tokens, back.shared.draft, back.shared.target)


@given(target_rows=st.integers(0, 400), draft_rows=st.integers(0, 400))
def test_only_tokens_with_logits_count(
    tables: dict[str, TokenTable], target_rows: int, draft_rows: int
) -> None:
    shared = map_vocabularies(
        tables["bytes"], tables["pieces"], target_rows=target_rows, draft_rows=draft_rows
    ).shared
    assert shared.tokens <= min(shared.target, shared.draft)
    assert shared.target <= target_rows and shared.draft <= draft_rows
    assert 0 <= shared.of_target <= 1
