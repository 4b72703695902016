"""How EAGLE-3 heads are stored, and what their files say.

Two published layouts are read, which differ in names alone: SafeAILab's (``midlayer.``, a Llama's
config.json with ``draft_vocab_size``) and that of speculators (``layers.0.``, the layer's configuration
under ``transformer_layer_config``). An embedding that is not in the file is the target's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.drafting.heads.base import TargetShape, check_fits
from engine.drafting.heads.layers import read_layers
from engine.drafting.heads.stored import Stored
from engine.errors import IncompatiblePair, ModelError
from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxLayer, entering
from engine.models.weights import layer_shapes

EMBEDDING, HEAD, FC_NORM = "embed_tokens.weight", "lm_head.weight", "input_norm.weight"
TARGETS, _MARKED = "d2t", "t2d"
_ATTENTION, _CONTEXT = 32, 2048
"""Transformers' defaults, which speculators leave out of a ``transformer_layer_config``."""


@dataclass(frozen=True, slots=True)
class Eagle3HeadShape:
    """What config.json and the tensors' shapes say.

    ``read`` are the aux layers as ``fc`` takes them. ``architecture.vocabulary`` counts draft tokens.
    """

    architecture: Architecture
    prefix: str
    read: tuple[AuxLayer, ...]
    vocabulary: int  # of the target
    norm_before_residual: bool
    norm_before_fc: bool
    norm_output: bool


def read_shape(stored: Stored, target: TargetShape) -> Eagle3HeadShape:
    """What the head in ``stored`` computes. Raises ModelError or IncompatiblePair."""
    config = stored.config
    nested = config.get("transformer_layer_config")
    inner = replace(stored, config=nested if isinstance(nested, Mapping) else config)
    _refuse_others(stored)
    prefix = "midlayer." if "midlayer.hidden_norm.weight" in stored.shapes else "layers.0."
    read = _aux_layers(config, target)
    hidden, joint = stored.matrix("fc.weight")
    if joint % len(read):
        raise ModelError(
            f"In {stored.folder}, fc.weight takes {joint:,} numbers; that is no multiple of the "
            f"{len(read)} hidden states which config.json has it read. Download the head again."
        )
    a = read_layers(
        inner,
        prefix,
        count=1,
        hidden=hidden,
        vocabulary=inner.matrix(HEAD)[0],
        qk_norm=f"{prefix}self_attn.q_norm.weight" in inner.shapes,
        heads=_ATTENTION,
        context=_CONTEXT,
    )
    shape = Eagle3HeadShape(
        a,
        prefix,
        read,
        _vocabulary(inner),
        # vLLM takes either for granted where config.json does not say.
        norm_before_residual=bool(config.get("norm_before_residual", nested is not None)),
        norm_before_fc=bool(config.get("norm_before_fc", False)),
        norm_output=bool(config.get("norm_output", False)),
    )
    check_fits(stored, target, hidden=joint // len(read), vocabulary=shape.vocabulary)
    _check_aux_layers(stored, read, target)
    stored.expect(_expected(stored, shape, joint))
    return shape


def _refuse_others(stored: Stored) -> None:
    """Raises ModelError for relatives of EAGLE-3 that compute something else."""
    config, eagle = stored.config, stored.config.get("eagle_config") or {}
    reasons = {
        "more than one layer": any(name.startswith("layers.1.") for name in stored.shapes),
        "a norm for each hidden state (fc_norm, EAGLE 3.1)": config.get("fc_norm"),
        "one hidden state only (use_aux_hidden_state)": not eagle.get("use_aux_hidden_state", True),
    }
    for reason, given in reasons.items():
        if given:
            raise ModelError(
                f"{stored.folder} is no plain EAGLE-3 head: it has {reason}, which is not computed "
                "here. Choose another head for this target."
            )


def _aux_layers(config: Mapping[str, Any], target: TargetShape) -> tuple[AuxLayer, ...]:
    """vLLM's numbers where they stand in config.json itself, SGLang's in its ``eagle_config``."""
    key = "eagle_aux_hidden_state_layer_ids"
    eagle = config.get("eagle_config") or {}
    layers = config.get(key) or [layer + 1 for layer in eagle.get(key) or ()]
    return entering(*(layers or (2, target.layers // 2, target.layers - 3)))


def _check_aux_layers(stored: Stored, read: Sequence[AuxLayer], target: TargetShape) -> None:
    """Raises IncompatiblePair where the target has no such layer."""
    layers = [aux_layer.layer for aux_layer in read]
    if not all(isinstance(layer, int) and 0 <= layer <= target.layers for layer in layers):
        raise IncompatiblePair(
            f"The head {stored.folder.name} was made for another target: it reads what enters layers "
            f"{', '.join(map(str, layers))}, {target.path.name} has {target.layers} layers. Choose "
            f"a head that was trained for {target.path.name}."
        )


def _vocabulary(inner: Stored) -> int:
    """Rows of the target's vocabulary, by the tensors if they tell."""
    for name in (EMBEDDING, _MARKED):
        if name in inner.shapes:
            return inner.shapes[name][0]
    return inner.size("vocab_size")


def _expected(stored: Stored, shape: Eagle3HeadShape, joint: int) -> dict[str, tuple[int, ...]]:
    """All tensors that are read, and the shapes they must have."""
    a = shape.architecture
    shapes: dict[str, tuple[int, ...]] = {
        shape.prefix + name: size for name, size in layer_shapes(a, a.layers[0]).items()
    }
    own = a.layers[0].attention
    for name, heads in (("q", own.heads), ("k", own.kv_heads), ("v", own.kv_heads)):
        wide = heads * own.head_dim, 2 * a.hidden
        shapes[f"{shape.prefix}self_attn.{name}_proj.weight"] = wide
    shapes[f"{shape.prefix}hidden_norm.weight"] = (a.hidden,)
    shapes |= {"norm.weight": (a.hidden,), HEAD: (a.vocabulary, a.hidden)}
    if shape.norm_before_fc:
        shapes[FC_NORM] = (joint,)
    if EMBEDDING in stored.shapes or a.hidden * len(shape.read) != joint:  # of another width
        shapes[EMBEDDING] = (shape.vocabulary, a.hidden)
    if TARGETS in stored.shapes or a.vocabulary != shape.vocabulary:
        shapes[TARGETS] = (a.vocabulary,)
    return shapes
