"""Bytes of weights, KV cache and draft -> what fits, and how much context is left.

Estimates from sizes alone, for a decision before anything is loaded: target and draft, the KV cache of
both, and on a GPU what its kernels and graphs work in. Never imports torch: who loads to a GPU passes
its free bytes (engine/machine/device_memory.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from engine.backends.cuda import GRAPH_DEPTHS, KV_SPLIT, STREAMED_ROWS
from engine.loading.specs import ModelSpec
from engine.machine import memory
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.values import MAX_ROWS
from engine.values.units import format_bytes

WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number in the dtypes that weights and caches are kept in."""

DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
"""What of ``WIDTHS`` is meant by what people call it."""

FLOAT8 = "float8"
"""A cache in fp8: one byte a number, and for every position of a head a scale."""
FLOAT8_SCALE = 4

QUANTISED_WIDTHS = {"int8": 1.01, "nf4": 0.5 + 2 / 64}
"""Bytes of one quantised weight: int8 with a scale a row, NF4 with a bf16 scale for each 64."""

BLOCKS_WIDTH = 1.05
"""Bytes that blocks take once they are rearranged, for each byte of a GGUF file's."""

LONGEST_CONTEXT = 32_768
"""Caches are allocated whole, so a model's 128k context is not taken for granted."""

SHORTEST_CONTEXT = 512
"""Below this a chat is no use; the pair is refused instead."""

OVERHEAD = 300_000_000
"""Interpreter, libraries and activations: what the process needs besides weights and caches."""

TOKEN_BYTES = 430
"""Of a vocabulary's entry in headers and in the tokenizer: measured with two of 151,936 tokens."""

GPU_OVERHEAD = 500_000_000
"""The kernels' code, cuBLAS's own buffers, what layers leave of a part of a prompt (105 MB for the
widest product of a 32B model), and what the allocator cannot fill."""

GPU_GRAPH_BYTES = 24_000_000
"""Bytes of one CUDA graph, its nodes and private memory; each sampling mode has one for each depth.
An assumption until ``python -m tools.gpu_bench``, which measures it, has run on a GPU."""

GPU_VOCABULARY_ROWS = 4
"""Numbers of 4 bytes for every token of a row: logits, p, q, and those in the bin of a cut."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What counts for memory in one model.

    ``repeated`` are the weights of an embedding that is also the output head, where it is kept twice:
    in rows for lookup, and packed for the product. 0 where that is not known. ``aux_width`` are the
    numbers kept of each token's hidden states, for heads to read. ``weights`` (a key of ``WIDTHS`` or
    ``QUANTISED_WIDTHS``) and ``cache`` (of ``WIDTHS``, or ``FLOAT8``) say how it will be held; None is
    what ``fit`` is given. ``block_bytes``: of all weights in a GGUF file, where they are kept in the
    blocks that it has or would have, else 0. ``heads`` count on a GPU only; they and
    ``vocabulary`` are 0 where they are not known.
    """

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    repeated: int = 0
    aux_width: int = 0
    weights: str | None = None
    cache: str | None = None
    heads: int = 0
    vocabulary: int = 0
    block_bytes: int = 0

    @classmethod
    def of(
        cls, source: ModelSpec | Checkpoint, weights: str | None = None, cache: str | None = None
    ) -> ModelSize:
        """From a catalog entry or from a folder's headers."""
        tied = source.tied if isinstance(source, ModelSpec) else source.repeats_embedding
        repeated = source.vocabulary * source.hidden if tied else 0
        heads = 0 if isinstance(source, ModelSpec) else source.heads
        return cls(
            source.name,
            source.parameters,
            source.layers,
            source.kv_heads,
            source.head_dim,
            source.context,
            repeated,
            weights=weights,
            cache=cache,
            heads=heads,
            vocabulary=source.vocabulary,
        )

    def weight_bytes(self, dtype: str) -> int:
        """What all weights take, in ``dtype`` unless the model has its own."""
        if self.block_bytes:
            return int(self.block_bytes * BLOCKS_WIDTH)
        kind = self.weights or dtype
        width = QUANTISED_WIDTHS[kind] if kind in QUANTISED_WIDTHS else WIDTHS[kind]
        return int((self.parameters + self.repeated) * width)

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys, values and aux hidden states; layers with a sliding window are counted in full.

        Features are kept in bf16 beside a cache in fp8.
        """
        if self.cache == FLOAT8:
            position, feature = self.head_dim + FLOAT8_SCALE, WIDTHS["bfloat16"]
        else:
            feature = WIDTHS[self.cache or dtype]
            position = self.head_dim * feature
        return 2 * self.layers * self.kv_heads * position + self.aux_width * feature

    def attention_bytes(self, context: int) -> int:
        """What a GPU's attention leaves between its two launches; all layers share it."""
        splits = -(-min(context, self.context) // KV_SPLIT)
        return STREAMED_ROWS * self.heads * splits * 4 * (self.head_dim + 2)

    def sampling_bytes(self) -> int:
        """What a GPU turns logits into tokens in."""
        return MAX_ROWS * self.vocabulary * 4 * GPU_VOCABULARY_ROWS


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes of one model's weights, and of its cache with the asked context."""

    name: str
    weights: int
    kv: int


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Whether a pair fits. ``context`` is the largest that does, 0 when not even the weights do.

    ``needed`` counts the asked context; it is ``weights`` and ``kv`` of all ``models``, and ``work``,
    what everything else takes. A model of unknown size never fits. ``sentence`` is for people, with cause
    and remedy.
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


def fit(
    target: ModelSize,
    *drafting: ModelSize,
    context: int | None = None,
    dtype: str = "bfloat16",
    free: int | None = None,
    overhead: int | None = None,
    instead: Mapping[str, Sequence[ModelSize]] = MappingProxyType({}),
    gpu: bool = False,
) -> MemoryFit:
    """Whether a target and what drafts for it fit in ``free`` bytes with ``context`` tokens.

    ``instead``: the same models in the quantisations that could be chosen; where they do not fit, the
    sentence says what these would need. ``context`` None is what the engine would take: the target's
    own, up to ``LONGEST_CONTEXT``. ``free`` None asks the machine. ``dtype`` is one of ``WIDTHS``, for
    models that do not say how they will be held. ``gpu``: they will be held there, so ``free`` is the
    GPU's. ``overhead`` None is what is known of the place.
    """
    models = [target, *drafting]
    limit = min(target.context, LONGEST_CONTEXT)
    asked = min(context or limit, limit)
    room = memory.free_bytes() if free is None else free
    parts = tuple(
        ModelMemory(model.name, model.weight_bytes(dtype), _kv_bytes(model, asked, dtype))
        for model in models
    )
    weights, kv = sum(part.weights for part in parts), sum(part.kv for part in parts)
    fixed = _fixed(models, gpu) if overhead is None else overhead
    work = fixed + _attention(models, asked, gpu)
    needed = weights + kv + work
    largest = _largest_context(models, limit, dtype, room - weights - fixed, gpu)
    others = {
        kind: fit(*held, context=context, dtype=dtype, free=room, overhead=overhead, gpu=gpu)
        for kind, held in instead.items()
        if sum(model.weight_bytes(dtype) for model in held) < weights
    }
    alone = target.weight_bytes(dtype) + (_fixed([target], gpu) if overhead is None else overhead)
    draftless = bool(drafting) and alone < room
    return MemoryFit(
        needed=needed,
        free=room,
        fits=needed <= room and all(model.parameters for model in models),
        weights=weights,
        kv=kv,
        work=work,
        context=largest,
        sentence=_sentence(models, asked, needed, room, largest, others, gpu, draftless),
        models=parts,
    )


def widest(kinds: Sequence[str], context: Callable[[str], int], least: int) -> str:
    """Return the first of ``kinds``, from wide to narrow, in which ``least`` tokens of context fit; the
    first of all where they fit in none. This is what auto takes."""
    return next((kind for kind in kinds if context(kind) >= least), kinds[0])


def _kv_bytes(model: ModelSize, context: int, dtype: str) -> int:
    """A model's cache ends at its own context."""
    return min(context, model.context) * model.kv_bytes_per_token(dtype)


def _fixed(models: Sequence[ModelSize], gpu: bool) -> int:
    """What neither weights nor context change."""
    if not gpu:
        return OVERHEAD + TOKEN_BYTES * sum(model.vocabulary for model in models)
    sampling = sum(model.sampling_bytes() for model in models)
    return GPU_OVERHEAD + len(GRAPH_DEPTHS) * GPU_GRAPH_BYTES + sampling


def _attention(models: Sequence[ModelSize], context: int, gpu: bool) -> int:
    return sum(model.attention_bytes(context) for model in models) if gpu else 0


def _largest_context(
    models: Sequence[ModelSize], limit: int, dtype: str, room: int, gpu: bool
) -> int:
    """The most tokens, up to ``limit``, for which caches and attention take at most ``room`` bytes."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        caches = sum(_kv_bytes(model, middle, dtype) for model in models)
        if caches + _attention(models, middle, gpu) <= room:
            low = middle
        else:
            high = middle - 1
    return low if room >= 0 else 0


def _sentence(
    models: list[ModelSize],
    asked: int,
    needed: int,
    free: int,
    largest: int,
    others: Mapping[str, MemoryFit],
    gpu: bool,
    draftless: bool,
) -> str:
    """``draftless``: whether the target would fit if nothing drafted."""
    names = ", ".join(model.name for model in models[:-1])
    names = f"{names} and {models[-1].name}" if names else models[-1].name
    if not all(model.parameters for model in models):
        return f"The files of {names} are not here, so what they need is not known yet."
    verb = "needs" if len(models) == 1 else "need"
    place, programs = (" on the GPU", " that use the GPU") if gpu else ("", "")
    need = (
        f"{names} {verb} {format_bytes(needed)} with a context of {asked:,} tokens; "
        f"{format_bytes(free)} are free{place}."
    )
    if needed <= free:
        return need
    smaller = "a smaller model, or n-gram without a draft" if draftless else "a smaller model"
    narrower = _alternatives(others)
    helps = any(other.context >= min(asked, SHORTEST_CONTEXT) for other in others.values())
    quantised = "that quantization, " if helps else ""
    remedy = f"choose {quantised}{smaller}, or close other programs{programs}."
    if largest:
        return (
            f"{need} Only a context of up to {largest:,} tokens fits.{narrower} For more, {remedy}"
        )
    return f"{need} Not even the weights fit.{narrower} To load it, {remedy}"


def _alternatives(others: Mapping[str, MemoryFit]) -> str:
    """What the first of ``others`` that fits would need; if none does, what the last would."""
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
