"""The files of EAGLE-3 heads.

Two published layouts are read, which differ in names alone: SafeAILab's (``midlayer.``, a Llama's
config.json with ``draft_vocab_size``) and that of speculators (``layers.0.``, the layer's configuration
under ``transformer_layer_config``). A head without an embedding uses the target's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.drafting.heads.base import TargetShape, check_fits, other_target
from engine.drafting.heads.layers import read_layers, refuse_relatives
from engine.drafting.heads.stored import Stored
from engine.errors import ModelError
from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxLayer, entering
from engine.models.tensor_shapes import layer_shapes

EMBEDDING, HEAD, FC_NORM = "embed_tokens.weight", "lm_head.weight", "input_norm.weight"
TARGETS, _MARKED = "d2t", "t2d"
_HEADS, _CONTEXT = 32, 2048
"""Transformers' defaults, which speculators leave out of a ``transformer_layer_config``."""


@dataclass(frozen=True, slots=True)
class Eagle3HeadShape:
    """What config.json and the tensors' shapes say.

    ``read``: the aux layers in the order ``fc`` takes them. ``architecture.vocabulary``: draft tokens.
    """

    architecture: Architecture
    prefix: str
    read: tuple[AuxLayer, ...]
    vocabulary: int  # of the target
    norm_before_residual: bool
    norm_before_fc: bool
    norm_output: bool


def read_shape(stored: Stored, target: TargetShape) -> Eagle3HeadShape:
    """Return what the head in ``stored`` computes. Raises ModelError or IncompatiblePair."""
    config = stored.config
    nested = config.get("transformer_layer_config")
    inner = replace(stored, config=nested if isinstance(nested, Mapping) else config)
    _check_plain(stored)
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
        inputs=2 * hidden,
        heads=_HEADS,
        context=_CONTEXT,
    )
    shape = Eagle3HeadShape(
        a,
        prefix,
        read,
        _vocabulary(inner),
        # vLLM's defaults for the two layouts.
        norm_before_residual=bool(config.get("norm_before_residual", nested is not None)),
        norm_before_fc=bool(config.get("norm_before_fc", False)),
        norm_output=bool(config.get("norm_output", False)),
    )
    check_fits(stored, target, hidden=joint // len(read), vocabulary=shape.vocabulary)
    _check_aux_layers(stored, read, target)
    stored.expect(_expected(stored, shape, joint))
    return shape


def _check_plain(stored: Stored) -> None:
    """Raise ModelError for relatives of EAGLE-3 that compute something else."""
    config, eagle = stored.config, stored.config.get("eagle_config") or {}
    reasons = {
        "more than one layer": any(name.startswith("layers.1.") for name in stored.shapes),
        "a norm for each hidden state (fc_norm, EAGLE 3.1)": config.get("fc_norm"),
        "one hidden state only (use_aux_hidden_state)": not eagle.get("use_aux_hidden_state", True),
    }
    refuse_relatives(stored, "EAGLE-3", reasons)


def _aux_layers(config: Mapping[str, Any], target: TargetShape) -> tuple[AuxLayer, ...]:
    """Return the layers: vLLM's key is in config.json itself, SGLang's in its ``eagle_config``."""
    key = "eagle_aux_hidden_state_layer_ids"
    eagle = config.get("eagle_config") or {}
    layers = config.get(key) or [layer + 1 for layer in eagle.get(key) or ()]
    return entering(*(layers or (2, target.layers // 2, target.layers - 3)))


def _check_aux_layers(stored: Stored, read: Sequence[AuxLayer], target: TargetShape) -> None:
    """Raise IncompatiblePair where the target lacks one of the layers."""
    layers = [aux_layer.layer for aux_layer in read]
    if not all(isinstance(layer, int) and 0 <= layer <= target.layers for layer in layers):
        inputs, ours = ", ".join(map(str, layers)), target.path.name
        raise other_target(
            stored,
            target,
            f"reads what enters layers {inputs}, {ours} has {target.layers} layers",
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
        shape.prefix + name: size for name, size in layer_shapes(a, a.layers[0]).items()
    }
    shapes[f"{shape.prefix}hidden_norm.weight"] = (a.hidden,)
    shapes |= {"norm.weight": (a.hidden,), HEAD: (a.vocabulary, a.hidden)}
    if shape.norm_before_fc:
        shapes[FC_NORM] = (joint,)
    if EMBEDDING in stored.shapes or a.hidden * len(shape.read) != joint:  # the target's is no fit
        shapes[EMBEDDING] = (shape.vocabulary, a.hidden)
    if TARGETS in stored.shapes or a.vocabulary != shape.vocabulary:
        shapes[TARGETS] = (a.vocabulary,)
    return shapes
