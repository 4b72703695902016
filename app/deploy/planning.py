"""Make a plan: choose the checkpoint, the drafter, and the layout on the GPUs.

Of all layouts with room for weights, drafter and all users' tokens, the fastest is taken; among those
within a few percent, the one with the smallest copies. Layers are split within a node if possible (vLLM's
"distributed inference and serving": tensors within a node, stages between nodes). If nothing fits, the
error says what would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from app.deploy import support
from app.deploy.estimate.memory import Memory, layouts, memory_of
from app.deploy.estimate.network import ALONE, Layout, drafter_for, of_model
from app.deploy.estimate.speed import Setup, estimate, schedule
from app.deploy.gpus import AUTO, AWQ, BF16, FORMATS, FP8, KINDS, KV_WIDTHS, MOST, NVFP4, Gpus
from app.deploy.methods import CAN, ENGINE_TABLE, NONE, SGLANG, VLLM, Needs, acceptance_of
from app.deploy.model import ModelFacts, entry_of, known_models
from app.deploy.request import Plan, PlanRequest, Service, service, with_bursts
from app.deploy.tables import refusal
from engine.errors import ForetokenError, OutOfMemory
from engine.values.memory import largest
from engine.values.units import counted

ALIKE = 1.05
"""Layouts whose speeds differ by less count as equal."""

CONTEXT_STEP = 512
"""Tokens: contexts that would fit are multiples of it."""


def make_plan(request: PlanRequest) -> Plan:
    """Return the plan for ``request``, with the fastest depth at its load if neither a depth nor a task
    is given and the engine does not adapt it. Raises InvalidRequest for what cannot be combined, and
    OutOfMemory, which says what would fit."""
    plan = _with_depth(request)
    given = request.depth is not None or request.task is not None
    while not given and plan.has_ground and not plan.adapts:
        if not 0 < (best := plan.estimate.best_depth) < plan.depth:
            break
        plan = _with_depth(replace(request, depth=best))
    return plan


def _with_depth(request: PlanRequest) -> Plan:
    """Return the plan with the depth of the request, else the method's. Raises as ``make_plan``."""
    if request.by_rate:
        request = replace(request, users=1)  # at least, of each copy
    parts = _Parts(request)
    fitting = [(layout, memory) for layout, memory in parts.layouts() if memory.fits]
    if not fitting:
        raise OutOfMemory(_does_not_fit(parts))
    served = None
    if request.targets is not None:
        served = _served(parts, fitting)
        request = replace(request, users=served.users)
        layout, memory = served.layout, parts.memory(served.layout, served.users)
        if request.by_rate:
            most = min(memory.most_users, with_bursts(layout.users(served.users)))
            memory = parts.memory(layout, most * layout.replicas)
    else:
        within = [choice for choice in fitting if choice[0].tensor <= request.gpus.kind.reach]
        layout, memory = parts.best(within or fitting)
    setup = parts.setup(layout)
    return Plan(
        request,
        parts.target,
        parts.online,
        parts.draft,
        parts.draft_model,
        layout,
        memory,
        setup,
        estimate(setup, request.users, memory.most_users),
        schedule(setup, memory.users * memory.groups),
        served,
    )


def _served(parts: _Parts, fitting: list[tuple[Layout, Memory]]) -> Service:
    """Return the fewest GPUs that reach the targets. Raises OutOfMemory, which says what is reached."""
    request = parts.request
    targets = request.targets
    assert targets is not None
    if not request.gpus.kind.runs and request.measured is None:
        known = ", ".join(kind.name for kind in KINDS.values() if kind.runs)
        raise refusal("gpus", "no-speeds", gpu=request.gpus.kind, known=known)
    users = None if request.by_rate else request.users
    found = [
        service(parts.setup(layout), layout, targets, memory.most_users, users)
        for layout, memory in fitting
    ]
    reached = [each for each in found if not each.misses(targets)]
    if reached:
        return min(reached, key=lambda each: (each.layout.gpus, each.itl))
    rate = targets.rps or 0.0
    nearest = min(found, key=lambda e: (len(e.misses(targets)), -min(rate, e.rps), e.itl))
    raise OutOfMemory(
        f"{parts.target.id} on {request.gpus} is not expected to reach the targets: of all layouts "
        f"the nearest has {' and '.join(nearest.misses(targets))}. Take more or faster GPUs, a "
        "smaller format, drafts, or lower targets."
    )


def fits(request: PlanRequest) -> bool:
    """Return whether any layout fits."""
    try:
        parts = _Parts(request)
    except ForetokenError:
        return False
    return any(memory.fits for _, memory in parts.layouts())


def checkpoint_of(request: PlanRequest) -> tuple[ModelFacts, bool]:
    """Return the checkpoint to load, and whether the engine quantises it while loading."""
    target, wanted = request.target, request.quantization
    if wanted in (AUTO, target.format):
        return target, False
    entry = entry_of(target)
    checkpoint = entry.in_format(wanted) if entry else None
    if checkpoint is not None:
        return checkpoint, False
    if wanted == FP8 and target.format == BF16 and request.computes in (VLLM, SGLANG):
        return replace(target, format=FP8, block=0), True
    raise refusal("quantization", "no-checkpoint", weights=wanted, target=target)


def draft_of(request: PlanRequest, target: ModelFacts) -> tuple[str | None, ModelFacts | None]:
    """Return the drafter's name, and its facts if it is a draft model."""
    needs, method = request.of_method.needs, request.method
    if needs is Needs.MODULE and (assistant := support.assistant_of(request)):
        return assistant, None
    if needs not in (Needs.MODEL, Needs.HEAD):
        return None, None
    if request.draft is not None and request.draft not in known_models():
        if needs is Needs.HEAD:
            support.check_head(request, request.draft)
        elif request.draft_model is None:
            raise refusal("draft", "unknown-draft", draft=request.draft)
        return request.draft, request.draft_model if needs is Needs.MODEL else None
    entry = entry_of(request.target)
    name = request.draft or (entry.drafters.get(method) if entry else None)
    if name is None:
        others = [each for each in entry.drafters if each in CAN[request.computes]] if entry else []
        instead = f" Published for it: {', '.join(others)}." if others else ""
        raise refusal("draft", "no-drafter", target=request.target, method=method, instead=instead)
    if needs is Needs.HEAD:
        support.check_head(request, name)
        return name, None
    model = known_models()[name]
    draft = model.in_format(target.format) or model.facts
    return draft.name, draft


class _Parts:
    """A request with its models: what all layouts share. Raises InvalidRequest for what cannot be
    combined."""

    def __init__(self, request: PlanRequest) -> None:
        support.check(request)
        self.request, method = request, request.of_method
        self.target, self.online = checkpoint_of(request)
        self.draft, self.draft_model = draft_of(request, self.target)
        depth = (request.depth or request.default_depth) if request.method != NONE else 0
        acceptance, fades, _ = acceptance_of(method, self.target.model_type)
        if request.acceptance is not None:
            acceptance, fades = request.acceptance, 1.0  # a given one is for all positions
        self._alone = Setup(
            of_model(self.target),
            drafter_for(method, self.target, self.draft is not None, self.draft_model, depth),
            request.gpus.kind,
            ALONE,
            depth,
            acceptance,
            request.context,
            KV_WIDTHS[request.kv_cache_dtype],
            fades,
            request.measured or 1.0,
            ENGINE_TABLE[request.computes].first_token,
        )

    def layouts(self) -> Iterator[tuple[Layout, Memory]]:
        """Yield every layout with the memory that it needs on a GPU."""
        request = self.request
        for layout in layouts(
            self.target,
            request.gpus,
            request.gpus.count if request.by_rate else request.users,
            support.pipelines(request),
            support.attends_apart(request),
        ):
            yield layout, self.memory(layout)

    def memory(self, layout: Layout, users: int | None = None) -> Memory:
        """Return the memory of a GPU for ``users`` of all copies. If not given: the request's, or one
        of each copy where a rate will say how many."""
        users = users or (layout.replicas if self.request.by_rate else self.request.users)
        return memory_of(self.setup(layout), self.target, layout.users(users))

    def setup(self, layout: Layout) -> Setup:
        return replace(self._alone, layout=layout)

    def best(self, fitting: list[tuple[Layout, Memory]]) -> tuple[Layout, Memory]:
        """Return the best layout: nearly the fastest, then small copies, then few stages."""
        users, depth = self.request.users, self._alone.depth
        speeds = {layout: self.setup(layout).of_all(users, depth) for layout, _ in fitting}
        enough = max(speeds.values()) / ALIKE

        def key(choice: tuple[Layout, Memory]) -> tuple[bool, int, int, float]:
            layout, speed = choice[0], speeds[choice[0]]
            return (speed < enough, layout.copy, layout.pipeline, -speed)

        return min(fitting, key=key)


def _does_not_fit(parts: _Parts) -> str:
    request = parts.request
    best = min((memory for _, memory in parts.layouts()), key=lambda memory: memory.needed)
    drafter = f", the drafter {_gb(best.drafter)}" if best.drafter else ""
    remedies = [text for text, other in _remedies(request) if fits(other)]
    advice = f" What would fit: {'; '.join(remedies)}." if remedies else " Nothing smaller would."
    return (
        f"{parts.target.id} in {parts.target.format} for {counted(request.users, 'user')} of "
        f"{request.context:,} tokens does not fit on {request.gpus}. The best layout "
        f"needs {_gb(best.needed)} per GPU, of which an engine can use "
        f"{_gb(best.available)}: weights {_gb(best.weights)}{drafter}, KV cache "
        f"{_gb(best.cache)}, work {_gb(best.work)}.{advice}"
    )


def _remedies(request: PlanRequest) -> Iterator[tuple[str, PlanRequest]]:
    """Yield single changes of the request with their names, each the smallest that fits."""
    counts = (count for power in range(1, 11) if (count := 2**power) > request.gpus.count)
    larger = (Gpus(request.gpus.kind, count) for count in counts if count <= MOST)
    choices = ((str(gpus), replace(request, gpus=gpus)) for gpus in larger)
    yield from islice((choice for choice in choices if fits(choice[1])), 1)
    now = request.target.format if request.quantization == AUTO else request.quantization
    for weights in (FP8, AWQ, NVFP4):
        if FORMATS[weights].width < FORMATS[now].width:
            yield f"weights in {weights}", replace(request, quantization=weights)
    if request.kv_cache_dtype == AUTO:
        yield "a KV cache in fp8", replace(request, kv_cache_dtype=FP8)
    users = largest(request.users, lambda users: fits(replace(request, users=users)))
    if users:
        yield counted(users, "user"), replace(request, users=users)
    least = request.targets.isl + request.targets.osl if request.targets else 0
    context = largest(
        request.context // CONTEXT_STEP,
        lambda parts: (
            parts * CONTEXT_STEP < least or fits(replace(request, context=parts * CONTEXT_STEP))
        ),
    )
    if context * CONTEXT_STEP >= max(least, 1):
        tokens = context * CONTEXT_STEP
        yield f"a context of {tokens:,} tokens", replace(request, context=tokens)
    if request.method != NONE:
        plain = replace(request, draft=None, draft_model=None, depth=None, acceptance=None, task=None,
                        method=NONE)  # fmt: skip
        yield "no drafts", plain


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
