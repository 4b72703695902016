"""Compile every kernel for devices that are not present: it fits, and nothing spills.

Launches are the engine's own, of tensors that have no memory. What takes most is compiled for several
generations, the other variants for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from engine.kernels.cuda import (
    attention,
    attention_kernel,
    intrinsics,
    recurrence_kernel,
    rotary,
    rotary_kernel,
)
from engine.kernels.cuda.kv_cache import FP8, StaticKVCache
from engine.kernels.cuda.linear import blocks, bulk_kernel, parts, streamed
from engine.kernels.cuda.linear.dispatch import Part, make_stacked
from engine.kernels.cuda.linear.fusion import Fusion, Norm, finish_sums, normalise
from engine.kernels.cuda.linear.tiles import MOST_SPLITS, Kind, choose_tile
from engine.kernels.cuda.recurrence import Memories, Recurrence, take_in
from engine.kernels.cuda.sampling import acceptance, branches
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.kernels.cuda.sampling.state import SamplingState
from engine.kernels.cuda.trees import TREE_SHAPE
from engine.kernels.formats.block_planes import FORMS, NF4, BlockPlanes
from engine.kernels.formats.int8 import Int8Weight
from engine.machine.devices import FP8_CAPABILITY
from engine.values import MAX_DEPTH, MAX_ROWS
from tests.engine.kernels.cuda.cases import FORMATS, GROUPED, KINDS
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import ptx

KERNELS = (
    *((streamed, name) for name in ("bf16_gemm", "int8_gemm", "int8_rows", "block_gemm")),
    *((attention_kernel, name) for name in ("attend_splits", "combine_parts")),
    (parts, "normalise_rows"),
    (blocks, "dequantise_blocks"),
    (bulk_kernel, "finish_rows"),
    (rotary_kernel, "rope_and_store"),
    (recurrence_kernel, "take_in_rows"),
    *((acceptance, name) for name in ("race_kernel", "accept_kernel")),
    *((branches, name) for name in ("times_kernel", "grow_kernel")),
    (intrinsics, "stamp_kernel"),
)
META = torch.device("meta")
VOCABULARY = 262144  # Gemma's, the widest


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def linear(kind: Kind, out: int, full: bool, head: bool = False) -> None:
    """``full``: everything that can be fused with a linear layer, and the most splits.

    ``head``: a norm in front, and rows and results in float32.
    """
    width = 4096
    tile = choose_tile(out, width, kind, streamed.multiprocessors(META))
    if full:
        tile = replace(tile, splits=MOST_SPLITS, span=width // MOST_SPLITS)
    fusion = Fusion(Norm(empty(width), 1e-5), empty(out), gated=True) if full else Fusion()
    if head:
        fusion = Fusion(Norm(empty(width), 1e-5))
    made: Any
    if kind == "int8":
        weight = Int8Weight(empty(out, width, dtype=torch.int8), empty(out, dtype=torch.float32))
        made = streamed.Int8Linear(weight, fusion, tile)
    elif kind in GROUPED:
        made = streamed.BlockLinear(planes(kind, out, width), fusion, tile)
    else:
        made = streamed.Bf16Linear(empty(out, width), fusion, tile)
    rows = empty(MAX_ROWS, width, dtype=torch.float32 if head else torch.bfloat16)
    made(rows, empty(MAX_ROWS, out // 2) if full else None)


def experts(kind: Kind) -> None:
    """Launch the products of 128 experts, of which a token chooses 8, with biases and gates."""
    out, width, count, chosen = 1536, 2048, 128, 8
    fusion = Fusion(bias=empty(count, out), gated=True)
    weight: Part = empty(count, out, width)
    if kind == "int8":
        scale = empty(count, out, dtype=torch.float32)
        weight = Int8Weight(empty(count, out, width, dtype=torch.int8), scale)
    elif kind in GROUPED:
        one = planes(kind, out, width)
        stacked = {
            name: plane.new_empty(count, *plane.shape)
            for name in ("codes", "high", "scales", "lows")
            if (plane := getattr(one, name)) is not None
        }
        weight = replace(one, **stacked)
    pairs = chosen * MAX_ROWS
    product = make_stacked(weight, fusion, chosen)
    product(empty(pairs, width), None, empty(pairs, dtype=torch.int32))


def layer(
    heads: int,
    kv_heads: int,
    width: int,
    dtype: torch.dtype,
    cap: float | None,
    tree: bool = False,
    sinks: bool = False,
) -> None:
    """Launch rope with norms, the cache's writes and attention, of a chain or a ``tree``."""
    capacity = 8192
    table = empty(*TREE_SHAPE, dtype=torch.int32) if tree else None
    tiling = attention.choose_tiling(heads, kv_heads, width)
    cache = StaticKVCache([(kv_heads, width)], capacity=capacity, device=META, dtype=dtype)
    query = rotary.rope_and_store(
        empty(MAX_ROWS, (heads + 2 * kv_heads) * width), cache.slots[0], cache.length,
        rotation=empty(capacity, width // 2, 2, dtype=torch.float32),
        norm=empty(heads + kv_heads, width, dtype=torch.float32), epsilon=1e-6, tree=table,
    )  # fmt: skip
    workspace = attention.Workspace.make(
        heads=heads, head_dim=width, capacity=capacity, tiling=tiling, device=META
    )
    attention.attend(
        query, cache.slots[0], cache.length, workspace, tiling, cap=cap,
        window=128 if sinks else None,
        sinks=empty(heads, dtype=torch.float32) if sinks else None, tree=table,
    )  # fmt: skip


def recurrence(
    heads: int, key_heads: int, key_dim: int, value_dim: int, delta: bool, tree: bool = False
) -> None:
    """Launch a recurrence: of a gated delta net, or Mamba-2; of a chain or a ``tree``."""
    keys, values = key_heads * key_dim, heads * value_dim

    def numbers(*shape: int) -> torch.Tensor:
        return empty(*shape, dtype=torch.float32)

    channels = 2 * keys + values
    layer = Recurrence(
        numbers(4, channels), None if delta else numbers(channels), numbers(heads), numbers(heads),
        None if delta else numbers(heads), first=0 if delta else values, query=0, key=keys,
        value=2 * keys, rate=channels + values, key_heads=key_heads,
    )  # fmt: skip
    width = channels + values + (1 + delta) * heads
    memories = Memories({0: ((heads, key_dim, value_dim), width)}, META)
    table = empty(*TREE_SHAPE, dtype=torch.int32) if tree else None
    memories.begin(empty(1, dtype=torch.int32), MAX_ROWS, table)
    take_in(layer, empty(MAX_ROWS, width), memories.layers[0], memories)


def verification(rule: Rule, sampled: bool, drafting: bool = False, tree: bool = False) -> None:
    p = empty(MAX_ROWS, VOCABULARY, dtype=torch.float32)
    state = SamplingState.empty(VOCABULARY, META)
    if drafting:
        acceptance.draft(p, state, rule=rule, index=3)
    else:
        out = acceptance.empty_result(META)
        q, depth = p if sampled else None, MAX_ROWS - 1
        acceptance.verify(p, q, state, out, rule=rule, depth=depth, tree=tree)


def growing(spread: bool) -> None:
    """Launch what drafts a tree."""
    q, state = empty(3, VOCABULARY, dtype=torch.float32), SamplingState.empty(VOCABULARY, META)
    rank = partial(branches.rank, state=state, rule=Rule.COUPLED, count=MAX_DEPTH)
    ranked = [rank(row, index=index) for index, row in enumerate(q.split(1))]
    branches.grow(ranked, state, MAX_DEPTH, spread=spread)


def stamps() -> None:
    """Launch the kernel of the device's clock; without a device ``stamp`` uses the host's."""
    intrinsics.stamp_kernel[(1,)](empty(3, dtype=torch.int64), INDEX=1, **intrinsics.STAMP_OPTIONS)


def dequantising() -> None:
    """Launch the kernel that dequantises a part of a weight for a prompt, of every kind of codes."""
    for kind in GROUPED:
        blocks.dequantise(planes(kind, 4096, 4096), 64, 4096)


def planes(kind: Kind, out: int, width: int) -> BlockPlanes:
    form = NF4 if kind == "nf4" else FORMS[FORMATS[kind]]
    return BlockPlanes.empty(form, (out, width), META)


def finishing() -> None:
    """Launch what follows cuBLAS: int8's scales, a bias, a gate and a residual."""
    sums, scales = empty(128, 4096, dtype=torch.int32), empty(128, dtype=torch.float32)
    fusion, weight_scales = Fusion(bias=empty(4096), gated=True), empty(4096, dtype=torch.float32)
    finish_sums(sums, fusion, empty(128, 2048), torch.bfloat16, scales, weight_scales)


def norms() -> None:
    """Launch a norm with a residual."""
    normalise(empty(MAX_ROWS, 4096), Norm(empty(4096), 1e-5), empty(MAX_ROWS, 4096))


Launch = Callable[[], None]
EVERYWHERE: dict[str, Launch] = {
    **{f"{kind} linear": partial(linear, kind, 4096, True) for kind in FORMATS},
    **{f"{kind} experts": partial(experts, kind) for kind in KINDS},
    "blocks dequantised": dequantising,
    "bf16 linear": partial(linear, "bf16", 4096, True),
    "int8 linear": partial(linear, "int8", 4096, True),
    "nf4 linear": partial(linear, "nf4", 4096, True),
    "Qwen2.5 7B": partial(layer, 28, 4, 128, torch.bfloat16, None),  # most lanes
    "Gemma 2 9B": partial(layer, 16, 8, 256, torch.bfloat16, 50.0),  # wide heads, 16 rows
    "Gemma 3 1B": partial(layer, 4, 1, 256, torch.bfloat16, None),  # wide heads, 32 rows
    "Llama 3.1 8B": partial(layer, 32, 8, 128, torch.bfloat16, None),
    "Qwen2.5 7B, tree": partial(layer, 28, 4, 128, torch.bfloat16, None, True),
    "Gemma 2 9B, tree": partial(layer, 16, 8, 256, torch.bfloat16, 50.0, True),
    "Gemma 3 1B, tree": partial(layer, 4, 1, 256, torch.bfloat16, None, True),
    "Llama 3.1 8B, tree": partial(layer, 32, 8, 128, torch.bfloat16, None, True),
    "Gemma 4 E4B, global": partial(layer, 8, 2, 512, torch.bfloat16, None),
    "Gemma 4 31B, global": partial(layer, 32, 4, 512, torch.bfloat16, None),
    "Gemma 4 E4B, global, tree": partial(layer, 8, 2, 512, torch.bfloat16, None, True),
    "Qwen3.5": partial(recurrence, 32, 16, 128, 128, True),
    "Granite 4": partial(recurrence, 48, 1, 128, 64, False),
    "Qwen3.5, tree": partial(recurrence, 32, 16, 128, 128, True, True),
    "Granite 4, tree": partial(recurrence, 48, 1, 128, 64, False, True),
    "clock": stamps,
    "norm": norms,
    "many rows": finishing,
    "tree": partial(growing, False),
    "spread tree": partial(growing, True),
    "block verification": partial(verification, Rule.BLOCK, True),
}
FP8_KNOWN: dict[str, Launch] = {
    "Qwen2.5 7B, fp8": partial(layer, 28, 4, 128, FP8, None),
    "Qwen2.5 7B, fp8, tree": partial(layer, 28, 4, 128, FP8, None, True),
    "Gemma 4 E4B, global, fp8": partial(layer, 8, 2, 512, FP8, None),
    "Gemma 3 1B, fp8": partial(layer, 4, 1, 256, FP8, None),
    "Gemma 3 1B, fp8, tree": partial(layer, 4, 1, 256, FP8, None, True),
}
ONCE: dict[str, Launch] = {
    **{f"plain {kind} linear": partial(linear, kind, 128256, False) for kind in FORMATS},
    **{f"{kind} head": partial(linear, kind, 128256, False, True) for kind in FORMATS},
    "plain bf16 linear": partial(linear, "bf16", 128256, False),
    "plain int8 linear": partial(linear, "int8", 128256, False),
    "plain nf4 linear": partial(linear, "nf4", 128256, False),
    "bf16 head": partial(linear, "bf16", 128256, False, True),
    "int8 head": partial(linear, "int8", 128256, False, True),
    "nf4 head": partial(linear, "nf4", 128256, False, True),
    "Qwen2.5 0.5B": partial(layer, 14, 2, 64, torch.bfloat16, None),
    "gpt-oss 20B": partial(layer, 64, 8, 64, torch.bfloat16, None, sinks=True),
    "gpt-oss 20B, tree": partial(layer, 64, 8, 64, torch.bfloat16, None, True, True),
    "Gemma 2 9B, fp8": partial(layer, 16, 8, 256, FP8, 50.0),
    "Qwen2.5 0.5B, tree": partial(layer, 14, 2, 64, torch.bfloat16, None, True),
    "greedy verification": partial(verification, Rule.GREEDY, False),
    "coupled verification": partial(verification, Rule.COUPLED, False),
    "greedy verification, tree": partial(verification, Rule.GREEDY, False, tree=True),
    "coupled verification, tree": partial(verification, Rule.COUPLED, False, tree=True),
    "rejection verification": partial(verification, Rule.REJECTION, True),
    "block verification, no q": partial(verification, Rule.BLOCK, False),
    "draft step": partial(verification, Rule.COUPLED, False, True),
}
CAPABILITIES = [
    pytest.param(one, marks=pytest.mark.exhaustive if one < 89 else ()) for one in ptx.CAPABILITIES
]
"""The older two have the instructions of the third, and no less shared memory: a fresh machine compiles
two minutes for them."""
CASES = [
    *(
        pytest.param(name, *one.values, marks=one.marks)
        for name in EVERYWHERE
        for one in CAPABILITIES
    ),
    *(
        (name, one)
        for name in FP8_KNOWN
        for one in ptx.CAPABILITIES
        if divmod(one, 10) >= FP8_CAPABILITY
    ),
    *((name, 90) for name in ONCE),
]


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "capability"), CASES)
def test_a_kernel_fits_and_nothing_spills(
    name: str, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ptx.MULTIPROCESSORS[capability]
    monkeypatch.setattr(streamed, "multiprocessors", lambda device: number)
    with ptx.compiling(capability, *KERNELS) as found:
        (EVERYWHERE | FP8_KNOWN | ONCE)[name]()
    assert found
    for one in found:
        print(one)
    assert not [str(one) for one in found if not one.fits]


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    "name",
    ["Qwen2.5 7B", "Gemma 2 9B", "Gemma 3 1B", "Llama 3.1 8B", "Qwen3.5", "Granite 4"],
)
def test_a_row_of_a_tree_goes_through_the_arithmetic_of_a_chain(name: str, capability: int) -> None:
    """The same operations in the same order and layouts, in attention once for the text and once for
    branches: so a row's sums have the same bits."""
    found = []
    for launch in (name, f"{name}, tree"):
        with ptx.compiling(capability, *KERNELS) as used:
            EVERYWHERE[launch]()
        found.append({each.name: each.arithmetic for each in used})
    chain, tree = found
    assert all(len(each) > 12 for kernel, each in chain.items() if kernel != "rope_and_store")
    twice = {kernel: (1 + (kernel == "attend_splits")) * each for kernel, each in chain.items()}
    assert tree == twice


ALWAYS = ("clock", "blocks dequantised", "many rows")
"""Launches that are no row's, or a prompt's."""


@pytest.mark.skipif(INTERPRETED, reason="the interpreter specialises nothing")
@pytest.mark.parametrize(
    "name", [name for name in EVERYWHERE | FP8_KNOWN | ONCE if name not in ALWAYS]
)
def test_one_compiled_variant_and_one_division_serve_1_to_16_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows have equal bits because the same code runs: one tile and one split for all numbers of rows."""
    launches = []
    for rows in range(1, MAX_ROWS + 1):
        with monkeypatch.context() as patch, ptx.launching(*KERNELS) as found:
            patch.setattr("tests.engine.kernels.cuda.test_compiled.MAX_ROWS", rows)
            (EVERYWHERE | FP8_KNOWN | ONCE)[name]()
        assert found
        launches.append(found)
    assert all(each == launches[0] for each in launches)
