"""Attention, rope and the KV cache on CUDA: correct, and with bits that do not depend on other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from engine.kernels.cuda.attention import (
    Tiling,
    Workspace,
    attend,
    choose_tiling,
)
from engine.kernels.cuda.kv_cache import FP8, StaticKVCache
from engine.kernels.cuda.references import attend_reference, rope_and_store_reference
from engine.kernels.cuda.rotary import rope_and_store
from engine.machine.devices import FP8_CAPABILITY
from engine.models.architecture import Rope
from engine.models.rotation import rotations
from engine.values import MAX_ROWS
from tests.engine.kernels.cuda.cases import check_cache
from tests.engine.kernels.cuda.where import INTERPRETED, examples

CPU = torch.device("cpu")
SMALL = Tiling(rows=16, positions=16, split=32, chunk=2, warps=1)
"""Several splits and chunks within few positions, because the interpreter is slow."""
FEW_PARTS = replace(SMALL, most_parts=2)
"""Each part has several splits."""
CAPACITY = 150  # the last split and the last chunk are not full


@dataclass(frozen=True, slots=True)
class Case:
    """A layer's attention. ``group``: query heads per KV head."""

    group: int = 3
    kv_heads: int = 1
    head_dim: int = 64
    dtype: torch.dtype = torch.bfloat16
    window: int | None = None
    cap: float | None = None
    tiling: Tiling = SMALL
    capacity: int = CAPACITY
    sinks: bool = False

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return (
            f"{self.heads}on{self.kv_heads}x{self.head_dim}-{kind}-{self.window}-{self.cap}"
            + "-sinks" * self.sinks
        )

    @property
    def heads(self) -> int:
        return self.group * self.kv_heads

    def scoring(self, device: torch.device) -> dict[str, Any]:
        """Return the arguments of ``attend`` that change scores; sinks are of the scores' size."""
        sinks = torch.linspace(-1, 3, self.heads, device=device) if self.sinks else None
        return {"window": self.window, "cap": self.cap, "sinks": sinks}

    def cache(self, device: torch.device) -> StaticKVCache:
        """Return an empty cache of two layers."""
        if self.dtype == FP8 and not knows_fp8(device):
            pytest.skip("this device knows no e4m3")
        return StaticKVCache(
            [(self.kv_heads, self.head_dim)] * 2,
            capacity=self.capacity,
            device=device,
            dtype=self.dtype,
        )

    def state(self, device: torch.device) -> tuple[Tensor, StaticKVCache]:
        """Return scaled queries of all positions, and a full cache; positions past a length are stale."""
        torch.manual_seed(self.heads * self.head_dim)
        cache = self.cache(device)
        width = (self.heads + 2 * self.kv_heads) * self.head_dim
        qkv = torch.randn(self.capacity, width).bfloat16().to(device)
        rope_and_store_reference(qkv, cache.slots[1], cache.length, rotation=None)
        query = torch.randn(self.capacity, self.heads, self.head_dim) * self.head_dim**-0.5
        return query.bfloat16().to(device), cache

    def attended(
        self,
        query: Tensor,
        cache: StaticKVCache,
        start: int,
        rows: int,
        causal: bool = True,
    ) -> Tensor:
        """Compute the rows from ``start`` on, in a workspace with garbage."""
        cache.set_length(start)
        workspace = Workspace.make(
            heads=self.heads,
            head_dim=self.head_dim,
            capacity=self.capacity,
            tiling=self.tiling,
            device=query.device,
        )
        for part in (workspace.acc, workspace.m_i, workspace.l_i):
            part.fill_(float("nan"))
        rest = cache.slots[1], cache.length, workspace, self.tiling
        part = query[start : start + rows].contiguous()
        return attend(part, *rest, **self.scoring(query.device), causal=causal)

    def expected(self, query: Tensor, cache: StaticKVCache, start: int, rows: int) -> Tensor:
        cache.set_length(start)
        rest = cache.slots[1], cache.length
        part = query[start : start + rows]
        return attend_reference(part, *rest, **self.scoring(query.device))


def knows_fp8(device: torch.device) -> bool:
    return device.type == "cpu" or torch.cuda.get_device_capability() >= FP8_CAPABILITY


cases = st.builds(
    Case,
    group=st.integers(1, 5),
    kv_heads=st.sampled_from((1, 1, 2, 3)),
    head_dim=st.sampled_from((8, 24, 64, 128)),
    dtype=st.sampled_from((torch.bfloat16, FP8)),
    window=st.sampled_from((None, 1, 20, 32, 33, 1000)),
    cap=st.sampled_from((None, 0.7, 30.0)),
    tiling=st.sampled_from((SMALL, FEW_PARTS)),
    sinks=st.booleans(),
)
borders = st.builds(
    lambda split, beside: min(max(split * SMALL.split + beside, 0), CAPACITY - MAX_ROWS),
    st.integers(0, 5),
    st.sampled_from((-16, -1, 0, 1, 9)),
)
rows_of_a_call = st.integers(1, MAX_ROWS)


# -- the references, by the definition


@pytest.mark.parametrize(
    ("window", "cap", "sinks"), [(None, None, False), (20, None, True), (33, 0.7, False)]
)
def test_the_reference_is_the_definition(
    window: int | None, cap: float | None, sinks: bool
) -> None:
    case = Case(kv_heads=2, window=window, cap=cap, sinks=sinks)
    query, cache = case.state(CPU)
    start, rows = 60, 7
    keys, values = (
        part.double().repeat_interleave(case.group, 0) for part in cache.slots[1].tensors[:2]
    )
    scores = torch.einsum("rhd,hkd->hrk", query[start : start + rows].double(), keys)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    key, row = torch.arange(case.capacity), torch.arange(start, start + rows)[:, None]
    hidden = (key > row) | (key <= row - (window or case.capacity))
    exponentials = scores.masked_fill(hidden, float("-inf")).exp()
    extra = case.scoring(CPU)["sinks"]
    sink = 0.0 if extra is None else extra.double().exp()[:, None, None]
    weights = exponentials / (exponentials.sum(-1, keepdim=True) + sink)
    defined = torch.einsum("hrk,hkd->rhd", weights, values).reshape(rows, -1)
    found = case.expected(query, cache, start, rows)
    assert torch.allclose(found.double(), defined, atol=1e-2)


def test_fp8_with_scales_stays_close_to_what_was_stored() -> None:
    """Also where heads are far from 1: e4m3 alone would flush them to zero or its limit."""
    case = Case(dtype=FP8)
    cache, rows = case.cache(CPU), 9
    qkv = torch.randn(rows, 5 * case.head_dim) * 10.0 ** torch.arange(-4, 5)[:, None]
    qkv = qkv.bfloat16()
    rope_and_store_reference(qkv, cache.slots[0], cache.length, rotation=None)
    stored = _scaled(cache.slots[0].keys, cache.slots[0].key_scales)
    key = qkv.view(rows, 5, -1)[:, 3].float()
    highest = key.abs().amax(-1, keepdim=True)
    assert ((stored[0, :rows] - key).abs() <= key.abs() / 16 + highest / 448 / 512).all()
    check_cache(cache)


def test_a_cache_cannot_be_longer_than_its_capacity() -> None:
    cache = Case().cache(CPU)
    with pytest.raises(ValueError, match="150 positions cannot hold 151"):
        cache.set_length(CAPACITY + 1)


# -- the kernels, on a device or interpreted


@pytest.mark.gpu
@examples(7)
@given(case=cases, start=borders, rows=rows_of_a_call)
@example(case=Case(window=20), start=50, rows=2)  # row 0 sees a split's last position, row 1 none
@example(case=Case(window=33, dtype=FP8), start=64, rows=1)  # a window that begins with a split
def test_attention_agrees_with_the_reference(
    device: torch.device, case: Case, start: int, rows: int
) -> None:
    query, cache = case.state(device)
    found = case.attended(query, cache, start, rows)
    expected = case.expected(query, cache, start, rows)
    assert torch.allclose(found.float(), expected.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("tiling", [SMALL, FEW_PARTS], ids=str)
def test_rows_that_are_not_causal_see_what_the_last_one_sees(
    device: torch.device, tiling: Tiling
) -> None:
    case, start, rows = Case(tiling=tiling), 60, 5
    query, cache = case.state(device)
    found = case.attended(query, cache, start, rows, causal=False)
    last = start + rows - 1
    for row in range(rows):
        moved = query.clone()
        moved[last] = query[start + row]
        assert torch.equal(found[row], case.attended(moved, cache, last, 1)[0])


SAME = (
    Case(),
    Case(group=1, kv_heads=2, head_dim=24, window=20, cap=0.7),
    Case(group=5, head_dim=16, dtype=FP8, window=33),
    Case(tiling=FEW_PARTS),
    Case(group=2, head_dim=16, window=20, tiling=FEW_PARTS, sinks=True),
)
LARGE = tuple(
    Case(heads // kv_heads, kv_heads, width, dtype, window, cap, tiling, 3000, sinks)
    for heads, kv_heads, width, window, cap, sinks in (
        (32, 8, 128, None, None, False),
        (28, 4, 128, 700, None, False),
        (16, 8, 256, 1000, 50.0, False),
        (14, 2, 64, None, None, False),
        (9, 3, 64, 300, None, False),
        (8, 1, 256, None, None, False),
        (64, 8, 64, 128, None, True),
    )
    for dtype in (torch.bfloat16, FP8)
    for whole in (choose_tiling(heads, kv_heads, width),)
    for tiling in (whole, replace(whole, most_parts=5))
)


@pytest.mark.gpu
@pytest.mark.parametrize("case", SAME if INTERPRETED else SAME + LARGE, ids=str)
def test_a_row_has_the_same_bits_in_every_slot_of_1_to_16(device: torch.device, case: Case) -> None:
    """One row at the border of two splits, as the last of 1..16 rows and as the first of 1..16."""
    query, cache = case.state(device)
    counts = (3, 16) if INTERPRETED else range(2, MAX_ROWS + 1)
    split = case.tiling.split
    positions = (2 * split,) if INTERPRETED else (15, split - 1, 2 * split, 9 * split + 5)
    for position in (each for each in positions if each + MAX_ROWS <= case.capacity):
        alone = case.attended(query, cache, position, 1)[0]
        for rows in counts:
            together = case.attended(query, cache, position, rows)
            assert torch.equal(together[0], alone), (position, rows, "first")
            start = position - rows + 1
            together = case.attended(query, cache, start, rows)
            assert torch.equal(together[-1], alone), (position, rows, "last")


@pytest.mark.gpu
@pytest.mark.parametrize("case", SAME if INTERPRETED else SAME + LARGE, ids=str)
def test_what_a_rolled_back_round_left_does_not_matter(device: torch.device, case: Case) -> None:
    query, cache = case.state(device)
    start, rows = 2 * case.tiling.split - 3, 5
    before = case.attended(query, cache, start, rows)
    for slot in cache.slots:
        slot.keys[:, start + rows :] = 448.0
        slot.values[:, start + rows :] = -448.0
        for scales in slot.tensors[2:]:
            scales[:, start + rows :] = 1e4
    assert torch.equal(case.attended(query, cache, start, rows), before)


@dataclass(frozen=True, slots=True)
class Turn:
    """The operations on queries and keys. ``turned``: the part of the head that rotates."""

    turned: float | None = 1.0
    normed: bool = False

    def arguments(self, case: Case, device: torch.device) -> dict[str, Tensor | float | None]:
        torch.manual_seed(1)
        norm = torch.rand(case.heads + case.kv_heads, case.head_dim) + 0.5
        rotation = None
        if self.turned is not None:
            pairs = int(case.head_dim * self.turned) // 2
            rope = Rope(tuple(1e4 ** (-pair / pairs) for pair in range(pairs)), 1.2)
            table = rotations(rope, case.head_dim, case.capacity)
            rotation = torch.view_as_real(table).contiguous().to(device)
        return {
            "rotation": rotation,
            "norm": norm.to(device) if self.normed else None,
            "epsilon": 1e-6,
            "scale": 0.3,
        }


def _qkv(case: Case, rows: int, device: torch.device) -> Tensor:
    torch.manual_seed(2)
    width = (case.heads + 2 * case.kv_heads) * case.head_dim
    return torch.randn(rows, width).bfloat16().to(device)


def _unpacked(cache: StaticKVCache) -> Tensor:
    """(2, layers, kv_heads, capacity, head_dim) float32."""
    return torch.stack(
        [
            torch.stack([_scaled(slot.keys, slot.key_scales) for slot in cache.slots]),
            torch.stack([_scaled(slot.values, slot.value_scales) for slot in cache.slots]),
        ]
    )


def _scaled(stored: Tensor, scales: Tensor | None) -> Tensor:
    return stored.float() if scales is None else stored.float() * scales[..., None]


@pytest.mark.gpu
@examples(7)
@given(
    case=cases,
    turn=st.builds(Turn, st.sampled_from((None, 0.5, 1.0)), st.booleans()),
    start=borders,
    rows=st.integers(1, 5),
)
def test_queries_and_keys_are_turned_and_stored_as_in_the_reference(
    device: torch.device, case: Case, turn: Turn, start: int, rows: int
) -> None:
    ours, theirs = case.cache(device), case.cache(device)
    qkv, arguments = _qkv(case, rows, device), turn.arguments(case, device)
    for cache in (ours, theirs):
        cache.set_length(start)
    found = rope_and_store(qkv, ours.slots[1], ours.length, **arguments)
    expected = rope_and_store_reference(qkv, theirs.slots[1], theirs.length, **arguments)
    assert torch.allclose(found.float(), expected.float(), rtol=1e-2, atol=1e-5)
    # A number at a border of two roundings may fall to either side.
    apart = 2**-3 if case.dtype == FP8 else 2**-7
    assert torch.allclose(_unpacked(ours), _unpacked(theirs), rtol=apart, atol=1e-5)
    untouched = torch.ones(case.capacity, dtype=torch.bool)
    untouched[start : start + rows] = False
    assert not _unpacked(ours)[..., untouched, :].any() and not _unpacked(ours)[:, 0].any()
    assert int(ours.length) == start
    check_cache(ours)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, FP8], ids=str)
def test_a_row_is_stored_with_the_same_bits_alone_and_among_others(
    device: torch.device, dtype: torch.dtype
) -> None:
    case, rows = Case(group=1, head_dim=16, dtype=dtype), 5 if INTERPRETED else MAX_ROWS
    arguments = Turn(0.5, normed=True).arguments(case, device)
    qkv = _qkv(case, rows, device)
    together, alone = case.cache(device), case.cache(device)
    queries = rope_and_store(qkv, together.slots[0], together.length, **arguments)
    for row in range(rows):
        alone.set_length(row)
        query = rope_and_store(qkv[row : row + 1], alone.slots[0], alone.length, **arguments)
        assert torch.equal(query[0], queries[row])
    assert torch.equal(_unpacked(alone), _unpacked(together))


@pytest.mark.gpu
def test_rows_that_the_cache_has_no_room_for_are_not_stored(device: torch.device) -> None:
    """A graph's depth is fixed, so near the end of the context it may compute rows beyond it."""
    case = Case(kv_heads=2, head_dim=8)
    cache = case.cache(device)
    cache.set_length(CAPACITY - 1)
    arguments = Turn().arguments(case, device)
    rope_and_store(_qkv(case, 4, device), cache.slots[0], cache.length, **arguments)
    written = _unpacked(cache)[:, 0].any(-1).nonzero()
    assert set(written[:, 2].tolist()) == {CAPACITY - 1}


@pytest.mark.gpu
@pytest.mark.skipif(INTERPRETED, reason="a graph is a device's")
@pytest.mark.parametrize("case", LARGE[:4], ids=str)
def test_one_captured_graph_serves_every_length(device: torch.device, case: Case) -> None:
    _, cache = case.state(device)
    arguments, rows = Turn(normed=True).arguments(case, device), 5
    qkv = _qkv(case, rows, device)
    workspace = Workspace.make(
        heads=case.heads,
        head_dim=case.head_dim,
        capacity=case.capacity,
        tiling=case.tiling,
        device=device,
    )

    def step() -> Tensor:
        query = rope_and_store(qkv, cache.slots[1], cache.length, **arguments)
        scoring = case.scoring(device)
        return attend(query, cache.slots[1], cache.length, workspace, case.tiling, **scoring)

    lengths = (0, 255, 700, case.capacity - rows)  # ascending: a step writes what longer ones read
    expected = []
    for length in lengths:
        cache.set_length(length)
        expected.append(step())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for length, known in zip(lengths, expected, strict=True):
        cache.set_length(length)
        graph.replay()
        assert torch.equal(out, known), length
