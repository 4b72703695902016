"""T(M) of this engine's linear layers and attention alone, compared with the bandwidth.

One graph runs several copies of a weight, more than fit into the device's caches. Otherwise it would
come from the cache, as a large model's never does, and short kernels would wait for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.kernels.cuda.attention import Workspace, attend, choose_tiling
from engine.kernels.cuda.kv_cache import FP8, StaticKVCache
from engine.kernels.cuda.linear.dispatch import Weight, make_linear
from engine.kernels.cuda.linear.fusion import Fusion, Norm
from engine.kernels.cuda.references import attend_reference, linear_reference
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import GROUP, Nf4Weight
from engine.machine.devices import FP8_CAPABILITY
from tools.gpu_bench.clock import Clock, Times
from tools.gpu_bench.shapes import EPSILON, WIDTHS, Sizes

ROWS = tuple(range(1, 17))
COLD_BYTES = 2**28
"""Four times the largest cache of a GPU today."""
MOST_COPIES = 128
"""Enough for 2 MB each, which a layer of the smallest model reads of a short cache."""
PAST = (1024, 8192)
"""Positions in the cache at which attention is timed."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """``rows`` rows through one weight of ``size`` (out, in), or attention over (width, positions).

    ``times``: seconds of one call. ``share``: bytes over time as a share of the bandwidth. ``equal``: the
    rows have the bits that they have among 16; None if that is not promised. ``problem``: why there is
    no graph; the host launched the kernels, so its time counts.
    """

    model: str
    kernel: str
    kind: str
    size: tuple[int, int]
    rows: int
    times: Times
    share: float
    equal: bool | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to time. ``calls(rows)`` gives one call for each copy, which reads ``bytes``."""

    kernel: str
    size: tuple[int, int]
    bytes: float
    calls: Callable[[int], list[Callable[[], Tensor]]]


def time_linear(
    sizes: Sizes, name: str, kind: str, clock: Clock, bandwidth: float, repeats: int = 15
) -> list[KernelTime]:
    """Time one of ``sizes.linear_layers()``."""
    case = _linear_case(name, *sizes.linear_layers()[name], kind, clock)
    return time_case(sizes.name, kind, case, clock, bandwidth, repeats)


def time_attention(
    sizes: Sizes, clock: Clock, bandwidth: float, repeats: int = 15, pasts: Sequence[int] = PAST
) -> list[KernelTime]:
    """Time attention of one layer over a cache in bf16, and in fp8 if the device supports it."""
    times = []
    for past in pasts:
        for kind, dtype in _cache_formats(clock).items():
            case = _attention_case(sizes, past, clock, dtype)
            times += time_case(sizes.name, kind, case, clock, bandwidth, repeats)
    return times


def _cache_formats(clock: Clock) -> dict[str, torch.dtype]:
    """Return the formats of a cache on this device; a rehearsal has no time for both."""
    formats = {"bf16": torch.bfloat16}
    if clock.cuda and torch.cuda.get_device_capability(clock.device) >= FP8_CAPABILITY:
        formats["fp8"] = FP8
    return formats


def time_case(
    model: str,
    kind: str,
    case: Case,
    clock: Clock,
    bandwidth: float,
    repeats: int,
    rows: Sequence[int] = ROWS,
    promised: bool = True,
) -> list[KernelTime]:
    """Time one kernel with every count of ``rows``, in turns."""
    calls = {count: case.calls(count) for count in rows}
    captured = {count: clock.capture(several) for count, several in calls.items()}
    problem = next((one.problem for one in captured.values() if one.problem), None)
    timed = clock.interleaved({count: one.call for count, one in captured.items()}, repeats)
    whole = calls[rows[-1]][0]()
    results = []
    for count, times in timed.items():
        one = times.each(len(calls[count]))
        equal = torch.equal(calls[count][0](), whole[:count]) if promised else None
        share = case.bytes / one.median / bandwidth if bandwidth else 0.0
        results.append(
            KernelTime(model, case.kernel, kind, case.size, count, one, share, equal, problem)
        )
    return results


def copies(size: float, clock: Clock) -> int:
    """Return how many weights of ``size`` bytes fit into no cache."""
    return min(MOST_COPIES, -(-COLD_BYTES // int(size))) if clock.cuda else 1


def random_weight(kind: str, out: int, width: int, device: torch.device) -> Weight:
    """Return a random weight in its format. Values do not affect times, so none are quantised."""
    if kind == "int8":
        values = torch.randint(-127, 128, (out, width), dtype=torch.int8, device=device)
        return Int8Weight(values, torch.rand(out, device=device) / 1000)
    if kind == "nf4":
        packed = torch.randint(0, 256, (out * width // 2,), dtype=torch.uint8, device=device)
        absmax = torch.rand(out * width // GROUP, device=device).bfloat16() / 10
        return Nf4Weight(packed, absmax, (out, width))
    weight = torch.empty(out, width, dtype=torch.bfloat16, device=device)
    return weight.normal_(std=0.02)


def random_rows(rows: int, width: int, device: torch.device) -> Tensor:
    """Return random bf16 (rows, width)."""
    return torch.randn(rows, width, device=device).bfloat16()


def _linear_case(name: str, out: int, width: int, kind: str, clock: Clock) -> Case:
    device = clock.device
    size = out * width * WIDTHS[kind]
    norm = Norm(torch.ones(width, dtype=torch.bfloat16, device=device), EPSILON)
    normed = name in ("qkv", "gate_up")
    fusion = Fusion(norm if normed else None, gated=name == "gate_up")
    linear = make_linear if clock.cuda else linear_reference
    layers = [
        linear(random_weight(kind, out, width, device), fusion) for _ in range(copies(size, clock))
    ]
    x = random_rows(ROWS[-1], width, device)
    if name == "head":  # as in the decoder, where logits are not rounded to bf16
        x = x.float()
    residual = None if normed else random_rows(ROWS[-1], out, device)

    def calls(rows: int) -> list[Callable[[], Tensor]]:
        added = None if residual is None else residual[:rows]
        return [partial(layer, x[:rows], added) for layer in layers]

    return Case(name, (out, width), size, calls)


def _attention_case(
    sizes: Sizes, past: int, clock: Clock, dtype: torch.dtype = torch.bfloat16
) -> Case:
    s, device = sizes.shape, clock.device
    size = 2 * s.kv_heads * past * s.head_dim * dtype.itemsize
    count = copies(size, clock)
    cache = StaticKVCache(
        [(s.kv_heads, s.head_dim)] * count, capacity=past + ROWS[-1], device=device, dtype=dtype
    )
    for slot in cache.slots:
        for part in (slot.keys, slot.values):  # normal_ does not take fp8
            part.copy_(torch.randn(part.shape, device=device))
        for scales in (slot.key_scales, slot.value_scales):
            if scales is not None:
                scales.fill_(1.0)
    size += sum(2 * past * part.itemsize * s.kv_heads for part in cache.slots[0].tensors[2:]) // 2
    cache.set_length(past)
    query = random_rows(ROWS[-1], s.heads * s.head_dim, device).view(-1, s.heads, s.head_dim)
    tiling = choose_tiling(s.heads, s.kv_heads, s.head_dim)
    workspace = Workspace.make(
        heads=s.heads, head_dim=s.head_dim, capacity=cache.capacity, tiling=tiling, device=device
    )

    def one(rows: int, layer: int) -> Tensor:
        if not clock.cuda:
            return attend_reference(query[:rows], cache.slots[layer], cache.length)
        return attend(query[:rows], cache.slots[layer], cache.length, workspace, tiling)

    def calls(rows: int) -> list[Callable[[], Tensor]]:
        return [partial(one, rows, layer) for layer in range(count)]

    return Case("attention", (s.heads * s.head_dim, past), size, calls)
