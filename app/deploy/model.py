"""The facts of a model that a plan needs, from its config.json.

One reader serves folders, GGUF headers and the table of published models. The weight format is read from
``quantization_config``. A published model of the shipped catalog is found by its id, its repository, or
another of its checkpoints, which is the same model in that checkpoint's format.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.deploy.estimate.counting import Cache, Config, describe
from app.deploy.gpus import AUTO, AWQ, BF16, FORMATS, FP8, INT4, MXFP4, NVFP4
from app.deploy.tables import refusal
from app.paths import catalog_file
from engine.api import slug
from engine.errors import MALFORMED, InvalidRequest, ModelError, what_failed
from engine.files import read_json
from engine.models.architecture import Architecture, Experts
from engine.models.checkpoints.checkpoint import inspect
from engine.models.checkpoints.config_file import read_config
from engine.models.checkpoints.gguf.description import is_gguf
from engine.models.sizes.weight_counts import LayerWeights, WeightCounts
from engine.values.memory import kv_numbers
from engine.values.units import closest

BLOCK = 128
"""Weights along a side of a block."""

STAND_IN = "/path/to"
"""Placeholder in the path of a folder that engines load in place of a GGUF file."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. ``name`` is what an engine loads: a repository on the hub, or a folder.

    ``latent``: see ``Counted``. ``cached_token``: numbers that the last layer with attention caches of a
    token. ``modules``: MTP layers. ``format``: of its weights. ``block``: width of the blocks that share
    a scale, 0 if there are none. ``widths``: of MLPs and shared experts; ``expert_width``: of an expert.
    ``own_tokenizer``: the tokenizer is a program in the repository, which engines run only if told to.
    """

    id: str
    name: str
    model_type: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int
    format: str
    counts: WeightCounts
    architecture: Architecture
    last_layer: LayerWeights
    cache: Cache
    cached_token: int
    latent: int
    modules: int
    block: int
    widths: frozenset[int]
    expert_width: int
    own_tokenizer: bool

    @property
    def parameters(self) -> int:
        """All weights except those of the MTP module."""
        return self.counts.total

    @property
    def active_parameters(self) -> int:
        return self.counts.active

    @property
    def experts(self) -> int:
        return self.last_layer.experts


def of_config(name: str, config: Config, id: str | None = None) -> ModelFacts:
    """Return the facts in a config.json. Raises ModelError if a needed one is missing or malformed."""
    try:
        return _of_config(name, config, id or name)
    except MALFORMED as error:
        raise ModelError(
            f"No plan can be made with the configuration of {name}: {what_failed(error)}. Use the "
            "config.json that was published with the weights."
        ) from error


def of_path(path: Path) -> ModelFacts:
    """Return the facts of a folder or a GGUF file. Raises ModelError if it is no model."""
    if is_gguf(path):
        return of_config(f"{STAND_IN}/{path.stem}", inspect(path).text_config, id=path.name)
    config = dict(read_config(path))
    if scheme := _in_file(path / "hf_quant_config.json", "quantization"):  # NVIDIA's older ones
        config = {"quantization_config": {"quant_method": "modelopt", **scheme}, **config}
    text = config.get("text_config")
    facts = of_config(str(path), {**config, **text} if isinstance(text, Mapping) else config)
    # transformers would load the folder's tokenizer from a program in it.
    brings_one = "AutoTokenizer" in _in_file(path / "tokenizer_config.json", "auto_map")
    return replace(facts, own_tokenizer=facts.own_tokenizer or brings_one)


def _in_file(file: Path, key: str) -> Config:
    """Return an object in a JSON file; an empty one if there is none."""
    try:
        found = read_json(file)[key]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _of_config(name: str, config: Config, id: str) -> ModelFacts:
    found, kind, heads = describe(config), str(config["model_type"]), config["num_attention_heads"]
    architecture, latent = found.architecture, found.latent
    attention = architecture.attentions[-1]
    modules = config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers")
    scheme: Any = config.get("quantization_config")
    block = 0
    if isinstance(scheme, Mapping):
        sizes = scheme.get("weight_block_size") or ()
        block = int(sizes[0]) if isinstance(sizes, list) else block_of(name, _format(config))
    parts = {layer.feed_forward for layer in architecture.layers}
    mixtures = [each for each in parts if isinstance(each, Experts)]
    dense = {each.intermediate for each in parts if not isinstance(each, Experts)}
    chosen = [each.chosen * each.intermediate for each in mixtures]
    return ModelFacts(
        id=id,
        name=name,
        model_type=kind,
        layers=len(architecture.layers),
        hidden=architecture.hidden,
        intermediate=config.get("intermediate_size") or max(*dense, *chosen, 0),
        heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        vocabulary=architecture.vocabulary,
        context=config["max_position_embeddings"],
        format=_format(config),
        counts=found.counts,
        architecture=architecture,
        last_layer=found.last,
        cache=found.cache,
        cached_token=latent or kv_numbers(attention.kv_heads, attention.head_dim),
        latent=latent,
        modules=_MODULES.get(kind, 0) if modules is None else modules,
        block=block,
        widths=frozenset(dense | {each.shared for each in mixtures if each.shared}),
        expert_width=max((each.intermediate for each in mixtures), default=0),
        own_tokenizer=kind.startswith(_WITH_TOKENIZERS),
    )


_WITH_TOKENIZERS = ("kimi",)
"""Families whose published checkpoints have ``auto_map`` in tokenizer_config.json."""

_MODULES = {"qwen3_next": 1}
"""MTP layers that config.json does not tell: vLLM (config/speculative.py) and SGLang
(configs/model_config.py) go by the type."""


def block_of(name: str, weights: str) -> int:
    """Return the block of the checkpoint ``name`` in a format, where its config.json does not tell it:
    AWQ's groups (vLLM's marlin_utils.py checks them), and the FP8 of those who publish it in blocks."""
    blocks = weights == AWQ or (weights == FP8 and name.startswith(_IN_BLOCKS))
    return BLOCK if blocks else 0


_IN_BLOCKS = ("Qwen/", "deepseek-ai/", "moonshotai/", "MiniMaxAI/", "zai-org/GLM-5")


def _format(config: Config) -> str:
    scheme: Any = config.get("quantization_config")
    if not isinstance(scheme, Mapping):
        return BF16
    text = f"{scheme.get('quant_method')} {scheme.get('quant_algo')} {scheme.get('format')}".lower()
    for mark, kind in _MARKS:
        if mark in text:
            return kind
    groups = [group.get("weights") for group in (scheme.get("config_groups") or {}).values()]
    bits = [each["num_bits"] for each in groups if each and each.get("type") == "float"]
    if bits:
        return {4: NVFP4, 8: FP8}.get(min(bits), BF16)  # NVIDIA's mixtures of both
    raise ModelError(
        f"Weights quantised by '{scheme.get('quant_method')}' are not supported for plans. "
        f"Supported: {', '.join(FORMATS)}."
    )


_MARKS = (
    ("mxfp4", MXFP4),
    ("nvfp4", NVFP4),
    ("awq", AWQ),
    ("fp8", FP8),
    ("float-quantized", FP8),
    ("pack-quantized", INT4),
)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A published model, its ``checkpoints`` by weight format, its ``drafters`` by method, its other
    names, and other heads published for it."""

    facts: ModelFacts
    checkpoints: Mapping[str, str]
    drafters: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    speculators: tuple[str, ...] = ()

    def in_format(self, weights: str) -> ModelFacts | None:
        """Return the checkpoint in this weight format; None if none is known."""
        if weights in (AUTO, self.facts.format):
            return self.facts
        name = self.checkpoints.get(weights)
        if name is None:
            return None
        return replace(self.facts, name=name, format=weights, block=block_of(name, weights))


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the table by id."""
    from engine.loading.inventory import read_catalog_file  # brings NumPy

    entries = [entry.values for entry in read_catalog_file(catalog_file()).models]
    configs = {values["id"]: values["config"] for values in entries if "config" in values}
    return MappingProxyType(
        {
            values["id"]: KnownModel(
                of_config(
                    values["repository"],
                    {**configs.get(values.get("config_of"), {}), **values.get("config", {})},
                    values["id"],
                ),
                MappingProxyType(values.get("checkpoints", {})),
                MappingProxyType(values.get("drafters", {})),
                tuple(values.get("aliases", ())),
                tuple(values.get("speculators", ())),
            )
            for values in entries
            if "config" in values or "config_of" in values
        }
    )


def entry_of(facts: ModelFacts) -> KnownModel | None:
    """Return the model's entry in the table, in any format; None for a model of the user's own."""
    return known_models().get(facts.id)


@cache
def published_heads() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the published heads by name in lower case: each method and the id of its target."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for id, entry in known_models().items():
        for method, name in entry.drafters.items():
            found[name.casefold()].append((method, id))
        for name in entry.speculators:
            found[name.casefold()] += ((method, id) for method in methods_of(name))
    return MappingProxyType({name: tuple(pairs) for name, pairs in found.items()})


def methods_of(head: str) -> list[str]:
    """Return the methods whose name is in the head's."""
    return [method for method in ("eagle3", "dflash", "dspark") if method in head.casefold()]


def find(name: str) -> ModelFacts | None:
    """Return the model with this id, repository, other name, title or checkpoint, in any case; None if
    none has."""
    wanted = name.casefold()
    if by_title := known_models().get(slug(name)):
        return by_title.facts
    for known in known_models().values():
        names = (known.facts.id, known.facts.name, *known.aliases)
        if wanted in (name.casefold() for name in names):
            return known.facts
        for weights, checkpoint in known.checkpoints.items():
            if wanted == checkpoint.casefold():
                return known.in_format(weights)
    return None


def unknown(name: str) -> InvalidRequest:
    """Return the error for a model that is not found."""
    close = closest(name.casefold().rpartition("/")[2], known_models())
    some = [*known_models()][:5]
    more = f"{', '.join(some)} and {len(known_models()) - len(some)} more"
    hint = f"Did you mean {close}?" if close else f"Known: {more}."
    return refusal("target", "unknown-model", name=name, hint=hint)
