"""The files of EAGLE-3 heads.

Two published layouts are read, which differ in names alone: SafeAILab's (``midlayer.``, a Llama's
config.json with ``draft_vocab_size``) and that of speculators (``layers.0.``, the layer's configuration
under ``transformer_layer_config``). A head without an embedding uses the target's. EAGLE-3.1 has a norm
for each hidden state (``fc_norm``) and hands on its normed output (``norm_output``). P-EAGLE has several
layers, ``mask_hidden`` and a mask token.
Sources: vLLM 0.32's llama_eagle3.py and llm_base_proposer.py; SGLang 0.5.23's llama_eagle3.py, also for
``aux_norm_*``; speculators 0.9's models/eagle3 and models/peagle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any

from engine.drafting.heads.base import TargetShape, check_fits, other_target
from engine.drafting.heads.layers import read_layers, refuse_relatives
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxLayer, entering
from engine.models.tensor_shapes import layer_shapes
from engine.values import MAX_DEPTH

EMBEDDING, HEAD, FC_NORM = "embed_tokens.weight", "lm_head.weight", "input_norm.weight"
TARGETS, _MARKED, MASK_STATE = "d2t", "t2d", "mask_hidden"
_AUX_NORMS = tuple(f"aux_norm_{place}.weight" for place in ("low", "mid", "high"))
_MASK_TOKENS = "mask_token_id", "pard_token", "ptd_token_id"
_AT_ONCE = 8
"""Tokens of a pass of P-EAGLE, if config.json names none: the depth that speculators trains for."""
_HEADS, _CONTEXT = 32, 2048
"""Transformers' defaults, which speculators leave out of a ``transformer_layer_config``."""


@dataclass(frozen=True, slots=True)
class Eagle3HeadShape:
    """What config.json and the tensors' shapes say.

    ``prefixes``: of the layers' tensors. ``read``: the aux layers in the order ``fc`` takes them;
    ``norms``: the names of their norms, if any. ``architecture.vocabulary``: draft tokens. ``mask``: the
    token where nothing is drafted yet, in heads that draft ``steps`` tokens in one pass; None in others.
    """

    architecture: Architecture
    prefixes: tuple[str, ...]
    read: tuple[AuxLayer, ...]
    vocabulary: int  # of the target
    norm_before_residual: bool
    norm_before_fc: bool
    norm_output: bool
    norms: tuple[str, ...]
    mask: int | None
    steps: int


def read_shape(stored: Stored, target: TargetShape) -> Eagle3HeadShape:
    """Return what the head in ``stored`` computes. Raises ModelError or IncompatiblePair."""
    config = stored.config
    nested = config.get("transformer_layer_config")
    inner = replace(stored, config=nested if isinstance(nested, Mapping) else config)
    _check_plain(stored)
    first = "midlayer." if "midlayer.hidden_norm.weight" in stored.shapes else "layers.0."
    more = takewhile(
        lambda prefix: f"{prefix}input_layernorm.weight" in stored.shapes,
        (f"layers.{number}." for number in count(1)),
    )
    prefixes = (first, *more)
    read = _aux_layers(config, target)
    hidden, joint = stored.matrix("fc.weight")
    if joint % len(read):
        raise ModelError(
            f"In {stored.folder}, fc.weight has {joint:,} inputs, which is not a multiple "
            f"of the {len(read)} hidden states in config.json. Download the head again."
        )
    a = read_layers(
        inner,
        first,
        count=len(prefixes),
        hidden=hidden,
        vocabulary=inner.matrix(HEAD)[0],
        qk_norm=f"{first}self_attn.q_norm.weight" in inner.shapes,
        inputs=2 * hidden,
        heads=_HEADS,
        context=_CONTEXT,
    )
    eagle, parallel = config.get("eagle_config") or {}, _drafts_at_once(stored)
    vocabulary = _vocabulary(inner)
    shape = Eagle3HeadShape(
        a,
        prefixes,
        read,
        vocabulary,
        # vLLM's defaults for the layouts.
        norm_before_residual=bool(
            config.get("norm_before_residual", nested is not None and not parallel)
        ),
        norm_before_fc=bool(eagle.get("norm_before_fc", config.get("norm_before_fc", False))),
        norm_output=bool(config.get("norm_output", False)),
        norms=_norms(stored, len(read)),
        mask=_mask(stored, vocabulary) if parallel else None,
        steps=_steps(config) if parallel else MAX_DEPTH,
    )
    check_fits(stored, target, hidden=joint // len(read), vocabulary=shape.vocabulary)
    _check_aux_layers(stored, read, target)
    stored.expect(_expected(stored, shape, joint))
    return shape


def _check_plain(stored: Stored) -> None:
    """Raise ModelError for relatives of EAGLE-3 that compute something else."""
    config, eagle = stored.config, stored.config.get("eagle_config") or {}
    reasons = {
        "a norm for each hidden state and one for all (fc_norm and norm_before_fc)": config.get(
            "fc_norm"
        )
        and config.get("norm_before_fc"),
        "layers with a sliding window": "sliding_attention" in (config.get("layer_types") or ()),
        "a single hidden state (use_aux_hidden_state)": not eagle.get("use_aux_hidden_state", True),
    }
    refuse_relatives(stored, "EAGLE-3", reasons)


def _aux_layers(config: Mapping[str, Any], target: TargetShape) -> tuple[AuxLayer, ...]:
    """Return the layers: vLLM's key is in config.json itself, SGLang's in its ``eagle_config``."""
    key = "eagle_aux_hidden_state_layer_ids"
    eagle = config.get("eagle_config") or {}
    layers = config.get(key) or [layer + 1 for layer in eagle.get(key) or ()]
    return entering(*(layers or (2, target.layers // 2, target.layers - 3)))


def _norms(stored: Stored, count: int) -> tuple[str, ...]:
    """Return the names of the hidden states' norms; SGLang has older ones too."""
    if not (stored.config.get("fc_norm") or stored.config.get("use_aux_norm")):
        return ()
    if _AUX_NORMS[0] in stored.shapes:
        return _AUX_NORMS
    return tuple(f"fc_norm.{number}.weight" for number in range(count))


def _drafts_at_once(stored: Stored) -> bool:
    """Return True for P-EAGLE."""
    stated = stored.config.get("speculators_model_type")
    return stated == "peagle" or MASK_STATE in stored.shapes


def _mask(stored: Stored, vocabulary: int) -> int:
    config = {**stored.config, **(stored.config.get("dflash_config") or {})}
    key = next((key for key in _MASK_TOKENS if config.get(key) is not None), _MASK_TOKENS[0])
    mask = config.get(key)
    if isinstance(mask, int) and 0 <= mask < vocabulary:
        return mask
    raise stored.wrong_key(key, f"one of the {vocabulary:,} tokens")


def _steps(config: Mapping[str, Any]) -> int:
    """Return how many tokens are drafted in one pass: what speculators propose, or a default."""
    methods = (config.get("speculators_config") or {}).get("proposal_methods") or [{}]
    stated = methods[0].get("speculative_tokens")
    return min(stated if isinstance(stated, int) and stated > 0 else _AT_ONCE, MAX_DEPTH)


def _check_aux_layers(stored: Stored, read: Sequence[AuxLayer], target: TargetShape) -> None:
    """Raise IncompatiblePair where the target lacks one of the layers."""
    layers = [aux_layer.layer for aux_layer in read]
    if not all(isinstance(layer, int) and 0 <= layer <= target.layers for layer in layers):
        inputs, ours = ", ".join(map(str, layers)), target.path.name
        raise other_target(
            stored,
            target,
            f"reads the inputs of layers {inputs}; {ours} has {target.layers} layers",
        )


def _vocabulary(inner: Stored) -> int:
    """Return the size of the target's vocabulary: from the tensors, else from config.json."""
    for name in (EMBEDDING, _MARKED):
        if name in inner.shapes:
            return inner.shapes[name][0]
    return inner.size("vocab_size")


def _expected(stored: Stored, shape: Eagle3HeadShape, joint: int) -> dict[str, tuple[int, ...]]:
    """Return the tensors that are read, and the shapes they must have."""
    a = shape.architecture
    shapes: dict[str, tuple[int, ...]] = {
        prefix + name: size
        for prefix, spec in zip(shape.prefixes, a.layers, strict=True)
        for name, size in layer_shapes(a, spec).items()
    }
    shapes[f"{shape.prefixes[0]}hidden_norm.weight"] = (a.hidden,)
    shapes |= dict.fromkeys(shape.norms, (joint // len(shape.read),))
    shapes |= {"norm.weight": (a.hidden,), HEAD: (a.vocabulary, a.hidden)}
    if shape.norm_before_fc:
        shapes[FC_NORM] = (joint,)
    if shape.mask is not None and stored.shapes.get(MASK_STATE, ())[-1:] != (joint,):
        shapes[MASK_STATE] = (1, joint)
    if EMBEDDING in stored.shapes or a.hidden * len(shape.read) != joint:  # the target's is no fit
        shapes[EMBEDDING] = (shape.vocabulary, a.hidden)
    if TARGETS in stored.shapes or a.vocabulary != shape.vocabulary:
        shapes[TARGETS] = (a.vocabulary,)
    return shapes
