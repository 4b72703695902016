"""Whether models fit into memory, and with how much context, by their sizes alone.

Counts weights and KV caches of target and draft, and what threads, kernels and graphs work in. Never
imports torch: the caller passes a GPU's free bytes (engine/machine/device_memory.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.backends.cuda import PASS_GRAPHS, RUNNERS, kept_graphs
from engine.loading.planning.model_size import ModelSize
from engine.machine import memory
from engine.machine.threads import default as default_threads
from engine.values import MAX_ROWS
from engine.values.memory import largest
from engine.values.units import format_bytes

TARGET, DRAFT = "target", "draft"
"""The roles of models; those of heads are their kinds."""

SMALL = 100_000_000
"""Parameters up to which fp32 is as fast as bf16: in torch, calls take the time; in the compiled step the
weights stay in the processor's caches."""

BLOCKS_WIDTH = 1.05
"""Bytes of blocks as the compiled step keeps them for each byte of a GGUF file's."""

DEFAULT_CONTEXT = 32_768
"""Tokens of context, at most, unless a request asks for more: caches are allocated whole."""

SHORTEST_CONTEXT = 512
"""A pair that leaves less context is refused."""

ENOUGH_CONTEXT = 4096
"""Tokens of context that a file or a draft must leave, if the model has as many."""

OVERHEAD = 300_000_000
"""Bytes of interpreter, libraries and activations."""

TOKEN_BYTES = 430
"""Bytes of a token in headers and tokenizer, measured with two vocabularies of 151,936 tokens."""

GPU_OVERHEAD = 500_000_000
"""The kernels' code, cuBLAS's own buffers, what layers leave of a part of a prompt (105 MB for the
widest product of a 32B model), and what the allocator cannot fill."""

GPU_POOL_BYTES = 24_000_000
"""Memory in which all CUDA graphs of a sequence work, one after the other: the first of depth 5 took 21
to 23 MB on an H200, one of torch's parts of 20 MiB and some (docs/results/nvidia-h200-2026-11-26.md)."""

GPU_PASS_BYTES = 1_000_000
"""The driver's memory for each pass of a model in a graph: 16 graphs of a step, of 245 launches, took 0
to 12.6 MB there. Before CUDA 12.4 (driver 550) a launch took 64 kB (PyTorch's documentation)."""

GPU_HEAD_BYTES = GPU_PASS_BYTES // 10
"""The same for a step of a head, which has one layer of some dozens: 20 launches."""


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one model's weights, and of its cache with the asked context. ``saved``: what of the cache
    saved states may take. ``on_host``: as in ``ModelSize``."""

    name: str
    weights: int
    kv: int
    saved: int
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Whether a pair fits. ``context`` is the largest that does, 0 when not even the weights do.

    ``needed`` counts the asked context; it is ``weights`` and ``kv`` of all ``models`` but those on the
    host, and ``work``, what everything else takes. ``host``: the memory of those. ``request``: what
    another request at the same time takes. A model of unknown size never fits. ``sentence`` is for
    people, with cause and remedy.
    """

    needed: int
    free: int
    fits: bool
    weights: int
    kv: int
    work: int
    context: int
    sentence: str
    models: tuple[ModelMemory, ...] = ()
    request: int = 0
    host: MemoryFit | None = None

    def more_requests(self, spare: int) -> int:
        """Return how many requests more fit at once into a ``spare``-th of what stays free."""
        fits = [one for one in (self, self.host) if one is not None and one.request]
        more = (max(one.free - one.needed, 0) // spare // one.request for one in fits)
        return min(more, default=MAX_ROWS)


def fit(
    target: ModelSize,
    *drafting: ModelSize,
    context: int | None = None,
    free: int | None = None,
    instead: Mapping[str, Sequence[ModelSize]] = MappingProxyType({}),
    gpu: bool = False,
    host_free: int | None = None,
    threads: int | None = None,
) -> MemoryFit:
    """Return whether a target and what drafts for it fit in ``free`` bytes with ``context`` tokens.

    ``instead``: the same models in other quantisations; if nothing fits, the sentence says what these
    would need. ``context`` None is ``DEFAULT_CONTEXT``; more than the target's own counts as that.
    ``free`` None is the machine's free memory. ``gpu``: they will be on a GPU, whose memory ``free`` is.
    ``host_free`` is ``free`` for models ``on_host``. ``threads`` compute on the CPU; None is the default.
    """
    models = [model for model in (target, *drafting) if not model.on_host]
    asked = context_limit(target.context, context)
    on_host = [each for each in drafting if each.on_host]
    host = _host_fit(on_host, target, asked, host_free, threads)
    room = memory.free_bytes() if free is None else free
    parts = tuple(
        ModelMemory(one.name, one.weight_bytes(), one.kv_bytes(asked), one.saved_bytes, one.on_host)
        for one in (target, *drafting)
    )
    weights = sum(part.weights for part in parts if not part.on_host)
    kv = sum(part.kv for part in parts if not part.on_host)
    fixed = _fixed(models, gpu, threads)
    work = fixed + _attention(models, asked, gpu)
    needed = weights + kv + work
    longest = _largest_context(models, target.context, room - weights - fixed, gpu)
    others = {
        kind: fit(
            *models_of, context=context, free=room, gpu=gpu, host_free=host_free, threads=threads
        )
        for kind, models_of in instead.items()
        if sum(model.weight_bytes() for model in models_of if not model.on_host) < weights
    }
    draftless = len(models) > 1 and target.weight_bytes() + _fixed([target], gpu, threads) < room
    sentence = _sentence(models, asked, needed, room, longest, others, gpu, draftless)
    return MemoryFit(
        needed=needed,
        free=room,
        fits=needed <= room
        and all(model.parameters for model in models)
        and (host is None or host.fits),
        weights=weights,
        kv=kv,
        work=work,
        context=longest if host is None else min(longest, host.context),
        sentence=sentence if host is None else f"{sentence} {host.sentence}",
        models=parts,
        request=kv + (_rounds(models) + _graphs(PASS_GRAPHS) if gpu else 0),
        host=host,
    )


def _host_fit(
    models: Sequence[ModelSize],
    target: ModelSize,
    context: int,
    free: int | None,
    threads: int | None,
) -> MemoryFit | None:
    """Return the memory of models on the host, None without. The first has the target's context."""
    if not models:
        return None
    first, *others = (replace(each, on_host=False) for each in models)
    first = replace(first, context=target.context)
    return fit(first, *others, context=context, free=free, threads=threads)


def context_limit(own: int, asked: int | None) -> int:
    """Return the tokens of context that a model with ``own`` is given if they fit."""
    return min(own, asked or DEFAULT_CONTEXT)


def _fixed(models: Sequence[ModelSize], gpu: bool, threads: int | None) -> int:
    """Return the bytes that depend on neither weights nor context."""
    if not gpu:
        count = default_threads() if threads is None else threads
        scratch = sum(model.scratch_bytes(count) for model in models)
        return OVERHEAD + TOKEN_BYTES * sum(model.vocabulary for model in models) + scratch
    return GPU_OVERHEAD + _rounds(models)


def _rounds(models: Sequence[ModelSize]) -> int:
    """Return the bytes of a sequence's captured rounds on a GPU, and of what they sample in: one
    runner per drafter, of these the largest, or one if nothing drafts."""
    target = models[0]
    drafting = [
        (model.steps, GPU_PASS_BYTES if model.heads else GPU_HEAD_BYTES)
        for model in models[1:]
        if model.steps  # a tower has none
    ]
    if target.partial:
        return _graphs(PASS_GRAPHS) + target.sampling_bytes(bool(drafting))
    runners = []
    for steps, step_bytes in drafting or [(0, 0)]:
        graphs, drafted = kept_graphs(steps)
        sampling = target.sampling_bytes(steps > 0)
        runners.append(_graphs(graphs) + drafted * step_bytes + sampling)
    return sum(sorted(runners)[-RUNNERS:])


def _graphs(passes: int) -> int:
    """Return the bytes of CUDA graphs with so many passes of a model."""
    return GPU_POOL_BYTES + passes * GPU_PASS_BYTES


def _attention(models: Sequence[ModelSize], context: int, gpu: bool) -> int:
    return sum(model.attention_bytes(context, gpu) for model in models)


def _largest_context(models: Sequence[ModelSize], limit: int, room: int, gpu: bool) -> int:
    """Return the most tokens, up to ``limit``, whose caches and attention take at most ``room`` bytes."""

    def fits(context: int) -> bool:
        caches = sum(model.kv_bytes(context) for model in models)
        return caches + _attention(models, context, gpu) <= room

    return largest(limit, fits) if room >= 0 else 0


def _sentence(
    models: list[ModelSize],
    context: int,
    needed: int,
    free: int,
    longest: int,
    others: Mapping[str, MemoryFit],
    gpu: bool,
    draftless: bool,
) -> str:
    """Return ``MemoryFit.sentence``. ``draftless``: the target would fit without drafts."""
    names = ", ".join(model.name for model in models[:-1])
    names = f"{names} and {models[-1].name}" if names else models[-1].name
    if not all(model.parameters for model in models):
        return f"The files of {names} are missing, so the memory needed is not known yet."
    verb = "needs" if len(models) == 1 else "need"
    place, programs = (" on the GPU", " that use the GPU") if gpu else ("", "")
    need = (
        f"{names} {verb} {format_bytes(needed)} with a context of {context:,} tokens; "
        f"{format_bytes(free)} are free{place}."
    )
    if needed <= free:
        return need
    smaller = "a smaller model, or n-gram without a draft" if draftless else "a smaller model"
    narrower = _alternatives(others)
    helps = any(other.context >= min(context, SHORTEST_CONTEXT) for other in others.values())
    quantised = "that quantization, " if helps else ""
    on_cpu = "the CPU (--device cpu), " if gpu else ""
    remedy = f"choose {quantised}{on_cpu}{smaller}, or close other programs{programs}."
    if longest:
        return (
            f"{need} Only a context of up to {longest:,} tokens fits.{narrower} For more, {remedy}"
        )
    return f"{need} The weights alone do not fit.{narrower} To load it, {remedy}"


def _alternatives(others: Mapping[str, MemoryFit]) -> str:
    """Return what the first fitting one of ``others`` would need; if none fits, what the last would."""
    for kind, other in others.items():
        if other.fits:
            return f" {kind} would need {format_bytes(other.needed)}."
    for kind, other in others.items():
        if other.context >= SHORTEST_CONTEXT:
            return f" {kind} would fit with a context of up to {other.context:,} tokens."
    return "".join(
        f" Even {kind} would need {format_bytes(other.needed)}."
        for kind, other in [*others.items()][-1:]
    )
