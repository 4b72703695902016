"""What is to be loaded, and how: decided from headers, before anything large is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.drafting import heads as head_kinds
from engine.drafting.cross_vocabulary.vocabulary_map import VocabularyMap
from engine.drafting.heads.base import HeadPlan
from engine.drafting.heads.products import Products
from engine.errors import IncompatiblePair, OutOfMemory
from engine.loading import fit as memory
from engine.loading.loader import (
    check_kv_cache,
    choose_dtype,
    compute_dtype,
    draft_dtype,
    packs,
    quantisation_note,
    quantisations,
    why_no_fp8_cache,
)
from engine.loading.pairing import Compatibility, caution, fit, vocabularies
from engine.machine import device_memory, devices
from engine.models.checkpoints.checkpoint import AUTO, FP8, Checkpoint, inspect
from engine.models.hidden_states import joined

_NAMES = {"fp32": "float32", "bf16": "bfloat16"}
"""How memory.py calls what tensors are kept in."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How to load a target and what drafts for it, all of which fit each other and this machine.

    ``kv_cache_dtype``: of the target's cache, auto or fp8; those of drafts and heads are not narrowed,
    for it costs them acceptance. ``vocabularies`` is None where the draft has the target's.
    ``products`` are for the heads.
    ``asked`` and ``fit``: the longest context that was wanted, and what was reckoned for it.
    ``notes`` are sentences for people.
    """

    target: Checkpoint
    draft: Checkpoint | None
    dtype: str
    kv_cache_dtype: str
    draft_dtype: str
    vocabularies: VocabularyMap | None
    heads: tuple[HeadPlan, ...]
    products: Products
    asked: int
    fit: memory.MemoryFit
    notes: tuple[str, ...]

    @property
    def context(self) -> int:
        """Tokens for which memory is taken."""
        return min(self.asked, self.fit.context)

    def ran_out(self, doing: str, *, loaded: bool) -> str:
        """What to say when memory runs out nevertheless while ``doing``.

        ``loaded``: the pair is there already, so what it takes is counted as free for it.
        """
        gpu = device_memory.gpu_free_bytes()
        free = memory.free_bytes() if gpu is None else gpu
        held = self.fit.weights + self._kv() if loaded else 0
        found = _fit(
            self.target, self.draft, self.heads, self.products, self.dtype, self.kv_cache_dtype,
            self.context, free + held, gpu is not None,
        )  # fmt: skip
        where = "Memory" if gpu is None else "The GPU's memory"
        said = f"{where} ran out while {doing}. {found.sentence}"
        if not found.fits:
            return said
        narrower = quantisations(self.target)[-1]
        other = "" if narrower == self.dtype else f", in {narrower} if it comes back"
        return (
            f"{said} By that it fits: another program may have taken memory meanwhile, or the work "
            f"needed more than was reckoned. Load the pair again{other}; its context is chosen by "
            "what is free then."
        )

    def _kv(self) -> int:
        """Bytes of the caches as they were made."""
        return self.fit.kv * self.context // self.asked if self.asked else 0


def plan_loading(
    target: Path,
    draft: Path | None,
    heads: Sequence[Path],
    dtype: str,
    kv_cache_dtype: str = AUTO,
) -> LoadPlan:
    """Checks everything that can be known before anything large is allocated.

    Raises ModelError, IncompatiblePair, InvalidRequest, OutOfMemory.
    """
    ours = inspect(target)
    theirs = None if draft is None else inspect(draft)
    pairing = Compatibility() if theirs is None else fit(ours, theirs)
    if pairing.reason:
        raise IncompatiblePair(pairing.reason)
    kind = choose_dtype(ours, dtype)
    cached = check_kv_cache(ours, kind, kv_cache_dtype)
    draft_kind = kind if theirs is None else draft_dtype(theirs, kind)
    products = Products.choose(compute_dtype(ours, kind))
    plans = tuple(head_kinds.inspect(folder, ours) for folder in heads)
    _check_kinds(plans)

    asked = min(ours.context, memory.LONGEST_CONTEXT)
    gpu = device_memory.gpu_free_bytes()

    def room_in(cache: str) -> memory.MemoryFit:
        return _fit(ours, theirs, plans, products, kind, cache, asked, gpu, gpu is not None)

    room = room_in(cached)
    context = min(asked, room.context)
    if context < min(asked, memory.SHORTEST_CONTEXT):
        raise OutOfMemory(room.sentence)
    notes = [
        *devices.choose().notes,
        quantisation_note(kind, ours),
        None if theirs is None else caution(ours, theirs),
    ]
    notes.append(pairing.across and f"The draft works {pairing.across}.")
    notes += [plan.note for plan in plans]
    if context < ours.context:
        cause = "more does not fit in memory" if context < asked else "caches are allocated whole"
        notes.append(f"The context is {context:,} of the model's {ours.context:,} tokens: {cause}.")
    if context < asked and cached != FP8 and why_no_fp8_cache(ours, kind) is None:
        longer = min(asked, room_in(FP8).context)
        notes.append(f"With kv_cache_dtype fp8 it would be {longer:,}.")
    told = tuple(note for note in notes if note)
    different = None if theirs is None else vocabularies(ours, theirs)
    return LoadPlan(
        ours, theirs, kind, cached, draft_kind, different, plans, products, asked, room, told
    )


def preferred_kv_cache(target: Path, dtype: str, preferred: str) -> str:
    """``preferred`` where the model, with weights in ``dtype``, can have its KV cache so, else auto.

    Raises ModelError, InvalidRequest.
    """
    if preferred != FP8:
        return preferred
    ours = inspect(target)
    return FP8 if why_no_fp8_cache(ours, choose_dtype(ours, dtype)) is None else AUTO


def kv_cache_of(checkpoint: Checkpoint, kind: str, asked: str) -> str:
    """What the cache of a model in ``kind`` is kept in, auto resolved: fp32, bf16 or fp8."""
    return FP8 if asked == FP8 else compute_dtype(checkpoint, kind)


def footprint(
    target: Path,
    draft: Path | None,
    heads: Sequence[Path],
    dtype: str,
    context: int,
    kv_cache_dtype: str = AUTO,
) -> dict[str, int]:
    """Bytes of weights and caches, estimated, with ``context`` tokens: of the ``target``, and of each
    thing that proposers may need (``draft``, a kind of head). Raises ModelError."""
    ours = inspect(target)
    theirs = None if draft is None else inspect(draft)
    kind = choose_dtype(ours, dtype)
    products = Products.choose(compute_dtype(ours, kind))
    plans = tuple(head_kinds.inspect(folder, ours) for folder in heads)
    names = ("target", *(("draft",) if draft else ()), *(plan.kind for plan in plans))
    sizes = _sizes(ours, theirs, plans, products, kind, kv_cache_dtype)
    return {
        # Sizes tell how they are held, so the dtype named here is none that counts.
        name: size.weight_bytes("float32")
        + min(size.context, context) * size.kv_bytes_per_token("float32")
        for name, size in zip(names, sizes, strict=True)
    }


def _check_kinds(plans: Sequence[HeadPlan]) -> None:
    known: dict[str, HeadPlan] = {}
    for plan in plans:
        other = known.setdefault(plan.kind, plan)
        if other is not plan:
            raise IncompatiblePair(
                f"Both {other.name} and {plan.name} are heads of kind {plan.kind}, and one of a kind "
                "can be loaded at a time. Leave one out."
            )


def _fit(
    target: Checkpoint,
    draft: Checkpoint | None,
    heads: Sequence[HeadPlan],
    products: Products,
    kind: str,
    cached: str,
    context: int,
    free: int | None,
    gpu: bool,
) -> memory.MemoryFit:
    """``free`` None asks the machine."""

    def sizes(of: str) -> list[memory.ModelSize]:
        return _sizes(target, draft, heads, products, of, cached)

    return memory.fit(
        *sizes(kind),
        context=context,
        free=free,
        instead={other: sizes(other) for other in quantisations(target)},
        gpu=gpu,
    )


def _sizes(
    target: Checkpoint,
    draft: Checkpoint | None,
    heads: Sequence[HeadPlan],
    products: Products,
    kind: str,
    cached: str,
) -> list[memory.ModelSize]:
    """What the models of a pair will take, the target in ``kind`` with its KV cache in ``cached``."""
    drafting = [] if draft is None else [_size(draft, draft_dtype(draft, kind))]
    taps = joined(tap for plan in heads for tap in plan.taps)
    ours = replace(_size(target, kind), features=len(taps) * target.hidden)
    if cached == FP8:
        ours = replace(ours, cache=memory.FLOAT8)
    return [ours, *drafting, *(_head_size(plan, products, target.context) for plan in heads)]


def _head_size(plan: HeadPlan, products: Products, context: int) -> memory.ModelSize:
    """What a head will take; a cache of its own is in float32."""
    weights = _NAMES.get(products.kind, products.kind)
    return memory.ModelSize(
        plan.name,
        plan.parameters,
        plan.layers,
        plan.kv_heads,
        plan.head_dim,
        context,
        weights=weights,
        cache=_NAMES["fp32"],
    )


def _size(checkpoint: Checkpoint, kind: str) -> memory.ModelSize:
    """What the model will take, its weights held as ``kind``."""
    cache = _NAMES[compute_dtype(checkpoint, kind)]
    weights = kind if kind in memory.QUANTISED_WIDTHS else cache
    size = memory.ModelSize.of(checkpoint, weights, cache)
    return size if packs(checkpoint) else replace(size, repeated=0)
