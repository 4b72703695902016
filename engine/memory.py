"""Bytes of weights, KV cache and draft -> what fits, and how much context is left.

Estimates from sizes alone, for a decision before anything is loaded: target and draft, and the KV
cache of both, together. Never imports torch; the caller of a GPU build passes its free bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import psutil

from engine import cgroups
from engine.catalog import ModelSpec
from engine.checkpoint import Checkpoint

WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number in the dtypes that weights and caches are kept in."""

QUANTISED_WIDTHS = {"int8": 1.01, "nf4": 0.5 + 2 / 64}
"""Bytes of one quantised weight: int8 with a scale a row, NF4 with a bf16 scale for each 64."""

LONGEST_CONTEXT = 32_768
"""Caches are allocated whole, so a model's 128k context is not taken for granted."""

SHORTEST_CONTEXT = 512
"""Below this a chat is no use; the pair is refused instead."""

OVERHEAD = 300_000_000
"""Interpreter, libraries and activations: what the process needs besides weights and caches."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What counts for memory in one model.

    ``repeated`` are the weights of an embedding that is also the output head, where it is kept twice:
    in rows for lookup, and packed for the product. 0 where that is not known. ``features`` are the
    numbers kept of each token's hidden states, for heads to read. ``weights`` (a key
    of ``WIDTHS`` or ``QUANTISED_WIDTHS``) and ``cache`` (of ``WIDTHS``) say how the model will be held;
    None is what ``fit`` is told.
    """

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    context: int
    repeated: int = 0
    features: int = 0
    weights: str | None = None
    cache: str | None = None

    @classmethod
    def of(
        cls, source: ModelSpec | Checkpoint, weights: str | None = None, cache: str | None = None
    ) -> ModelSize:
        """From a catalog entry or from a folder's headers."""
        if isinstance(source, ModelSpec):
            name, repeated = source.name, 0
        else:
            name = source.folder.name
            repeated = source.vocabulary * source.hidden if source.repeats_embedding else 0
        return cls(
            name,
            source.parameters,
            source.layers,
            source.kv_heads,
            source.head_dim,
            source.context,
            repeated,
            weights=weights,
            cache=cache,
        )

    def weight_bytes(self, dtype: str) -> int:
        """What all weights take, in ``dtype`` unless the model has its own."""
        kind = self.weights or dtype
        width = QUANTISED_WIDTHS[kind] if kind in QUANTISED_WIDTHS else WIDTHS[kind]
        return int((self.parameters + self.repeated) * width)

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys, values and features; layers with a sliding window are counted in full."""
        numbers = 2 * self.layers * self.kv_heads * self.head_dim + self.features
        return numbers * WIDTHS[self.cache or dtype]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pair fits. ``context`` is the largest that does, 0 when not even the weights do.

    ``needed`` counts the asked context. A model of unknown size never fits. ``sentence`` is for
    people, with cause and remedy.
    """

    needed: int
    free: int
    fits: bool
    weights: int
    kv: int
    context: int
    sentence: str


def free_bytes() -> int:
    """Memory that a process may take now without swapping, or without being ended by its container."""
    available = int(psutil.virtual_memory().available)
    left = cgroups.memory_left()
    return available if left is None else min(available, left)


def total_bytes() -> int:
    """All memory of the machine."""
    return int(psutil.virtual_memory().total)


def fit(
    target: ModelSize,
    *drafting: ModelSize,
    context: int | None = None,
    dtype: str = "bfloat16",
    free: int | None = None,
    overhead: int = OVERHEAD,
    instead: Mapping[str, Sequence[ModelSize]] = MappingProxyType({}),
) -> Fit:
    """Whether a target and what drafts for it fit in ``free`` bytes with ``context`` tokens.

    ``instead``: the same models in the quantisations that could be chosen; where they do not fit, the
    sentence says what these would need. ``context`` None is what the engine would take: the target's
    own, up to ``LONGEST_CONTEXT``. ``free`` None asks the machine. ``dtype`` is one of ``WIDTHS``, for
    models that do not say how they will be held.
    """
    models = [target, *drafting]
    limit = min(target.context, LONGEST_CONTEXT)
    asked = min(context or limit, limit)
    room = free_bytes() if free is None else free
    weights = sum(model.weight_bytes(dtype) for model in models)
    kv = sum(_kv_bytes(model, asked, dtype) for model in models)
    needed = weights + kv + overhead
    largest = _largest_context(models, limit, dtype, room - weights - overhead)
    others = {
        kind: fit(*held, context=context, dtype=dtype, free=room, overhead=overhead)
        for kind, held in instead.items()
        if sum(model.weight_bytes(dtype) for model in held) < weights
    }
    return Fit(
        needed=needed,
        free=room,
        fits=needed <= room and all(model.parameters for model in models),
        weights=weights,
        kv=kv,
        context=largest,
        sentence=_sentence(models, asked, needed, room, largest, others),
    )


def human(count: int) -> str:
    """Bytes for people, in decimal units: '1.5 GB'."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") or size >= 99.95 else f"{size:.1f} {unit}"


def _kv_bytes(model: ModelSize, context: int, dtype: str) -> int:
    """A model's cache ends at its own context."""
    return min(context, model.context) * model.kv_bytes_per_token(dtype)


def _largest_context(models: list[ModelSize], limit: int, dtype: str, room: int) -> int:
    """The most tokens, up to ``limit``, whose caches take no more than ``room`` bytes."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_kv_bytes(model, middle, dtype) for model in models) <= room:
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
    others: Mapping[str, Fit],
) -> str:
    names = ", ".join(model.name for model in models[:-1])
    names = f"{names} and {models[-1].name}" if names else models[-1].name
    if not all(model.parameters for model in models):
        return f"The files of {names} are not here, so what they need is not known yet."
    verb = "needs" if len(models) == 1 else "need"
    need = f"{names} {verb} {human(needed)} with a context of {asked:,} tokens; {human(free)} are free."
    if needed <= free:
        return need
    smaller = (
        "a smaller model" if len(models) == 1 else "a smaller target, or n-gram without a draft"
    )
    told = _told(others)
    helps = any(other.context >= min(asked, SHORTEST_CONTEXT) for other in others.values())
    quantised = "that quantization, " if helps else ""
    remedy = f"choose {quantised}{smaller}, or close other programs."
    if largest:
        return f"{need} Only a context of up to {largest:,} tokens fits.{told} For more, {remedy}"
    return f"{need} Not even the weights fit.{told} To load it, {remedy}"


def _told(others: Mapping[str, Fit]) -> str:
    """What the first of ``others`` that fits would need; if none does, what the last would."""
    for kind, other in others.items():
        if other.fits:
            return f" {kind} would need {human(other.needed)}."
    for kind, other in others.items():
        if other.context >= SHORTEST_CONTEXT:
            return f" {kind} would fit with a context of up to {other.context:,} tokens."
    return "".join(
        f" Even {kind} would need {human(other.needed)}." for kind, other in [*others.items()][-1:]
    )
