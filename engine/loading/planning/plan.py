"""Plan a load: decide everything once, from headers, before anything large is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.backends.linear_factory import LinearFactory
from engine.drafting import heads as head_kinds
from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap
from engine.drafting.heads.base import HeadPlan
from engine.errors import IncompatiblePair, OutOfMemory
from engine.kernels.formats import AS_STORED, AUTO, FP8, UNQUANTISED
from engine.loading.files import PairFiles
from engine.loading.planning import fit
from engine.loading.planning.choices import (
    Backend,
    could_be_compiled,
    draft_quantization,
    draft_rounding,
    quantization_note,
    quantizations,
    why_no_fp8_cache,
)
from engine.loading.planning.model_plan import ModelPlan, plan_model
from engine.loading.planning.pairing import Compatibility, caution, compare, vocabularies
from engine.loading.planning.sizes import PairSizes
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec
from engine.machine import compilers, device_memory, devices, memory
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint, inspect

DEFAULT_PARALLEL = 4
"""Requests at once by default: caches are allocated whole, and most people are alone on their machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How to load a target and what drafts for it, all of which fit each other and this machine.

    Loading decides nothing again. Only the target has the requested ``kv_cache_dtype``: a narrower cache
    would cost drafts and heads acceptance. ``vocabularies`` is None if the draft has the target's.
    ``products`` are for the heads. ``room``: the memory for ``wanted`` tokens of context. ``notes`` are
    sentences for people. ``waits_for_native``: the target would run in the compiled step once that is
    built. ``parallel``: how many requests run at once, each with its own caches.
    """

    files: PairFiles
    place: Device
    target: ModelPlan
    draft: ModelPlan | None
    vocabularies: VocabularyMap | None
    heads: tuple[HeadPlan, ...]
    products: LinearFactory
    sizes: PairSizes
    wanted: int
    room: fit.MemoryFit
    notes: tuple[str, ...]
    waits_for_native: bool
    parallel: int = 1

    @property
    def footprint(self) -> dict[str, int]:
        """Bytes of weights and caches, by what needs them; see ``PairSizes.footprint``."""
        target = self.target
        return self.sizes.footprint(target.quantization, target.kv_cache_dtype, target.context)

    def ran_out(self, doing: str, *, loaded: bool) -> str:
        """Return the message for memory that ran out while ``doing``, despite the plan.

        ``loaded``: the pair is in memory already, so its own bytes count as free.
        """
        target = self.target
        gpu = device_memory.gpu_free_bytes(self.place.device)
        free = memory.free_bytes() if gpu is None else gpu
        own = self.room.weights + self._kv() if loaded else 0
        room = self.sizes.fit(
            target.quantization, target.kv_cache_dtype, target.context, free + own
        )
        where = "Memory" if gpu is None else "The GPU's memory"
        message = f"{where} ran out while {doing}. {room.sentence}"
        if not room.fits:
            return message
        return (
            f"{message} By that it fits: another program may have taken memory meanwhile, or the work "
            f"needed more than was reckoned. Load the pair again{self._smaller()}; its context is "
            "chosen by what is free then."
        )

    def _smaller(self) -> str:
        """Return what follows "Load the pair again": how the target would take less, or ""."""
        quantization = self.target.quantization
        narrowest = quantizations(self.target.checkpoint, self.target.place)[-1]
        if quantization != narrowest:
            return f", in {narrowest} if it comes back"
        return ", from a file in fewer bits if it comes back" if quantization == AS_STORED else ""

    def _kv(self) -> int:
        """Return the bytes of the caches as they were allocated."""
        return self.room.kv * self.target.context // self.wanted if self.wanted else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The facts of a pair from headers, before it is decided whether it fits.

    The target as ``suited`` by request and catalog, and as ``planned`` if that would not fit. ``asked``
    and ``wanted`` are tokens of context: of the model or the request, and of the default limit. ``free``:
    a GPU's free bytes; None for the machine's.
    """

    place: Device
    compatible: Compatibility
    suited: ModelPlan
    planned: ModelPlan
    sizes: PairSizes
    asked: int
    wanted: int
    free: int | None

    def room(self, context: int | None = None) -> fit.MemoryFit:
        """Return the memory that ``planned`` needs with ``context`` tokens, by default ``wanted``."""
        planned = self.planned
        return self.sizes.fit(
            planned.quantization, planned.kv_cache_dtype, context or self.wanted, self.free
        )


def survey(files: PairFiles, request: LoadRequest) -> Survey:
    """Read headers. Raises ModelError, IncompatiblePair and InvalidRequest."""
    place = devices.choose(
        request.device,
        native=request.native,
        cuda_graphs=request.cuda_graphs,
        threads=request.threads,
    )
    target = inspect(files.target)
    draft = None if files.draft is None else inspect(files.draft)
    compatible = Compatibility() if draft is None else compare(target, draft)
    if compatible.reason:
        raise IncompatiblePair(compatible.reason)
    suited = _plan_target(target, place, files.pairing.target, request)
    heads = tuple(head_kinds.inspect(folder, target) for folder in files.pairing.heads)
    _check_kinds(heads)

    products = LinearFactory.choose(suited.compute, place)
    sizes = PairSizes(target, draft, heads, products, place)
    asked = min(target.context, request.context or target.context)
    wanted = min(asked, fit.LONGEST_CONTEXT)
    planned = suited
    if _auto(request, files.pairing.target) and place.device.type == "cpu":
        planned = _that_fits(suited, sizes, wanted, min(wanted, fit.SHORTEST_CONTEXT))
        sizes = replace(sizes, products=LinearFactory.choose(planned.compute, place))
    return Survey(
        place=place,
        compatible=compatible,
        suited=suited,
        planned=planned,
        sizes=sizes,
        asked=asked,
        wanted=wanted,
        free=device_memory.gpu_free_bytes(place.device),
    )


def plan_loading(
    files: PairFiles,
    request: LoadRequest,
    earlier: LoadPlan | None = None,
) -> LoadPlan:
    """Return the plan for a pair. Reads headers and tokenizers; allocates nothing large.

    ``earlier``: the plan of the same pair before; its quantization and context stay.
    Raises ModelError, IncompatiblePair, InvalidRequest, OutOfMemory.
    """
    if earlier is not None:
        # Not "auto" again: it may choose another one once a step is compiled, and with it other words.
        request = replace(request, quantization=earlier.target.quantization)
    pair = survey(files, request)
    place, sizes, planned, suited = pair.place, pair.sizes, pair.planned, pair.suited
    target, draft, heads = sizes.target, sizes.draft, tuple(sizes.heads)
    asked, wanted, free = pair.asked, pair.wanted, pair.free
    most, least = wanted, min(wanted, fit.SHORTEST_CONTEXT)
    quantization, cached = planned.quantization, planned.kv_cache_dtype
    room = pair.room()
    if earlier is not None:
        most = least = earlier.target.context
    context = min(most, room.context)
    if context < least:
        raise OutOfMemory(room.sentence)

    notes = [*place.notes, quantization_note(quantization, target, planned.place)]
    if quantization != suited.quantization:
        notes.append(
            f"In {suited.quantization} it would not fit in memory, so it is in {quantization}."
        )
    notes.append(None if draft is None else caution(target, draft))
    way = pair.compatible.cross_vocabulary
    notes.append(way and f"The draft works {way}.")
    notes += [head.note for head in heads]
    waits = planned.backend is Backend.TORCH and could_be_compiled(
        target, quantization, planned.place
    )
    if waits and not compilers.found():
        notes.append(str(compilers.NoCompiler()))
    if context < asked:
        cause = "more does not fit in memory" if context < wanted else "caches are allocated whole"
        notes.append(
            f"The context is {context:,} of the model's {target.context:,} tokens: {cause}."
        )
    if context < wanted and cached != FP8 and why_no_fp8_cache(target, quantization, place) is None:
        longer = min(wanted, sizes.fit(quantization, FP8, wanted, free).context)
        notes.append(f"With the KV cache in fp8 it would be {longer:,}.")
    parallel, why_fewer = _parallel(planned, request.parallel, pair.room(context), waits=waits)
    notes.append(why_fewer)
    return LoadPlan(
        files=files,
        place=place,
        target=replace(planned, context=context),
        draft=None if draft is None else _plan_draft(draft, place, quantization, context),
        vocabularies=None if draft is None else vocabularies(target, draft),
        heads=heads,
        products=sizes.products,
        sizes=sizes,
        wanted=wanted,
        room=room,
        notes=tuple(note for note in notes if note),
        waits_for_native=waits,
        parallel=parallel,
    )


def _parallel(
    target: ModelPlan, wanted: int | None, room: fit.MemoryFit, *, waits: bool = False
) -> tuple[int, str | None]:
    """Return how many requests may run at once, and why fewer than ``wanted``, as a sentence or None.

    ``room`` is the memory with the caches of one. ``waits``: the compiled step is not built yet.
    """
    if target.backend is not Backend.NATIVE:
        if wanted in {None, 1} or waits:
            return 1, None
        return 1, (
            f"Requests run one after the other, not {wanted} at once: only the step compiled for a "
            "processor runs several together."
        )
    left = max(room.free - room.needed, 0)
    if wanted is None:
        left //= 2  # nobody asked for it, so much stays free
    most = 1 + left // room.kv if room.kv else DEFAULT_PARALLEL
    count = min(wanted or DEFAULT_PARALLEL, most)
    if wanted is None or count == wanted:
        return count, None
    return count, (
        f"{wanted} requests at once were asked for, and the caches of {count} fit in memory: the others "
        "wait. A shorter context leaves room for more."
    )


def _plan_draft(draft: Checkpoint, place: Device, quantization: str, context: int) -> ModelPlan:
    """Return the plan of a draft beside a target in ``quantization``."""
    own = draft_quantization(draft, quantization, place)
    planned = plan_model(draft, place, own, context=context)
    return replace(planned, rounded=draft_rounding(draft, own, place))


def _plan_target(
    target: Checkpoint, place: Device, preferred: ModelSpec, request: LoadRequest
) -> ModelPlan:
    """Return the target's plan as requested, else as the catalog prefers; its fp8 cache only if
    possible."""
    quantization = request.quantization if request.quantization != AUTO else preferred.quantization
    plan = plan_model(target, place, quantization, kv_cache_dtype=request.kv_cache_dtype)
    narrower = request.kv_cache_dtype == AUTO and preferred.kv_cache_dtype == FP8
    if narrower and why_no_fp8_cache(target, plan.quantization, place) is None:
        return replace(plan, kv_cache_dtype=FP8)
    return plan


def _that_fits(suited: ModelPlan, sizes: PairSizes, wanted: int, least: int) -> ModelPlan:
    """Return ``suited`` if it leaves memory for ``least`` of the ``wanted`` tokens of context, else
    the target in the most bits that does, else ``suited``. Never bf16: int8 is smaller and as fast."""

    def context(kind: str) -> int:
        return sizes.fit(kind, suited.kv_cache_dtype, wanted, None).context

    target, place = suited.checkpoint, suited.place
    others = (kind for kind in quantizations(target, place) if kind not in UNQUANTISED)
    kind = fit.widest((suited.quantization, *others), context, least)
    if kind == suited.quantization:
        return suited
    return plan_model(target, place, kind, kv_cache_dtype=suited.kv_cache_dtype)


def _auto(request: LoadRequest, preferred: ModelSpec) -> bool:
    """Return whether neither ``request`` nor the catalog names the target's quantization."""
    return request.quantization == preferred.quantization == AUTO


def _check_kinds(heads: Sequence[HeadPlan]) -> None:
    known: dict[str, HeadPlan] = {}
    for head in heads:
        other = known.setdefault(head.kind, head)
        if other is not head:
            raise IncompatiblePair(
                f"Both {other.name} and {head.name} are heads of kind {head.kind}, and one of a kind "
                "can be loaded at a time. Leave one out."
            )
