"""Read the facts of a pair from headers, and choose its device and what of it is where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.backends.linear_factory import LinearFactory
from engine.drafting import heads as head_kinds
from engine.drafting.heads.base import HeadPlan
from engine.errors import IncompatiblePair, InvalidRequest
from engine.kernels.formats import AS_STORED, AUTO, FP8, UNQUANTISED
from engine.loading.files import PairFiles
from engine.loading.planning import fit
from engine.loading.planning.choices import Backend, why_no_fp8_cache
from engine.loading.planning.expected import expected, expected_head
from engine.loading.planning.model_plan import ModelPlan, plan_model
from engine.loading.planning.pairing import Compatibility, compare
from engine.loading.planning.placement import (
    place,
    placement_notes,
    that_fits,
    without_slower_draft,
)
from engine.loading.planning.sizes import PairSizes
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec
from engine.machine import device_memory, devices, threads
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.vision.plan import VisionPlan, vision_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFacts:
    """The facts of a pair from headers, before it is decided whether it fits.

    ``request`` is without what was left out. ``requested_plan`` is the target's by request and catalog;
    ``planned`` differs from it if that would not fit. ``requested_context``: tokens by the request, else
    the model; ``context_limit``: what it is given if that fits. ``free``: a GPU's free bytes; None for
    the machine's. ``placed``: what is on the CPU beside a GPU and what it costs, ``undrafted``: why heads
    or a draft do not draft, as sentences. ``vision``: as in ``LoadPlan``.
    """

    request: LoadRequest
    device: Device
    compatible: Compatibility
    requested_plan: ModelPlan
    planned: ModelPlan
    sizes: PairSizes
    requested_context: int
    context_limit: int
    free: int | None
    placed: tuple[str, ...]
    undrafted: tuple[str, ...]
    vision: VisionPlan | str

    def memory_fit(self, context: int | None = None) -> fit.MemoryFit:
        """Return the memory of ``planned`` with ``context`` tokens, by default ``context_limit``."""
        planned = self.planned
        return self.sizes.fit(
            planned.quantization, planned.kv_cache_dtype, context or self.context_limit, self.free
        )

    @property
    def where(self) -> str:
        """Where the target is computed, for people; "" on a machine that has no GPU."""
        if not self.device.is_gpu:
            return "on the CPU" if devices.has_driver() else ""
        layers, left = self.sizes.target.layers, self.sizes.host_layers
        return f"with {layers - left} of {layers} layers on the GPU" if left else "on the GPU"

    def instead(self, there: PairFacts | None, gpu: Device) -> PairFacts:
        """Return these facts, of the CPU, or those of the ``gpu`` if it is no worse there.

        ``there`` is None if the GPU does not have the format that was asked for.
        """
        here, least = self.memory_fit(), min(self.context_limit, fit.SHORTEST_CONTEXT)
        why, remedy = (
            "PyTorch operations there do not have this format",
            " and the quantization auto",
        )
        if there is not None:
            other, kind, remedy = there.memory_fit(), there.planned.quantization, ""
            if here.context < least:
                return there
            if other.context < least:
                why = "it does not fit there with PyTorch operations"
            elif kind in UNQUANTISED and self.planned.quantization == AS_STORED:
                why = f"PyTorch operations would widen its blocks to {kind} there"
            elif other.host is not None and other.host.weights >= here.weights:
                why = f"of its layers in {kind}, too many would be left on the CPU"
            else:
                return there
        lacks = gpu.lacks or "the GPU's kernels cannot run it"
        note = (
            f"{self.sizes.target.name} runs on the CPU: {lacks}, and {why}. To use the GPU anyway, "
            f"choose the device cuda{remedy}."
        )
        return replace(self, device=replace(self.device, notes=(*self.device.notes, note)))

    def saying(self, note: str) -> PairFacts:
        """Return these facts with a note before the others."""
        return replace(self, device=replace(self.device, notes=(note, *self.device.notes)))


def read_facts(
    files: PairFiles, request: LoadRequest, device: Device | None = None, *, replacing: bool = False
) -> PairFacts:
    """Read headers, and choose the ``device``: by ``auto`` the CPU where it is better than a GPU without
    kernels for the target. ``replacing``: what this process has on a GPU will be freed.

    Raises ModelError, IncompatiblePair, and InvalidRequest, but not for what is only remembered."""
    device, pairing, target = device or device_for(request), files.pairing, inspect(files.target)
    draft = None if files.draft is None else inspect(files.draft)
    compatible = Compatibility() if draft is None else compare(target, draft)
    if compatible.reason:
        raise IncompatiblePair(compatible.reason)
    heads = tuple(head_kinds.inspect(folder, target) for folder in pairing.heads)
    inside = head_kinds.inside(target)
    if isinstance(inside, HeadPlan):
        heads = (inside, *heads)
    _check_kinds(heads)
    vision = vision_of(target, pairing.target.name)
    note = inside if isinstance(inside, str) else None

    def on(asked: LoadRequest, device: Device) -> PairFacts:
        return _facts(
            pairing.target, target, draft, heads, asked, device, compatible,
            vision=vision, note=note, replacing=replacing,
        )  # fmt: skip

    found = _where_it_is_better(request, device, on)
    names = {files.target: pairing.target.name}
    if files.draft is not None and pairing.draft is not None:
        names[files.draft] = pairing.draft.name
    return replace(found, sizes=replace(found.sizes, names=names))


def expected_facts(specs: Sequence[ModelSpec], request: LoadRequest) -> PairFacts | None:
    """Return the facts of a target, and of a draft or heads after it, by the catalog, for a load in place
    of what this process has on the GPU; None without one, or if no family describes a model. Raises as
    ``read_facts``."""
    device = device_for(request)
    models = [expected(spec) for spec in specs if not spec.method] if device.is_gpu else []
    target, draft = (*models, None, None)[:2]
    if target is None or None in models:
        return None
    heads = tuple(expected_head(spec, target) for spec in specs if spec.method)
    return _where_it_is_better(
        request,
        device,
        lambda asked, device: _facts(
            specs[0], target, draft, heads, asked, device, Compatibility(), replacing=True
        ),
    )


_LEFT_OUT = "A remembered setting was left out: {}"


def device_for(request: LoadRequest) -> Device:
    """Return the device that ``request`` asks for. Raises InvalidRequest, but not for what is only
    remembered."""
    try:
        return devices.choose(
            request.device,
            native=request.native,
            cuda_graphs=request.cuda_graphs,
            threads=request.threads,
        )
    except InvalidRequest as refusal:
        if "device" not in request.remembered:
            raise
        device = device_for(request.without("device"))
        return replace(device, notes=(_LEFT_OUT.format(refusal), *device.notes))


def _where_it_is_better(
    request: LoadRequest, device: Device, plan: Callable[[LoadRequest, Device], PairFacts]
) -> PairFacts:
    """Return the facts for ``device``, or for the CPU, see ``read_facts``."""
    try:
        return _on_one(request, device, lambda device: plan(request, device))
    except InvalidRequest as refusal:
        if refusal.field not in request.remembered:
            raise
        note, left = _LEFT_OUT.format(refusal), request.without(refusal.field)
    return _where_it_is_better(left, device, plan).saying(note)


def _on_one(request: LoadRequest, device: Device, plan: Callable[[Device], PairFacts]) -> PairFacts:
    on_gpu = request.gpu_layers is not None or request.draft_device == "cuda"
    if request.device != AUTO or not device.is_gpu or on_gpu:
        return plan(device)
    try:
        there = plan(device)
    except InvalidRequest as refusal:  # of a format that may need kernels, or a CPU
        try:
            return plan(device.cpu).instead(None, device)
        except InvalidRequest:
            raise refusal from None
    if there.planned.backend is Backend.CUDA:
        return there
    return plan(device.cpu).instead(there, device)


def _facts(
    spec: ModelSpec, target: Checkpoint, draft: Checkpoint | None, heads: tuple[HeadPlan, ...],
    request: LoadRequest, device: Device, compatible: Compatibility, *,
    vision: VisionPlan | str = "", note: str | None = None, replacing: bool,
) -> PairFacts:  # fmt: skip
    """Return what is decided for ``device``. ``note``: why what the target brings does not draft."""
    if device.threads is None:
        size = target.bytes + (0 if draft is None else draft.bytes)
        device = replace(device, threads=threads.for_weights(size))
    requested_plan, name = _plan_target(target, device, spec, request), spec.name
    linear_factory = _linear_factory(requested_plan)
    if isinstance(vision, VisionPlan) and requested_plan.backend is Backend.TRANSFORMERS:
        vision = (
            f"{name} cannot see images here: it runs by transformers, which accept tokens only. Load "
            "it on the device 'cpu'."
        )
    tower = vision if isinstance(vision, VisionPlan) else None
    sizes = PairSizes(target, draft, heads, linear_factory, device, request.checkpoint_mb, tower)
    requested_context = min(target.context, request.context or target.context)
    context_limit = fit.context_limit(target.context, request.context)
    planned = requested_plan
    free = device_memory.gpu_free_bytes(device.torch_device)
    if replacing and free is not None:
        free += device_memory.gpu_held_bytes(device.torch_device)
    if request.quantization == spec.quantization == AUTO:
        planned = that_fits(requested_plan, sizes, request, context_limit, free)
        sizes = replace(sizes, linear_factory=_linear_factory(planned))
    sizes = place(sizes, planned, request, context_limit, free)
    sizes, why = without_slower_draft(sizes, planned, request)
    if sizes.vision is None and isinstance(vision, VisionPlan):
        vision = (
            f"{name} cannot see images here: its layers and its vision tower do not all fit on the "
            "GPU. Load it in fewer bits or with a shorter context."
        )
    if len(sizes.heads) < len(heads):
        note = (
            f"The heads of {name} do not draft: they need all of its layers on the GPU, and memory of "
            "their own. Load it in fewer bits or with a shorter context."
        )
    placed = placement_notes(sizes, planned, request, context_limit, free)
    return PairFacts(
        request=request,
        device=device,
        compatible=compatible,
        requested_plan=requested_plan,
        planned=planned,
        sizes=sizes,
        requested_context=requested_context,
        context_limit=context_limit,
        free=free,
        placed=tuple(placed),
        undrafted=tuple(filter(None, (note, why))),
        vision=vision,
    )


def _linear_factory(target: ModelPlan) -> LinearFactory:
    """Return what makes the linear layers of the target's heads."""
    on_kernels = target.backend is Backend.CUDA
    return LinearFactory.choose(target.compute, target.device, triton=on_kernels)


def _plan_target(
    target: Checkpoint, device: Device, preferred: ModelSpec, request: LoadRequest
) -> ModelPlan:
    """Return the target's plan as requested, else as the catalog prefers, with fp8 if possible."""
    quantization = request.quantization if request.quantization != AUTO else preferred.quantization
    plan = plan_model(target, device, quantization, kv_cache_dtype=request.kv_cache_dtype)
    narrower = request.kv_cache_dtype == AUTO and preferred.kv_cache_dtype == FP8
    if narrower and why_no_fp8_cache(target, plan.quantization, device) is None:
        return replace(plan, kv_cache_dtype=FP8)
    return plan


def _check_kinds(heads: Sequence[HeadPlan]) -> None:
    known: dict[str, HeadPlan] = {}
    for head in heads:
        other = known.setdefault(head.kind, head)
        if other is not head:
            raise IncompatiblePair(
                f"{other.name} and {head.name} are heads of the same kind ({head.kind}), and "
                "only one can be loaded. Leave one out."
            )
