"""Give the compiled step the layers of a model: structures that point into loaded weights and tables."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from engine.kernels.native import library as native
from engine.kernels.native import structures
from engine.kernels.native.library import Matrix
from engine.kernels.torch.linear import Biased
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Mlp,
    Rope,
    ShortConvolution,
    Temperature,
)
from engine.models.rotation import axis_of_pairs, cosines, temperatures
from engine.models.weights import ExpertsWeights, GatedMlpWeights, Layer, MlpWeights, RmsNorm

MIXERS: Mapping[type, tuple[structures.Mixer, str]] = {
    Attention: (structures.Mixer.ATTENTION, "attention"),
    GatedDeltaNet: (structures.Mixer.GATED_DELTA, "delta"),
    Mamba2: (structures.Mixer.MAMBA2, "mamba"),
    ShortConvolution: (structures.Mixer.SHORT_CONVOLUTION, "convolution"),
}
"""The step's numbers of mixers, and the fields of a layer with what they need."""
FEED_FORWARDS: Mapping[type, structures.FeedForward] = {
    GatedMlp: structures.FeedForward.GATED_MLP,
    Mlp: structures.FeedForward.MLP,
    Experts: structures.FeedForward.EXPERTS,
}
"""The step's numbers of feed-forwards."""


class Positions:
    """Tables of the positions up to ``context``, which layers share."""

    def __init__(self, architecture: Architecture, context: int) -> None:
        self.rotations: dict[tuple[Rope, int], Tensor] = {}
        """Cosines and sines."""
        self.temperatures: dict[Temperature | None, Tensor] = {}
        self.axes: dict[tuple[Rope, int], Tensor] = {}
        """Which axis turns each pair, where rows in images turn otherwise."""
        for each in set(architecture.attentions):
            if each.rope is not None:
                key = each.rope, each.head_dim
                self.rotations[key] = cosines(*key, context)
                if each.rope.axes:
                    self.axes[key] = axis_of_pairs(*key)
            if each.temperature is not None:
                self.temperatures[each.temperature] = temperatures(each.temperature, context)

    def of(self, spec: Attention) -> dict[str, Tensor | None]:
        """Return a layer's tables by the step's names; None for those that it lacks."""
        key = None if spec.rope is None else (spec.rope, spec.head_dim)
        return {
            "rotation": key and self.rotations[key],
            "axes": key and self.axes.get(key),
            "temperature": self.temperatures.get(spec.temperature),
        }


def layer_structure(
    layer: Layer, spec: LayerSpec, positions: Positions, slot: int
) -> structures.Layer:
    """Return ``layer`` for the step. ``slot``: the index of what its mixer keeps of a sequence."""
    mixer, feed_forward = spec.mixer, spec.feed_forward
    activation = feed_forward.activation
    number, field = MIXERS[type(mixer)]
    made = structures.Layer(
        mixer=number,
        feed_forward=FEED_FORWARDS[type(feed_forward)],
        mixer_norm=_number(layer.mixer_norm),
        mixer_after=_number(layer.mixer_after),
        mlp_norm=_number(layer.feed_forward_norm),
        mlp_after=_number(layer.feed_forward_after),
        scalar=layer.scalar,
    )
    others: dict[str, Any] = {"slot": slot}
    if isinstance(mixer, Attention):
        others |= {"shared": mixer.shared_with is not None, **positions.of(mixer)}
    fill(getattr(made, field), layer.mixer, mixer, **others)
    if isinstance(layer.feed_forward, ExpertsWeights):
        assert isinstance(feed_forward, Experts)
        made.experts = experts(layer.feed_forward, feed_forward)
    else:
        _fill_mlp(made.mlp, layer.feed_forward, feed_forward.intermediate, activation)
    if layer.own_input is not None:
        fill(made.own, layer.own_input, function=activation)
    return made


def _fill_mlp(
    made: structures.GatedMlp, weights: GatedMlpWeights | MlpWeights, width: int, activation: str
) -> None:
    first = weights.up if isinstance(weights, MlpWeights) else weights.gate_up
    fill(made, gate_up=first, down=weights.down, intermediate=width, gate=activation)


def experts(weights: ExpertsWeights, spec: Experts) -> structures.Experts:
    """Return a mixture for the step, which points into ``weights``."""
    made, norms = structures.Experts(), weights.norms
    if weights.shared is not None and spec.shared is not None:
        _fill_mlp(made.shared, weights.shared, spec.shared, spec.activation)
    fill(
        made,
        weights,
        spec,
        shared=made.shared,
        gate=spec.activation,
        norm=norms and norms.experts,
        shared_norm=norms and norms.shared,
        after=norms and norms.experts_after,
        shared_after=norms and norms.shared_after,
    )
    return made


def fill(made: ctypes.Structure, *sources: object, **others: object) -> None:
    """Set all fields of ``made``: to ``others``, else to the attribute of the first source that has it.

    None is left as it was made: a null pointer, or 0.
    """
    for name, *_ in made._fields_:
        value = others.get(name)
        if name not in others:
            value = getattr(next(each for each in sources if hasattr(each, name)), name)
        if value is not None:
            setattr(made, name, _number(value))


def _number(value: Any) -> Any:
    """Return what a field of a structure holds: an address or a number."""
    match value:
        case Tensor():
            return value.data_ptr()
        case RmsNorm():  # its bias lies behind
            return value.weight.data_ptr()
        case Biased():  # from now on its matrix adds the bias
            assert isinstance(value.linear, Matrix)
            value.linear.set_bias(value.bias)
            return value.linear.pointer
        case Matrix():
            return value.pointer
        case str():
            return native.GATES[value]
    return value
