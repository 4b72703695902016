"""Decide which parts of a pair are computed on the CPU beside a GPU, and say what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from engine.backends.native import build
from engine.backends.split import why_not_split
from engine.errors import InvalidRequest
from engine.kernels.formats import AUTO, UNQUANTISED
from engine.loading.planning.choices import Backend, could_be_compiled, quantizations
from engine.loading.planning.fit import DRAFT, ENOUGH_CONTEXT, SHORTEST_CONTEXT, TARGET
from engine.loading.planning.model_plan import ModelPlan, plan_model
from engine.loading.planning.model_size import ModelSize
from engine.loading.planning.sizes import HOST_LAYERS, PairSizes
from engine.loading.request import LoadRequest
from engine.machine import compilers, devices, threads
from engine.machine.read_bandwidth import gpu_bandwidth, read_bandwidth
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families import described
from engine.models.sizes.weight_counts import count_weights
from engine.values.memory import largest
from engine.values.units import format_bytes

_ANY = 1 << 62
"""Bytes of main memory that hold anything."""


def that_fits(
    plan: ModelPlan, sizes: PairSizes, request: LoadRequest, limit: int, free: int | None
) -> ModelPlan:
    """Return the target's ``plan``, or one in fewer bits if only that leaves memory for its context.

    That is ``fit.SHORTEST_CONTEXT`` of the ``limit`` tokens on a CPU, and ``ENOUGH_CONTEXT`` on a GPU,
    where the most bits go first for which no part is on the CPU, then those for which the draft alone
    is, and the fewest before layers are left there. Never bf16: int8 is smaller and as fast.
    """
    target, device = plan.checkpoint, plan.device
    on_gpu = device.is_gpu
    if on_gpu and _asked_on_host(request, target.layers):
        return plan  # layers are on the CPU as people want it, in the format that all have
    kinds = [kind for kind in quantizations(target, device) if kind not in UNQUANTISED]
    kinds = [plan.quantization, *(kind for kind in kinds if kind != plan.quantization)]
    if len(kinds) == 1:
        return plan
    least = _enough(request, limit) if on_gpu else min(limit, SHORTEST_CONTEXT)

    def planned(kind: str) -> ModelPlan:
        if kind == plan.quantization:
            return plan
        return plan_model(target, device, kind, kv_cache_dtype=plan.kv_cache_dtype)

    def context(way: PairSizes, kind: str) -> int:
        return way.context(kind, plan.kv_cache_dtype, limit, free)

    for way in _ways(sizes, request):
        for kind in kinds:
            if context(way, kind) >= least:
                return planned(kind)
    if on_gpu:
        fewest = planned(kinds[-1])
        if context(place(sizes, fewest, request, limit, free), kinds[-1]):
            return fewest
    return plan


def _ways(sizes: PairSizes, request: LoadRequest) -> list[PairSizes]:
    """Return ``sizes`` with the draft where ``request`` allows it, the GPU first."""
    if sizes.draft is None or request.draft_device == "cuda" or not sizes.device.is_gpu:
        return [sizes]
    beside = replace(sizes, draft_device=sizes.device.cpu)
    return [beside] if request.draft_device == "cpu" else [sizes, beside]


def place(
    sizes: PairSizes, plan: ModelPlan, request: LoadRequest, limit: int, free: int | None
) -> PairSizes:
    """Return ``sizes`` with the draft and the target's layers where ``request`` wants them, else where
    they fit. ``plan``: the target's. ``free``: the GPU's free bytes.

    What leaves room for ``ENOUGH_CONTEXT`` tokens of the ``limit``, or for those asked for, fits. Else
    the draft goes to the CPU. If that is not enough, layers of the target do, and the draft stays, as it
    is run more often. If no layers can, what leaves the longest context is returned.

    Raises InvalidRequest for what this model or machine cannot have.
    """
    _check(sizes, plan, request)
    if not sizes.device.is_gpu:
        return sizes
    ways = _ways(sizes, request)
    layers = sizes.target.layers
    if asked := _asked_on_host(request, layers):
        ways = [_split(way, asked) for way in ways]

    def context(way: PairSizes, host_free: int | None = None) -> int:
        return way.context(plan.quantization, plan.kv_cache_dtype, limit, free, host_free)

    enough = _enough(request, limit)
    for way in ways:
        if context(way) >= enough:
            return way
    short = all(context(way, _ANY) < enough for way in ways)  # of the GPU's memory
    if short and request.gpu_layers is None and _why_whole(sizes, plan) is None:
        kept = largest(
            layers, lambda count: context(_split(ways[0], layers - count), _ANY) >= enough
        )
        if kept:
            return _split(ways[0], layers - kept)
    return max(ways, key=context)


def _asked_on_host(request: LoadRequest, layers: int) -> int:
    """Return how many of the target's ``layers`` the ``request`` wants on the CPU."""
    return max(0, layers - (request.gpu_layers or layers))


def _enough(request: LoadRequest, limit: int) -> int:
    """Return the tokens of context that must fit."""
    return min(limit, request.context or ENOUGH_CONTEXT)


def _split(sizes: PairSizes, count: int) -> PairSizes:
    """Leave the first ``count`` layers on the CPU, and out what reads all layers: heads and a tower."""
    return replace(sizes, host_layers=count, heads=(), vision=None)


def _check(sizes: PairSizes, plan: ModelPlan, request: LoadRequest) -> None:
    """Raise InvalidRequest for a part on the GPU of a target on the CPU, or of one that must be whole."""
    if not sizes.device.is_gpu:
        for name in ("gpu_layers", "draft_device"):
            if (asked := getattr(request, name)) not in (None, AUTO, "cpu"):
                chosen = ", as the device cpu asks" * (request.device == "cpu")
                why = (not chosen and devices.why_no_gpu()) or "Choose the device cuda."
                raise InvalidRequest(
                    name,
                    f"{name} is {asked}, but the target runs on the CPU{chosen}. {why} Or leave it out.",
                )
    if not _asked_on_host(request, sizes.target.layers):
        return
    if reason := _why_whole(sizes, plan):
        raise InvalidRequest(
            "gpu_layers",
            f"gpu_layers is {request.gpu_layers}, but the layers of this model cannot be on two devices: "
            f"{reason} Leave it out, or choose the device cpu.",
        )


def _why_whole(sizes: PairSizes, plan: ModelPlan) -> str | None:
    """Return why all of the target must be on one device, as a sentence; None if it need not."""
    target, cpu = sizes.target, sizes.device.cpu
    architecture = described(target)
    if plan.backend is Backend.TRANSFORMERS or architecture is None:
        return "transformers runs it."
    if reason := why_not_split(architecture):
        return reason
    if not could_be_compiled(target, plan.quantization, cpu):
        return f"the compiled kernels cannot run it in {plan.quantization} on the CPU."
    built = build.ready(cpu.threads) is not None
    return None if built or compilers.found() else str(compilers.NoCompiler())


def host_plan(sizes: PairSizes, plan: ModelPlan, context: int) -> ModelPlan | None:
    """Return the plan of the target's layers on the CPU beside a GPU; None if there are none."""
    if not sizes.host_layers:
        return None
    cpu = sizes.device.cpu
    return plan_model(sizes.target, cpu, plan.quantization, context=context)


def lacks_step(sizes: PairSizes, *plans: ModelPlan | None) -> bool:
    """Return whether one of the ``plans`` is for the CPU beside a GPU, and would run in the compiled step
    once that is built."""
    return sizes.device.is_gpu and any(
        not plan.device.is_gpu
        and plan.backend is Backend.TORCH
        # A draft has int8 then, see ``draft_quantization``.
        and any(
            could_be_compiled(plan.checkpoint, kind, plan.device)
            for kind in (plan.quantization, "int8")
        )
        for plan in plans
        if plan is not None
    )


def placement_notes(
    sizes: PairSizes, plan: ModelPlan, request: LoadRequest, limit: int, free: int | None
) -> Iterator[str]:
    """Yield what is on the CPU beside a GPU and what it costs, as sentences. See ``place``."""
    if not sizes.device.is_gpu:
        return
    read = _bytes_read(sizes, plan)
    count, layers, target = sizes.host_layers, sizes.target.layers, sizes.target
    speed = _bandwidth(sizes.device.threads or threads.default()) if len(read) > 1 else 0.0
    if count:
        why = "" if request.gpu_layers else ", because all do not fit on the GPU"
        yield (
            f"Of the {layers} layers of {target.name}, {layers - count} are on the GPU and {count} on "
            f"the CPU{why}: a pass reads {_cost(read[HOST_LAYERS], speed)}."
        )
        whole = replace(sizes, host_layers=0)
        for kind in () if request.gpu_layers else quantizations(target, sizes.device):
            found = whole.context(kind, plan.kv_cache_dtype, limit, free)
            if kind != plan.quantization and found >= _enough(request, limit):
                yield f"In {kind} all layers would fit on the GPU."
                break
    if sizes.draft is not None and sizes.draft_device is not None:
        why = "" if request.draft_device == "cpu" else ", because both models do not fit on the GPU"
        loss = slower(sizes, plan)
        if gpu_bandwidth(sizes.device.torch_device) is None:
            loss = "how long a token of the target's own takes is not known here"
        yield (
            f"{sizes.draft.name} drafts on the CPU{why}: a drafted token reads "
            f"{_cost(read[DRAFT], speed)}{loss and f'; {loss}'}."
        )


def slower(sizes: PairSizes, plan: ModelPlan) -> str:
    """Return why a draft on the CPU can only cost time, as a clause; "" if it may pay or if that is not
    known.

    A round of k drafts takes at least k times a draft's token and one of the target's, and gives at most
    k + 1 tokens: that pays only where the draft's token takes less. Both are what the memory allows.
    """
    gpu = gpu_bandwidth(sizes.device.torch_device)
    if sizes.draft_device is None or gpu is None:
        return ""
    read = _bytes_read(sizes, plan)
    speed = _bandwidth(sizes.device.threads or threads.default())
    own = _ms(read[TARGET], gpu) + _ms(read.get(HOST_LAYERS, 0), speed)
    if _ms(read[DRAFT], speed) < own:
        return ""
    return (
        f"a token of {sizes.target.name} without drafts takes {own:.1f} ms ({gpu:.0f} GB/s on the GPU), "
        "so drafting can only take longer"
    )


def without_slower_draft(
    sizes: PairSizes, plan: ModelPlan, request: LoadRequest
) -> tuple[PairSizes, str | None]:
    """Return ``sizes`` without a draft that is on the CPU unasked and can only cost time, and why, as a
    sentence."""
    draft, loss = sizes.draft, slower(sizes, plan)
    if draft is None or request.draft_device != AUTO or not loss:
        return sizes, None
    speed = _bandwidth(sizes.device.threads or threads.default())
    cost = _cost(_bytes_read(sizes, plan)[DRAFT], speed)
    return replace(sizes, draft=None, draft_device=None), (
        f"{draft.name} does not draft, because both models do not fit on the GPU: on the CPU a drafted "
        f"token would read {cost}; {loss}. To draft all the same, choose the CPU for it "
        "(--draft-device cpu)."
    )


def _bytes_read(sizes: PairSizes, plan: ModelPlan) -> dict[str, float]:
    """Return the bytes that a token reads of the target, its layers on the CPU, and a draft there."""
    whole = replace(sizes, host_layers=0)
    models = whole.models(plan.quantization, plan.kv_cache_dtype)
    layers, table = _read(sizes.target, models[0])
    host = layers * sizes.host_layers / sizes.target.layers
    read = {TARGET: layers - host + table}
    if sizes.host_layers:
        read[HOST_LAYERS] = host
    if sizes.draft is not None and sizes.draft_device is not None:
        read[DRAFT] = sum(_read(sizes.draft, models[whole.roles.index(DRAFT)]))
    return read


def _read(model: Checkpoint, size: ModelSize) -> tuple[float, float]:
    """Return the bytes that a token reads of the model's layers, and of its output head."""
    architecture, whole = described(model), size.weight_bytes()
    if architecture is None:
        return whole, 0
    counts = count_weights(architecture)
    table = counts.head or counts.embedding
    return whole * (counts.active - table) / counts.total, whole * table / counts.total


def _ms(count: float, speed: float) -> float:
    """Return the milliseconds in which ``count`` bytes are read at ``speed`` GB/s."""
    return count / speed / 1e6


def _cost(count: float, speed: float) -> str:
    """Return what it takes to read ``count`` bytes at ``speed`` GB/s."""
    ms = _ms(count, speed)
    return (
        f"{format_bytes(int(count))} of main memory, {ms:.{0 if ms >= 10 else 1}f} ms at the "
        f"measured {speed:.1f} GB/s"
    )


@lru_cache
def _bandwidth(used: int) -> float:
    """Return GB/s that so many threads read, measured once in a tenth of a second."""
    return read_bandwidth(used, 3)
