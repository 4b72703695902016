"""The static KV cache: what is written is read back, across blocks, and cropping forgets."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.cpu.attention import KV_BLOCK
from engine.models.cache import KVCache

LAYERS, KV_HEADS, WIDTH = 2, 3, 4


def new_cache(context: int = 600, dtype: torch.dtype = torch.float32) -> KVCache:
    return KVCache(
        layers=LAYERS,
        kv_heads=KV_HEADS,
        head_dim=WIDTH,
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
    cache.length += count


def flat(blocks: torch.Tensor) -> torch.Tensor:
    """(blocks, kv_heads, KV_BLOCK, width) to (positions, kv_heads, width)."""
    return blocks.transpose(1, 2).reshape(-1, KV_HEADS, WIDTH)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), min_size=1, max_size=5))
def test_what_was_appended_and_not_cropped_is_read_back(steps: list[tuple[int, int]]) -> None:
    cache = new_cache(context=2000)
    for count, dropped in steps:
        append(cache, count)
        cache.crop(max(cache.length - dropped, 0))
        cache.check()
        for layer in range(LAYERS):
            keys, values = cache.blocks(layer, cache.length)
            assert torch.equal(flat(keys)[: cache.length], rows(cache.length, 0) + layer)
            assert torch.equal(flat(values)[: cache.length], -rows(cache.length, 0))


@pytest.mark.parametrize("end", [1, KV_BLOCK - 1, KV_BLOCK, KV_BLOCK + 1, 2 * KV_BLOCK])
def test_as_many_blocks_are_read_as_hold_the_positions(end: int) -> None:
    cache = new_cache()
    append(cache, 600)
    keys, values = cache.blocks(0, end)
    assert keys.shape == values.shape == (-(-end // KV_BLOCK), KV_HEADS, KV_BLOCK, WIDTH)


def test_blocks_are_views_not_copies() -> None:
    cache = new_cache()
    keys, _ = cache.blocks(1, 300)
    assert keys.data_ptr() == cache.keys[1].data_ptr()


@pytest.mark.parametrize("length", [-1, 11])
def test_a_cache_is_never_cropped_to_more_than_it_holds(length: int) -> None:
    cache = new_cache()
    append(cache, 10)
    with pytest.raises(ValueError, match=f"10 positions to {length}"):
        cache.crop(length)
    assert cache.length == 10


def test_check_finds_a_length_beyond_the_context_and_a_value_that_is_not_finite() -> None:
    cache = new_cache(context=20)
    cache.length = 21
    with pytest.raises(AssertionError):
        cache.check()
    cache.length = 0
    cache.values[0, 0, 0, 5, 0] = float("nan")
    with pytest.raises(AssertionError):
        cache.check()


def test_the_dtype_is_kept() -> None:
    assert new_cache(dtype=torch.bfloat16).blocks(0, 5)[0].dtype is torch.bfloat16
