"""Forecast a pair's memory part by part: by its files as a load plans it, else by the catalog's sizes.

All arithmetic is in fit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import ModelError
from engine.kernels.formats import AS_STORED, AUTO, Q4
from engine.kernels.formats.block_formats import LAYOUTS
from engine.loading.files import PairFiles
from engine.loading.planning import fit
from engine.loading.planning.fit import DRAFT, SMALL, TARGET, MemoryFit
from engine.loading.planning.model_size import ModelSize
from engine.loading.request import LoadRequest
from engine.loading.specs import Locate, ModelSpec, Pairing
from engine.machine import devices, memory, processor
from engine.models.sizes.weight_counts import AUX_LAYERS, head_weights
from engine.values.memory import WIDTHS

if TYPE_CHECKING:
    from engine.loading.planning.facts import PairFacts

_ANY = LoadRequest(target="")


@dataclass(frozen=True, slots=True)
class Forecast:
    """``memory_fit`` is the memory with ``context`` tokens; ``roles`` name each of its models: target,
    draft, or the kind of a head. ``longest``: the target's own. ``quantization``: the target's.
    ``where`` it is computed, "" without a GPU; ``notes``: what that costs, as the load says it.
    """

    memory_fit: MemoryFit
    roles: tuple[str, ...]
    context: int
    longest: int
    quantization: str
    where: str = ""
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence on memory, and ``notes``."""
        return " ".join((self.memory_fit.sentence, *self.notes))


def forecast(
    pairing: Pairing,
    request: LoadRequest,
    locate: Locate,
    context: int | None = None,
    *,
    beside: bool = False,
) -> Forecast:
    """Return what ``pairing`` needs with ``context`` tokens, by default with as many as it would get.

    ``request`` says how it is loaded. ``beside``: what this process has on a GPU stays. Raises
    ModelError if its sizes are not known, and as
    ``Catalog.resolve`` for a broken file or a draft that does not fit.
    """
    if pairing.target.address:
        raise ModelError(f"{pairing.target.name} runs on a server and uses that machine's memory.")
    target = locate(pairing.target)
    draft = None if pairing.draft is None else locate(pairing.draft)
    if target is None or (draft is None and pairing.draft is not None):
        specs = [pairing.target] if pairing.draft is None else [pairing.target, pairing.draft]
        return estimate(specs, context, request=request)
    from engine.loading.planning.facts import read_facts  # brings torch

    files = PairFiles(pairing, target, draft)
    return _planned(read_facts(files, _with_context(request, context), replacing=not beside))


def _with_context(request: LoadRequest, context: int | None) -> LoadRequest:
    return replace(request, context=context or request.context)


def _planned(facts: PairFacts) -> Forecast:
    """Return the forecast of a load that is planned by ``facts``."""
    sizes, tokens = facts.sizes, facts.context_limit
    return Forecast(
        facts.memory_fit(tokens),
        sizes.roles,
        tokens,
        sizes.target.context,
        facts.planned.quantization,
        facts.where,
        facts.placed + facts.undrafted,
    )


def estimate(
    specs: Sequence[ModelSpec],
    context: int | None = None,
    free: int | None = None,
    request: LoadRequest = _ANY,
) -> Forecast:
    """Return what a target, and a draft or heads after it, need by their sizes alone, loaded as by
    ``request``. The target's own MTP layers count.

    For a GPU they are planned as a load plans files. In main memory, and in ``free`` bytes of it, they
    are quantised as auto would, or in the fewest bits if nothing fits. Raises ModelError if sizes are not
    known.
    """
    unknown = [spec.name for spec in specs if not (spec.parameters and spec.layers)]
    if unknown:
        raise ModelError(
            f"Memory beyond the weights of {' and '.join(unknown)} is unknown until the "
            "files are here. Download it first."
        )
    target, own = specs[0], _mtp_of(specs[0])
    specs = specs if own is None else (*specs, own)
    if free is None and request.device != "cpu" and devices.has_driver():
        from engine.loading.planning.facts import expected_facts  # brings torch

        facts = expected_facts(specs, _with_context(request, context))
        if facts is not None and facts.device.is_gpu:
            return _planned(facts)
    tokens = fit.context_limit(target.context, context)
    checkpoint_mb = request.checkpoint_mb
    chosen = request.quantization if request.quantization != AUTO else target.quantization
    kinds: tuple[str, ...] = (chosen,)
    if chosen == AUTO:  # see ``choices.quantizations``
        kinds = (AS_STORED,) if target.is_gguf else (_computed_in(target), "int8", Q4)
    drafts = [spec for spec in specs[1:] if not spec.method]
    heads = [spec for spec in specs[1:] if spec.method]
    aux_width = target.hidden * sum(AUX_LAYERS.get(head.method, 0) for head in heads)
    sizes = {
        kind: [
            replace(_size_in(target, kind, checkpoint_mb), aux_width=aux_width),
            *(_size_in(one, AS_STORED if one.is_gguf else kind, checkpoint_mb) for one in drafts),
            *map(_head_size, heads),
        ]
        for kind in kinds
    }
    least = min(tokens, fit.SHORTEST_CONTEXT)
    free = memory.free_bytes() if free is None else free
    fits = {kind: fit.fit(*models, context=tokens, free=free) for kind, models in sizes.items()}
    enough = (kind for kind in kinds if fits[kind].context >= least)
    widest = next(enough, kinds[0] if fits[kinds[0]].context else kinds[-1])
    memory_fit = fit.fit(*sizes[widest], context=tokens, free=free, instead=sizes)
    roles = (TARGET, *(DRAFT for _ in drafts), *(head.method for head in heads))
    return Forecast(memory_fit, roles, tokens, target.context, widest)


def _mtp_of(target: ModelSpec) -> ModelSpec | None:
    """Return the MTP layers in the target's files, if they are known."""
    weights = None
    if target.mtp and target.architecture is not None:
        weights = head_weights("mtp", target.architecture)
    if weights is None:
        return None
    name = f"MTP of {target.name}"
    return replace(
        target, name=name, method="mtp", parameters=weights.parameters, layers=weights.layers
    )


def _head_size(head: ModelSpec) -> ModelSize:
    return ModelSize(
        head.name, head.parameters, head.layers, head.kv_heads, head.head_dim, head.context,
        weights=_computed_in(head), cache="fp32", steps=0,
    )  # fmt: skip


def _computed_in(spec: ModelSpec) -> str:
    """Return the dtype of activations and KV cache by auto: see ``choices.choose_quantization``."""
    has = set(processor.instructions())
    quick = {"avx512bw", "bf16"} if spec.parameters > SMALL else {"avx512_bf16"}
    return "bf16" if quick & has else "fp32"


def _size_in(spec: ModelSpec, kind: str, checkpoint_mb: int) -> ModelSize:
    """Return the size of a model in ``kind``."""
    weights = kind if kind in WIDTHS else "bf16"
    size = ModelSize.of(spec, weights, _computed_in(spec), checkpoint_mb)
    if kind not in (Q4, AS_STORED):
        return size
    blocks = spec.bytes if spec.is_gguf and kind == AS_STORED else _bytes_in_four_bits(spec)
    return replace(size, block_bytes=int(blocks * fit.BLOCKS_WIDTH), repeated=0)


def _bytes_in_four_bits(spec: ModelSpec) -> int:
    """Return what ``bytes_in_four_bits`` counts by tensors: embedding and head in eight bits."""
    tables = spec.vocabulary * spec.hidden * (1 if spec.tied else 2)
    narrow = LAYOUTS["q4_1" if spec.hidden % LAYOUTS["q4_k"].inputs else "q4_k"]
    wide = LAYOUTS["q8_0"]
    return (
        tables * wide.size // wide.inputs
        + max(0, spec.parameters - tables) * narrow.size // narrow.inputs
    )
