"""Whether models fit into memory, and with how much context, by their sizes alone.

Counts weights and KV caches of target and draft, and on a GPU what kernels and graphs work in. Never
imports torch: the caller passes a GPU's free bytes (engine/machine/device_memory.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.backends.cuda import (
    KV_SPLIT,
    OTHER_GRAPHS,
    PASS_GRAPHS,
    STREAMED_ROWS,
    kv_parts,
    prepared,
)
from engine.kernels.formats import FP8
from engine.loading.specs import ModelSpec
from engine.machine import memory
from engine.models.architecture import Recurrent
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families import described
from engine.values import CHECKPOINT_MB, MAX_DEPTH, MAX_ROWS
from engine.values.memory import WIDTHS, kv_numbers, largest
from engine.values.units import format_bytes

FP8_SCALE = 4
"""Bytes of the scale that each position of a head has in a KV cache in fp8."""

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

GPU_VOCABULARY_ROWS = 20
"""Numbers of 4 bytes for every token of a row: logits, p, q, and a truncation's sorted values, their
places and sums, of which some have 8 bytes."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes of one model that count for memory.

    ``layers`` counts those that attend. ``repeated`` are the weights of an embedding that is also the
    output head, where it is kept twice: in rows for lookup, and packed for the product. 0 where that is
    not known. ``aux_width`` are the numbers kept of each token's hidden states, for heads to read.
    ``weights`` and ``cache`` are the formats of both, keys of ``WIDTHS``. ``block_bytes``: of all weights
    in a GGUF file, where they are kept in the blocks that it has or would have, else 0.
    ``recurrent_bytes`` are those of a sequence's recurrent states, ``saved_bytes`` what saved ones may
    take. ``heads`` count on a GPU only; they and ``vocabulary`` are 0 where they are not known.
    ``kv_sizes``: kv_heads and head_dim of each slot of the cache; without them all ``layers`` have one
    like the model. ``on_host``: it is in main memory though the target is on a GPU. ``partial``: other
    layers of it are, so its rounds are no graphs.
    """

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    repeated: int = 0
    aux_width: int = 0
    weights: str = "bf16"
    cache: str = "bf16"
    heads: int = 0
    vocabulary: int = 0
    block_bytes: int = 0
    recurrent_bytes: int = 0
    saved_bytes: int = 0
    kv_sizes: tuple[tuple[int, int], ...] = ()
    on_host: bool = False
    partial: bool = False

    @classmethod
    def of(
        cls,
        source: ModelSpec | Checkpoint,
        weights: str = "bf16",
        cache: str = "bf16",
        checkpoint_mb: int = CHECKPOINT_MB,
    ) -> ModelSize:
        """Return the size of a catalog entry or of a folder, by its headers.

        ``checkpoint_mb``: the memory of saved states, if it has recurrent layers.
        """
        tied = source.tied if isinstance(source, ModelSpec) else source.repeats_embedding
        repeated = source.vocabulary * source.hidden if tied else 0
        heads = 0 if isinstance(source, ModelSpec) else source.heads
        known = source.architecture if isinstance(source, ModelSpec) else described(source)
        mixers = [] if known is None else [spec.mixer for spec in known.layers]
        recurrent = [mixer for mixer in mixers if isinstance(mixer, Recurrent)]
        states = sum(mixer.memory_bytes for mixer in recurrent)
        return cls(
            source.name,
            source.parameters,
            source.layers if known is None else len(known.attentions),
            source.kv_heads,
            source.head_dim,
            source.context,
            repeated,
            weights=weights,
            cache=cache,
            heads=heads,
            vocabulary=source.vocabulary,
            recurrent_bytes=states,
            saved_bytes=checkpoint_mb << 20 if states else 0,
            kv_sizes=() if known is None else tuple(known.kv_sizes),
        )

    @classmethod
    def of_head(
        cls,
        name: str,
        parameters: int,
        layers: int,
        kv: tuple[int, int],
        context: int,
        weights: str,
    ) -> ModelSize:
        """Return the size of a head, whose own cache is in float32. ``kv``: kv_heads and head_dim."""
        return cls(name, parameters, layers, *kv, context, weights=weights, cache="fp32")

    def weight_bytes(self) -> int:
        """Return the bytes of all weights."""
        if self.block_bytes:
            return self.block_bytes
        return int((self.parameters + self.repeated) * WIDTHS[self.weights])

    def kv_bytes_per_token(self) -> int:
        """Return the bytes of keys, values and aux hidden states of a token, in all layers.

        Aux hidden states are in bf16 beside a cache in fp8.
        """
        width = aux_width = WIDTHS[self.cache]
        sizes = self.kv_sizes or ((self.kv_heads, self.head_dim),) * self.layers
        numbers = sum(kv_numbers(*size) for size in sizes)
        scales = 0
        if self.cache == FP8:
            aux_width = WIDTHS["bf16"]
            scales = sum(kv_numbers(kv_heads, 1) for kv_heads, _ in sizes) * FP8_SCALE
        return int(numbers * width + scales + self.aux_width * aux_width)

    def kv_bytes(self, context: int) -> int:
        """Return the bytes of states and of a cache of ``context`` tokens, at most the model's own."""
        cache = min(context, self.context) * self.kv_bytes_per_token()
        return cache + self.recurrent_bytes + self.saved_bytes

    def attention_bytes(self, context: int) -> int:
        """Return what a GPU's attention takes beside the cache: between its two launches, and the cosines
        and sines of all positions. Layers of one size share them."""
        if not self.heads:  # of a head or a tower, which may attend to nothing
            return 0
        positions, total = min(context, self.context), 0
        for kv_heads, head_dim in {*self.kv_sizes} or {(self.kv_heads, self.head_dim)}:
            parts = min(-(-positions // KV_SPLIT), kv_parts(kv_heads))
            total += STREAMED_ROWS * self.heads * parts * 4 * (head_dim + 2)
            total += positions * 4 * head_dim
        return total

    def sampling_bytes(self) -> int:
        """Return the bytes in which a GPU samples."""
        return MAX_ROWS * self.vocabulary * 4 * GPU_VOCABULARY_ROWS


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
    overhead: int | None = None,
    instead: Mapping[str, Sequence[ModelSize]] = MappingProxyType({}),
    gpu: bool = False,
    host_free: int | None = None,
) -> MemoryFit:
    """Return whether a target and what drafts for it fit in ``free`` bytes with ``context`` tokens.

    ``instead``: the same models in other quantisations; if nothing fits, the sentence says what these
    would need. ``context`` None is ``DEFAULT_CONTEXT``; more than the target's own counts as that.
    ``free`` None is the machine's free memory. ``gpu``: they will be on a GPU, whose memory ``free`` is.
    ``overhead`` None is the default of the device. ``host_free`` is ``free`` for models ``on_host``.
    """
    models = [model for model in (target, *drafting) if not model.on_host]
    asked = context_limit(target.context, context)
    host = _host_fit([each for each in drafting if each.on_host], target, asked, host_free)
    room = memory.free_bytes() if free is None else free
    parts = tuple(
        ModelMemory(
            model.name,
            model.weight_bytes(),
            model.kv_bytes(asked),
            model.saved_bytes,
            model.on_host,
        )
        for model in (target, *drafting)
    )
    weights = sum(part.weights for part in parts if not part.on_host)
    kv = sum(part.kv for part in parts if not part.on_host)
    fixed = _fixed(models, gpu) if overhead is None else overhead
    work = fixed + _attention(models, asked, gpu)
    needed = weights + kv + work
    longest = _largest_context(models, target.context, room - weights - fixed, gpu)
    others = {
        kind: fit(
            *models_of, context=context, free=room, overhead=overhead, gpu=gpu, host_free=host_free
        )
        for kind, models_of in instead.items()
        if sum(model.weight_bytes() for model in models_of if not model.on_host) < weights
    }
    alone = target.weight_bytes() + (_fixed([target], gpu) if overhead is None else overhead)
    draftless = len(models) > 1 and alone < room
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
    models: Sequence[ModelSize], target: ModelSize, context: int, free: int | None
) -> MemoryFit | None:
    """Return the memory of models on the host, None without. The first has the target's context."""
    if not models:
        return None
    first, *others = (replace(each, on_host=False) for each in models)
    return fit(replace(first, context=target.context), *others, context=context, free=free)


def context_limit(own: int, asked: int | None) -> int:
    """Return the tokens of context that a model with ``own`` is given if they fit."""
    return min(own, asked or DEFAULT_CONTEXT)


def _fixed(models: Sequence[ModelSize], gpu: bool) -> int:
    """Return the bytes that depend on neither weights nor context."""
    if not gpu:
        return OVERHEAD + TOKEN_BYTES * sum(model.vocabulary for model in models)
    return GPU_OVERHEAD + _rounds(models)


def _rounds(models: Sequence[ModelSize]) -> int:
    """Return the bytes of a sequence's captured rounds on a GPU, and of what they sample in."""
    sampling = sum(model.sampling_bytes() for model in models)
    if models[0].partial:
        return _graphs(PASS_GRAPHS) + sampling
    drafting = any(model.layers for model in models[1:])  # a tower has none
    rounds = prepared(MAX_DEPTH if drafting else 0)
    passes = OTHER_GRAPHS + sum(1 + depth * drafts for _, _, depth, drafts in rounds)
    return _graphs(passes) + sampling


def _graphs(passes: int) -> int:
    """Return the bytes of CUDA graphs with so many passes of a model."""
    return GPU_POOL_BYTES + passes * GPU_PASS_BYTES


def _attention(models: Sequence[ModelSize], context: int, gpu: bool) -> int:
    return sum(model.attention_bytes(context) for model in models) if gpu else 0


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
