"""A sequence's state: what is committed is read back, across pages; what is not, is forgotten."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.torch.attention import PAGE_SIZE
from engine.models.sequence_state import KVCache, SequenceState

LAYERS, KV_HEADS, WIDTH = 2, 3, 4


def new_cache(context: int = 600, dtype: torch.dtype = torch.float32) -> KVCache:
    return KVCache(
        [(KV_HEADS, WIDTH)] * LAYERS,
        context=context,
        dtype=dtype,
        device=torch.device("cpu"),
    )


def rows(count: int, first: int) -> torch.Tensor:
    """Rows that tell their position, KV head and element."""
    position = torch.arange(first, first + count).view(-1, 1, 1) * 100.0
    return position + torch.arange(KV_HEADS).view(1, -1, 1) * 10 + torch.arange(WIDTH)


def append(cache: KVCache, count: int) -> None:
    for layer in range(LAYERS):
        cache.write(
            layer, cache.length, rows(count, cache.length) + layer, -rows(count, cache.length)
        )
    cache.append(count, final=True)


def flat(pages: torch.Tensor) -> torch.Tensor:
    """(pages, kv_heads, PAGE_SIZE, width) to (positions, kv_heads, width)."""
    return pages.transpose(1, 2).reshape(-1, KV_HEADS, WIDTH)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), min_size=1, max_size=5))
def test_what_was_appended_and_not_rewound_is_read_back(steps: list[tuple[int, int]]) -> None:
    cache = new_cache(context=2000)
    for count, dropped in steps:
        append(cache, count)
        cache.rewind(max(cache.length - dropped, 0))
        cache.check()
        for layer in range(LAYERS):
            keys, values = cache.pages(layer, cache.length)
            assert torch.equal(flat(keys)[: cache.length], rows(cache.length, 0) + layer)
            assert torch.equal(flat(values)[: cache.length], -rows(cache.length, 0))


@pytest.mark.parametrize("end", [1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE])
def test_as_many_pages_are_read_as_hold_the_positions(end: int) -> None:
    cache = new_cache()
    append(cache, 600)
    keys, values = cache.pages(0, end)
    assert keys.shape == values.shape == (-(-end // PAGE_SIZE), KV_HEADS, PAGE_SIZE, WIDTH)


def test_pages_are_views_not_copies() -> None:
    cache = new_cache()
    keys, _ = cache.pages(1, 300)
    assert keys.data_ptr() == cache.keys[1].data_ptr()


@pytest.mark.parametrize("length", [-1, 11])
def test_a_state_is_never_rewound_to_more_than_it_holds(length: int) -> None:
    cache = new_cache()
    append(cache, 10)
    with pytest.raises(ValueError, match=f"10 tokens to {length}"):
        cache.rewind(length)
    assert cache.length == 10


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("final"), st.integers(1, 9)),
            st.tuples(st.just("pending"), st.integers(1, 9)),
            st.tuples(st.just("commit"), st.integers(0, 20)),
            st.tuples(st.just("rewind"), st.integers(0, 20)),
        ),
        max_size=20,
    )
)
def test_committed_tokens_stay_and_pending_ones_wait(steps: list[tuple[str, int]]) -> None:
    """As of lists, one of the committed tokens and one of those that wait."""
    state, committed, pending = SequenceState(200), 0, 0
    for step, count in steps:
        if step == "final" and not pending:
            state.append(count, final=True)
            committed += count
        elif step == "pending":
            state.append(count, final=False)
            pending += count
        elif step == "commit":
            if count > pending:
                with pytest.raises(ValueError, match="no beginning"):
                    state.commit(range(count))
            else:
                state.commit(range(count))
                committed, pending = committed + count, 0
        elif step == "rewind":
            left = state.reachable(committed - count if count < committed else 0)
            state.rewind(left)
            committed, pending = left, 0
        assert (state.length, state.pending, state.end) == (committed, pending, committed + pending)


def test_rows_of_a_chain_stay_from_the_first_on() -> None:
    state = SequenceState(20)
    state.append(5, final=False)
    for rows in ([1], [0, 2], [0, 0]):
        with pytest.raises(ValueError, match="no beginning"):
            state.commit(rows)
    state.commit([0, 1])
    assert (state.length, state.pending) == (2, 0)


def test_check_finds_a_length_beyond_the_context_and_a_value_that_is_not_finite() -> None:
    cache = new_cache(context=20)
    cache.length = 21
    with pytest.raises(AssertionError):
        cache.check()
    cache.length = 0
    cache.values[0][0, 0, 5, 0] = float("nan")
    with pytest.raises(AssertionError):
        cache.check()


def test_the_dtype_is_kept() -> None:
    assert new_cache(dtype=torch.bfloat16).pages(0, 5)[0].dtype is torch.bfloat16
