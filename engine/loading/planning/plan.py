"""Plan a load: decide everything once, from headers, before anything large is allocated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.drafting.cross_vocabulary.token_table import VocabularyMap
from engine.drafting.heads.base import HeadPlan
from engine.errors import OutOfMemory
from engine.kernels.formats import AS_STORED, FP8
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
from engine.loading.planning.facts import read_facts
from engine.loading.planning.model_plan import ModelPlan, plan_model
from engine.loading.planning.pairing import caution, vocabularies
from engine.loading.planning.placement import host_plan, lacks_step
from engine.loading.planning.sizes import PairSizes
from engine.loading.request import LoadRequest
from engine.machine import compilers, device_memory, memory
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.vision.plan import VisionPlan

DEFAULT_PARALLEL = 4
"""Requests at once by default: caches are allocated whole, and most people are alone on their machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How to load a target and what drafts for it, all of which fit each other and this machine.

    Loading decides nothing again. Only the target has the requested ``kv_cache_dtype``: a narrower cache
    would cost drafts and heads acceptance. ``vocabularies`` is None if the draft has the target's.
    ``memory_fit``: the memory for ``context_limit`` tokens of context. ``notes`` are sentences for
    people. ``waits_for_native``: the target would run in the compiled step once that is built;
    ``lacks_step``: the draft would, on the CPU beside a GPU. ``parallel``: how many requests run at
    once, each with its own caches. ``vision``: the target's tower, or why it sees no images.
    """

    files: PairFiles
    device: Device
    target: ModelPlan
    draft: ModelPlan | None
    vocabularies: VocabularyMap | None
    heads: tuple[HeadPlan, ...]
    sizes: PairSizes
    context_limit: int
    memory_fit: fit.MemoryFit
    notes: tuple[str, ...]
    waits_for_native: bool
    lacks_step: bool = False
    parallel: int = 1
    vision: VisionPlan | str = ""

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
        gpu = device_memory.gpu_free_bytes(self.device.torch_device)
        free = memory.free_bytes() if gpu is None else gpu
        own = self.memory_fit.weights + self._kv() if loaded else 0
        memory_fit = self.sizes.fit(
            target.quantization, target.kv_cache_dtype, target.context, free + own
        )
        where = "Memory" if gpu is None else "The GPU's memory"
        message = f"{where} ran out while {doing}. {memory_fit.sentence}"
        if not memory_fit.fits:
            return message
        return (
            f"{message} It should have fitted: another program may have taken memory "
            "meanwhile, or more was needed than estimated. Load the model "
            f"again{self._smaller()}; the context is chosen by the memory free then."
        )

    def _smaller(self) -> str:
        """Return what follows "Load the pair again": how the target would take less, or ""."""
        quantization = self.target.quantization
        narrowest = quantizations(self.target.checkpoint, self.target.device)[-1:]
        if narrowest not in {(), (quantization,)}:
            return f", in {narrowest[0]} if it happens again"
        return (
            ", from a file with fewer bits if it happens again" if quantization == AS_STORED else ""
        )

    def _kv(self) -> int:
        """Return the bytes of the caches as they were allocated."""
        limit = self.context_limit
        return self.memory_fit.kv * self.target.context // limit if limit else 0


def plan_loading(
    files: PairFiles,
    request: LoadRequest,
    earlier: LoadPlan | None = None,
    *,
    replacing: bool = False,
) -> LoadPlan:
    """Return the plan for a pair. Reads headers and tokenizers; allocates nothing large.

    ``earlier``: the plan of the same pair before; its quantization and context stay. ``replacing``: as in
    ``read_facts``. Raises ModelError, IncompatiblePair, InvalidRequest, OutOfMemory.
    """
    if earlier is not None:
        # Not "auto" again: it may choose another one once a step is compiled, and with it other words.
        request = replace(request, quantization=earlier.target.quantization)
    on = None if earlier is None else earlier.device
    pair = read_facts(files, request, on, replacing=replacing)
    request, device, sizes = pair.request, pair.device, pair.sizes
    planned, requested_plan = pair.planned, pair.requested_plan
    target, draft, heads = sizes.target, sizes.draft, tuple(sizes.heads)
    requested_context, context_limit, free = pair.requested_context, pair.context_limit, pair.free
    most, least = context_limit, min(context_limit, fit.SHORTEST_CONTEXT)
    quantization, cached = planned.quantization, planned.kv_cache_dtype
    memory_fit = pair.memory_fit()
    if earlier is not None:
        most = least = earlier.target.context
    context = min(most, memory_fit.context)
    if context < least:
        raise OutOfMemory(memory_fit.sentence)

    notes = [*device.notes, quantization_note(quantization, target, planned.device)]
    if quantization != requested_plan.quantization:
        notes.append(
            f"{requested_plan.quantization} would not fit in memory, so {quantization} is used."
        )
    notes += pair.placed
    notes.append(None if draft is None else caution(target, draft))
    way = pair.compatible.cross_vocabulary
    notes.append(f"The draft has a {way}." if way and draft else None)
    notes += [*pair.undrafted, *(head.note for head in heads)]
    waits = planned.backend is Backend.TORCH and could_be_compiled(
        target, quantization, planned.device
    )
    planned_draft = (
        None if draft is None else _plan_draft(sizes, draft, request, quantization, context)
    )
    host = host_plan(sizes, planned, context)
    lacking = lacks_step(sizes, planned_draft, host)
    if (waits or lacking) and not compilers.found():
        notes.append(str(compilers.NoCompiler()))
    if context < requested_context:
        cause = (
            "more does not fit in memory"
            if context < context_limit
            else "load it with a longer context for more"
        )
        notes.append(
            f"The context is {context:,} of the model's {target.context:,} tokens: {cause}."
        )
    elif request.context and request.context > target.context:
        notes.append(request.no_more(context))
    if (
        context < context_limit
        and cached != FP8
        and why_no_fp8_cache(target, quantization, device) is None
    ):
        longer = min(context_limit, sizes.fit(quantization, FP8, context_limit, free).context)
        notes.append(f"With an fp8 KV cache it would be {longer:,}.")
    planned_target = replace(
        planned,
        context=context,
        checkpoint_mb=request.checkpoint_mb,
        host=host and replace(host, checkpoint_mb=request.checkpoint_mb),
        host_layers=sizes.host_layers,
    )
    parallel, why_fewer = _parallel(
        planned_target, request.parallel, pair.memory_fit(context), waits=waits
    )
    notes.append(why_fewer)
    return LoadPlan(
        files=files,
        device=device,
        target=planned_target,
        draft=planned_draft,
        vocabularies=None if draft is None else vocabularies(target, draft),
        heads=heads,
        sizes=sizes,
        context_limit=context_limit,
        memory_fit=memory_fit,
        notes=tuple(note for note in dict.fromkeys(notes) if note),
        waits_for_native=waits,
        lacks_step=lacking,
        parallel=parallel,
        vision=pair.vision,
    )


def _parallel(
    target: ModelPlan, requested: int | None, memory_fit: fit.MemoryFit, *, waits: bool = False
) -> tuple[int, str | None]:
    """Return how many requests may run at once, and why fewer than ``requested``, as a sentence or None.

    ``memory_fit`` is the memory with the caches of one. ``waits``: the compiled step is not built yet.
    """
    # On a GPU, where a pass for several is no graph, only if somebody asks.
    if target.host is not None and requested not in {None, 1}:
        return 1, (
            f"Requests run one at a time instead of {requested}: some of the target's layers are on the "
            "CPU."
        )
    if target.backend is not Backend.NATIVE and (requested in {None, 1} or waits):
        return 1, None
    if target.backend not in {Backend.NATIVE, Backend.CUDA}:
        return 1, (
            f"Requests run one at a time instead of {requested}: only the compiled "
            "kernels and those for NVIDIA GPUs run several together."
        )
    more = memory_fit.more_requests(1 if requested else 2)  # unasked, half of it stays free
    count = min(requested or DEFAULT_PARALLEL, 1 + more)
    if requested is None or count == requested:
        return count, None
    return count, (
        f"Of {requested} parallel requests, {count} fit in memory; the others wait. A "
        "shorter context leaves room for more."
    )


def _plan_draft(
    sizes: PairSizes, draft: Checkpoint, request: LoadRequest, quantization: str, context: int
) -> ModelPlan:
    """Return the plan of the draft beside a target in ``quantization``."""
    device = sizes.draft_device or sizes.device
    own = draft_quantization(draft, quantization, device)
    planned = plan_model(draft, device, own, context=context)
    rounded = draft_rounding(draft, own, device)
    return replace(planned, rounded=rounded, checkpoint_mb=request.checkpoint_mb)
