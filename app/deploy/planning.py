"""Make a plan: choose the checkpoint, the drafter, and the layout on the GPUs.

Of all layouts with room for weights, drafter and all users' tokens, the fastest is taken; among those
within a few percent, the one with the smallest copies. Layers are split within a node if possible (vLLM's
"distributed inference and serving": tensors within a node, stages between nodes). If nothing fits, the
error says what would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from app.deploy import known, support
from app.deploy.drafters import Drafter, drafter_for
from app.deploy.estimate.layout import Layout, layouts
from app.deploy.estimate.memory import Memory, memory_of
from app.deploy.estimate.network import GpuGroup, Network, of_model
from app.deploy.estimate.speed import Setup, estimate, schedule
from app.deploy.formats import AUTO, AWQ, BF16, FORMATS, FP8, KV_WIDTHS, NVFP4
from app.deploy.gpus import MOST, Gpus
from app.deploy.methods import NONE, SGLANG, VLLM, Needs
from app.deploy.model import ModelFacts
from app.deploy.plan import Plan
from app.deploy.request import PlanRequest
from engine.errors import ForetokenError, InvalidRequest, OutOfMemory
from engine.values.memory import largest

ALIKE = 1.05
"""Layouts whose speeds differ by less count as equal."""

SHORTEST_CONTEXT = 512


def make_plan(request: PlanRequest) -> Plan:
    """Return the plan for ``request``. Raises InvalidRequest for what cannot be combined, and
    OutOfMemory, which says what would fit."""
    support.check(request)
    target, online = checkpoint_of(request)
    name, draft = draft_of(request, target)
    parts = _Parts(request, target, name, draft)
    fitting = [(layout, memory) for layout, memory in parts.layouts() if memory.fits]
    if not fitting:
        raise OutOfMemory(_does_not_fit(parts))
    within = [choice for choice in fitting if choice[0].tensor <= request.gpus.kind.node]
    layout, memory = min(within or fitting, key=parts.rank(within or fitting))
    setup = parts.setup(layout)
    return Plan(
        request,
        target,
        online,
        name,
        draft,
        layout,
        memory,
        setup,
        estimate(setup, request.users, memory.most_users),
        schedule(setup, memory.users),
    )


def fits(request: PlanRequest) -> bool:
    """Return whether any layout fits."""
    try:
        support.check(request)
        target, _ = checkpoint_of(request)
        parts = _Parts(request, target, *draft_of(request, target))
    except ForetokenError:
        return False
    return any(memory.fits for _, memory in parts.layouts())


def checkpoint_of(request: PlanRequest) -> tuple[ModelFacts, bool]:
    """Return the checkpoint to load, and whether the engine quantises it while loading."""
    target, wanted = request.target, request.quantization
    if wanted in (AUTO, target.format):
        return target, False
    entry = known.entry_of(target)
    checkpoint = entry.in_format(wanted) if entry else None
    if checkpoint is not None:
        return checkpoint, False
    if wanted == FP8 and target.format == BF16 and request.computes in (VLLM, SGLANG):
        return replace(target, format=FP8), True
    raise InvalidRequest(
        "quantization",
        f"No checkpoint of {target.id} in {wanted} is known here. Make or find one and give its folder "
        "as the target.",
    )


def draft_of(request: PlanRequest, target: ModelFacts) -> tuple[str | None, ModelFacts | None]:
    """Return the drafter's name, and its facts if it is a draft model."""
    needs = request.of_method.needs
    if needs not in (Needs.MODEL, Needs.HEAD):
        return None, None
    if request.draft is not None:
        if needs is Needs.MODEL and request.draft_model is None:
            raise InvalidRequest("draft", f"The sizes of the draft {request.draft} are not known.")
        return request.draft, request.draft_model if needs is Needs.MODEL else None
    entry = known.entry_of(request.target)
    name = entry.drafters.get(request.method) if entry else None
    if name is None:
        raise InvalidRequest(
            "draft",
            f"No draft for {request.target.id} by {request.of_method.title} is known here. Name one as "
            "the draft (--draft).",
        )
    if needs is Needs.HEAD:
        return name, None
    model = known.known_models()[name]
    draft = model.in_format(target.format) or model.facts
    return draft.name, draft


class _Parts:
    """A request with its models: what all layouts share."""

    def __init__(
        self, request: PlanRequest, target: ModelFacts, draft: str | None, model: ModelFacts | None
    ) -> None:
        self.request, self.target = request, target
        self.depth = (request.depth or request.of_method.depth) if request.method != NONE else 0
        self.network: Network = of_model(target)
        self.drafter: Drafter = drafter_for(request.of_method, target, draft, model, self.depth)
        self.kv_width = KV_WIDTHS[request.kv_cache_dtype]

    def layouts(self) -> Iterator[tuple[Layout, Memory]]:
        """Yield every layout with the memory that it needs on a GPU."""
        request = self.request
        for layout in layouts(self.target, request.gpus, request.users, support.pipelines(request)):
            yield (
                layout,
                memory_of(
                    self.target,
                    self.network,
                    self.drafter,
                    request.gpus.kind,
                    layout,
                    users=layout.users(request.users),
                    context=request.context,
                    kv_width=self.kv_width,
                    depth=self.depth,
                ),
            )

    def setup(self, layout: Layout) -> Setup:
        acceptance = self.request.acceptance
        return Setup(
            self.network,
            self.drafter,
            GpuGroup(self.request.gpus.kind, layout.tensor),
            layout,
            self.depth,
            self.request.of_method.acceptance if acceptance is None else acceptance,
            self.request.context,
            self.kv_width,
        )

    def rank(
        self, fitting: list[tuple[Layout, Memory]]
    ) -> Callable[[tuple[Layout, Memory]], tuple[bool, int, int, float]]:
        """Return the sort key of layouts: nearly the fastest, then small copies, then few stages."""
        speeds = {layout: self.speed(layout) for layout, _ in fitting}
        enough = max(speeds.values()) / ALIKE

        def key(choice: tuple[Layout, Memory]) -> tuple[bool, int, int, float]:
            layout = choice[0]
            speed = speeds[layout]
            return (speed < enough, layout.copy, layout.pipeline, -speed)

        return key

    def speed(self, layout: Layout) -> float:
        """Return tokens/s of all users."""
        setup = self.setup(layout)
        here = layout.users(self.request.users)
        return setup.tokens_a_second(here, self.depth) / here * self.request.users


def _does_not_fit(parts: _Parts) -> str:
    request = parts.request
    best = min((memory for _, memory in parts.layouts()), key=lambda memory: memory.needed)
    drafter = f", the drafter {_gb(best.drafter)}" if best.drafter else ""
    remedies = [text for text, other in _remedies(request) if fits(other)]
    advice = f" What would fit: {'; '.join(remedies)}." if remedies else " Nothing smaller would."
    return (
        f"{parts.target.id} in {parts.target.format} for {request.users:,} users of "
        f"{request.context:,} tokens does not fit on {request.gpus}. At best a GPU would need "
        f"{_gb(best.needed)}, and an engine may use {_gb(best.available)} of it: weights "
        f"{_gb(best.weights)}{drafter}, everybody's tokens {_gb(best.cache)}, work {_gb(best.work)}."
        f"{advice}"
    )


def _remedies(request: PlanRequest) -> Iterator[tuple[str, PlanRequest]]:
    """Yield single changes of the request with their names, each the smallest that fits."""
    counts = (count for power in range(1, 11) if (count := 2**power) > request.gpus.count)
    yield from _first(
        (f"{count}x{request.gpus.kind.name}", _with_gpus(request, count))
        for count in counts
        if count <= MOST
    )
    width = FORMATS[request.target.format].width
    for weights in (FP8, AWQ, NVFP4):
        if FORMATS[weights].width < width and weights != request.quantization:
            yield f"--quantization {weights}", replace(request, quantization=weights)
    if request.kv_cache_dtype == AUTO:
        yield "--kv-cache-dtype fp8", replace(request, kv_cache_dtype=FP8)
    users = largest(request.users, lambda users: fits(replace(request, users=users)))
    if users:
        yield f"{users:,} user{'s' if users > 1 else ''}", replace(request, users=users)
    context = largest(
        request.context // SHORTEST_CONTEXT,
        lambda parts: fits(replace(request, context=parts * SHORTEST_CONTEXT)),
    )
    if context:
        tokens = context * SHORTEST_CONTEXT
        yield f"a context of {tokens:,} tokens", replace(request, context=tokens)
    if request.method != NONE:
        yield "no drafts", replace(request, method=NONE, draft=None, draft_model=None, depth=None)


def _first(choices: Iterator[tuple[str, PlanRequest]]) -> Iterator[tuple[str, PlanRequest]]:
    yield from [choice for choice in choices if fits(choice[1])][:1]


def _with_gpus(request: PlanRequest, count: int) -> PlanRequest:
    return replace(request, gpus=Gpus(request.gpus.kind, count))


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
