"""A copy followed across its edits: what is drafted, and how many rounds copies take."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafting.lookup.copying import LONGEST, MAX_AWAY, WINDOW, Copy

MARK = 7
SOURCE = [20, 21, MARK, 22, 23, 24, MARK, 25, 26, 27, 28, MARK, 29, 30, 31, 32]


def copying(source: Sequence[int], copied: Sequence[int] = ()) -> Copy:
    copy = Copy()
    copy.read(source)
    copy.extend(copied)
    return copy


def rounds(source: Sequence[int], reply: Sequence[int], depth: int) -> tuple[int, int]:
    """How many rounds writing ``reply`` takes, and how many tokens were drafted in vain."""
    copy, at, taken, vain = copying(source), 0, 0, 0
    while at < len(reply):
        drafted = copy.draft(min(depth, len(reply) - at - 1))
        right = 0
        while right < len(drafted) and drafted[right] == reply[at + right]:
            right += 1
        copy.extend(reply[at : at + right + 1])
        at, taken, vain = at + right + 1, taken + 1, vain + len(drafted) - right
    return taken, vain


def test_a_copy_is_found_by_two_tokens_and_drafted_as_far_as_it_went_well() -> None:
    copy = copying(SOURCE, [50])
    assert copy.draft(9) == ()
    copy.extend([20])
    assert copy.draft(9) == ()
    copy.extend([21])
    assert copy.draft(9) == (MARK, 22)
    copy.extend([MARK, 22, 23])
    assert copy.draft(9) == (24, MARK, 25, 26, 27)
    assert copy.draft(3) == (24, MARK, 25)
    assert copy.draft(0) == ()


def test_a_draft_ends_where_the_source_does() -> None:
    assert copying([1, 2, 3, 4, 5, 6], [1, 2, 3, 4]).draft(9) == (5, 6, 1, 2)
    assert copying([1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6])._cursor is not None


@pytest.mark.parametrize(
    ("edited", "drafted"),
    [
        ([8], (8, 29, 30)),
        ([8, 9], (8, 9, 29)),
        ([8, 9, 10], (8, 9, 10)),
        ([], (29, 30, 31)),
        ([MARK, 8], (MARK, 8, 29)),
        ([8, MARK], (8, MARK, 29)),
    ],
    ids=["replaced", "by two", "by three", "removed", "added behind", "added before"],
)
def test_an_edit_that_was_seen_is_made_again(edited: list[int], drafted: tuple[int, ...]) -> None:
    copy = copying(SOURCE, [50, 20, 21, *edited, 22, 23, 24, *edited, 25, 26, 27, 28])
    assert copy.draft(3) == drafted


def test_several_tokens_are_replaced_by_one() -> None:
    source = [20, 21, 7, 7, 6, 22, 23, 24, 25, 7, 7, 6, 26, 27]
    assert copying(source, [20, 21, 8, 22, 23, 24, 25]).draft(3) == (8, 26, 27)


def test_of_edits_that_begin_alike_only_what_stands_there_counts() -> None:
    """7 6 became 8; for 7 5 there is no edit."""
    source = [20, 21, 7, 6, 22, 23, 24, 25, 7, 5, 26, 27]
    assert copying(source, [20, 21, 8, 22, 23, 24, 25]).draft(3) == (7, 5, 26)


@pytest.mark.parametrize("edited", [[8], [8, 9], []], ids=["replaced", "by two", "removed"])
def test_an_edit_that_is_not_made_again_is_dropped(edited: list[int]) -> None:
    copy = copying(SOURCE, [20, 21, *edited, 22, 23, 24])
    assert copy.draft(2) == (*edited, 25, 26)[:2]
    copy.extend([MARK])
    assert copy.draft(2) == (25, 26)
    copy.extend([25, 26, 27, 28])
    assert copy.draft(2) == (MARK, 29)


def test_an_edit_is_made_for_as_long_as_it_is_made_oftener_than_not() -> None:
    source = [token for block in range(20, 60, 4) for token in (*range(block, block + 3), MARK)]
    reply = list(source)
    for place, becomes in ((3, 8), (7, 8), (11, MARK), (15, 8), (19, MARK), (23, MARK), (27, MARK)):
        reply[place] = becomes
    copy, expected = copying(source), []
    for at, token in enumerate(reply[:32]):
        if at % 4 == 3:
            expected.append(copy.draft(1))
        copy.extend([token])
    assert expected == [(MARK,), (8,), (8,), (8,), (8,), (8,), (MARK,), (MARK,)]


def test_another_edit_takes_the_place_of_the_last() -> None:
    copy = copying(SOURCE, [20, 21, 8, 22, 23, 24, 9, 25, 26, 27, 28])
    assert copy.draft(2) == (9, 29)


def test_one_token_is_enough_to_try_the_source_again_the_nearest_first() -> None:
    source = [20, 21, 22, 23, 24, 25, 26, 24, 27]
    copy = copying(source, [20, 21, 22, 8, 9])
    assert copy.draft(4) == ()
    copy.extend([24])
    assert copy.draft(4) == (25,)


def test_a_copy_that_does_not_come_back_is_given_up_and_found_elsewhere() -> None:
    source = [*range(20, 40), *range(100, 200), 90, 91, 92, 93, 94]
    away = [*range(300, 300 + MAX_AWAY)]
    copy = copying(source, [20, 21, 22, 23, *away])
    assert copy.draft(4) == ()
    copy.extend([90, 91])
    assert copy.draft(4) == (92, 93)


def test_four_tokens_in_a_row_lead_elsewhere_at_once() -> None:
    source = [*range(20, 40), *range(100, 200), 90, 91, 92, 93, 94, 95]
    copy = copying(source, [20, 21, 22, 23, 90, 91, 92])
    assert copy.draft(4) == ()
    copy.extend([93])
    assert copy.draft(4) == (94, 95, 20, 21)


def test_what_is_left_out_may_be_long() -> None:
    source = list(range(20, 20 + WINDOW + 10))
    copy = copying(source, [20, 21, 22, *range(20 + WINDOW, 20 + WINDOW + 2)])
    assert copy.draft(4) == tuple(range(20 + WINDOW + 2, 20 + WINDOW + 5))[:3]
    assert copy.edits.at(source, 3) is None  # longer than ``LONGEST``
    assert WINDOW > LONGEST


def test_another_copy_knows_nothing_of_the_edits_of_the_last() -> None:
    copy = copying(SOURCE, [20, 21, 8, 22, 23, 24])
    copy.begin()
    assert copy.draft(5) == ()
    copy.extend([26, 27, 28])
    assert copy.draft(2) == (MARK, 29)


@given(st.data())
def test_once_seen_an_edit_costs_no_round(data: st.DataObject) -> None:
    """Blocks of tokens that stand nowhere else, and between them marks that all change alike."""
    sizes = data.draw(st.lists(st.integers(3, 9), min_size=3, max_size=8))
    marks = data.draw(st.lists(st.just(MARK), min_size=1, max_size=3))
    becomes = data.draw(st.lists(st.integers(1, 6), max_size=4))
    fresh, source, reply = iter(range(100, 1000)), [], []
    for size in sizes:
        block = [next(fresh) for _ in range(size)]
        source += [*block, *marks]
        reply += [*block, *becomes]
    taken, vain = rounds(source, reply, 15)
    # To find the source, to grow, and the first edit with the tokens it takes to be sure of its end.
    learning = sizes[0] + len(becomes) + 4
    assert taken <= learning + (len(reply) + 15) // 16
    assert vain <= 2 * 15


@settings(max_examples=200)
@given(
    source=st.lists(st.integers(0, 3), max_size=40),
    bursts=st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12),
    depth=st.integers(0, 15),
)
def test_drafts_are_of_the_text_however_it_was_told(
    source: list[int], bursts: list[list[int]], depth: int
) -> None:
    grown, at_once = copying(source), copying(source)
    for burst in bursts:
        grown.extend(burst)
        assert len(grown.draft(depth)) <= depth
    at_once.extend(token for burst in bursts for token in burst)
    assert grown.draft(depth) == at_once.draft(depth)
    assert grown.text == at_once.text == [*source, *(token for burst in bursts for token in burst)]


def test_renaming_in_a_long_text_takes_few_rounds() -> None:
    """Every fourteenth token or so is another, and not always by as many tokens as before."""
    rng = random.Random(1)
    source = [rng.choice([MARK, *range(100, 114)]) if rng.random() < 0.9 else 5 for _ in range(600)]
    reply = [other for token in source for other in ([8, 9] if token == MARK else [token])]
    taken, _ = rounds(source, reply, 15)
    assert len(reply) / taken > 8
