"""Decide which parts of a pair are computed on the CPU beside a GPU, and say what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from engine.errors import InvalidRequest
from engine.loading.planning.choices import Backend, could_be_compiled
from engine.loading.planning.fit import ENOUGH_CONTEXT
from engine.loading.planning.model_plan import ModelPlan
from engine.loading.planning.sizes import PairSizes
from engine.loading.request import LoadRequest
from engine.machine import threads
from engine.machine.read_bandwidth import read_bandwidth
from engine.models.families import described
from engine.models.sizes.weight_counts import share_read
from engine.values.units import format_bytes


def place(
    sizes: PairSizes, plan: ModelPlan, request: LoadRequest, limit: int, free: int | None
) -> PairSizes:
    """Return ``sizes`` with the draft where ``request`` wants it, else where it fits.

    By itself a draft goes to the CPU if the GPU, with ``free`` bytes, has room for both models and fewer
    than ``ENOUGH_CONTEXT`` tokens of the ``limit``, or fewer than were asked for. ``plan``: the target's.
    Raises InvalidRequest.
    """
    if not sizes.device.is_gpu and request.draft_device == "cuda":
        raise InvalidRequest(
            "draft_device",
            "draft_device is 'cuda', but the target runs on the CPU. Choose auto, or the device cuda for "
            "both.",
        )
    if not sizes.device.is_gpu or sizes.draft is None or request.draft_device == "cuda":
        return sizes
    beside = replace(sizes, draft_device=sizes.device.cpu)
    if request.draft_device == "cpu":
        return beside

    def context(placed: PairSizes) -> int:
        return placed.fit(plan.quantization, plan.kv_cache_dtype, limit, free).context

    enough = min(limit, request.context or ENOUGH_CONTEXT)
    return sizes if context(sizes) >= enough or context(beside) <= context(sizes) else beside


def placement_notes(sizes: PairSizes, plan: ModelPlan, request: LoadRequest) -> Iterator[str]:
    """Yield what is on the CPU beside a GPU and what it costs, as sentences; ``plan``: the target's."""
    if sizes.draft is not None and sizes.draft_device is not None:
        why = "" if request.draft_device == "cpu" else ", because both models do not fit on the GPU"
        size = sizes.models(plan.quantization, plan.kv_cache_dtype)[1]
        read = size.weight_bytes() * share_read(described(sizes.draft))
        cost = reading(read, sizes.draft_device.threads)
        yield f"{sizes.draft.name} drafts on the CPU{why}: a drafted token {cost}."


def lacks_step(draft: ModelPlan | None, sizes: PairSizes) -> bool:
    """Return whether the draft is on the CPU beside a GPU, and would run in the compiled step once that
    is built."""
    if draft is None or sizes.draft_device is None or draft.backend is not Backend.TORCH:
        return False
    kinds = draft.quantization, "int8"  # what it has then, see ``draft_quantization``
    return any(could_be_compiled(draft.checkpoint, kind, draft.device) for kind in kinds)


def reading(count: float, used: int | None) -> str:
    """Return what it takes to read ``count`` bytes by ``used`` threads; None: the default number."""
    speed = _bandwidth(used or threads.default())
    return (
        f"reads {format_bytes(int(count))} of main memory, {count / speed / 1e6:.2g} ms at the measured "
        f"{speed:.3g} GB/s"
    )


@lru_cache
def _bandwidth(used: int) -> float:
    """Return GB/s that so many threads read, measured once in a tenth of a second."""
    return read_bandwidth(used, 3)
