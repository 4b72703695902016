"""The declaration of what an executor computes. It gets no model that needs more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.kernels.formats import AS_STORED
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    Mamba2,
    Mlp,
    ShortConvolution,
    features,
)

ATTENTION: Mapping[type, frozenset[str]] = {
    Attention: frozenset(
        {
            "rope", "rope.magnitude", "rope.interleaved", "window", "qkv_bias", "output_bias", "joined",
            "qk_norm", "score_cap", "keys_as_values",
        }
    )
}  # fmt: skip
"""Attention, with the options that every executor computes."""
ALL_MIXERS: Mapping[type, frozenset[str]] = {
    Attention: ATTENTION[Attention]
    | {
        "output_gate", "shared_with", "value_norm", "qk_norm_across_heads", "qk_norm_after_rope",
        "temperature", "sinks", "rope.axes",
    },
    GatedDeltaNet: frozenset({"tiled"}),
    Mamba2: frozenset(),
    ShortConvolution: frozenset(),
}  # fmt: skip
"""All mixers of a decoder's, with all their options."""
GATED_MLP: Mapping[type, frozenset[str]] = {GatedMlp: frozenset({"bias", "joined"})}
"""The feed-forward of every executor, with its options."""
MLPS: Mapping[type, frozenset[str]] = {**GATED_MLP, Mlp: frozenset({"bias"})}
EXPERTS: Mapping[type, frozenset[str]] = {
    Experts: frozenset(
        {
            "sigmoid", "score_bias", "renormalised", "scale", "bias", "clamp", "shared",
            "shared_gate", "norms", "score_scales",
        }
    )
}  # fmt: skip
"""Mixtures, with all their options."""
HEAD_EXPERTS: Mapping[type, frozenset[str]] = {Experts: EXPERTS[Experts] - {"bias", "norms"}}
"""Mixtures in heads."""
HEAD_ATTENTION: Mapping[type, frozenset[str]] = {
    Attention: frozenset(
        {
            "rope", "rope.magnitude", "rope.axes", "qkv_bias", "output_bias", "qk_norm", "output_gate",
            "causal", "inputs", "window",
        }
    )
}  # fmt: skip
"""The attention operation of heads (``Operations.attend``), with its options."""
DECODER = frozenset({"tied", "centred_norms", "sandwich_norms", "embedding_scale", "logit_cap"})
"""Options of ``Architecture`` that every executor computes."""
ALL_DECODER = DECODER | {
    "post_norms", "layer_norms", "norm_bias", "parallel", "residual_scale", "logit_scale",
    "per_layer_width", "layer_scalars",
}  # fmt: skip
"""All options of ``Architecture``."""


@dataclass(frozen=True, slots=True)
class Support:
    """The operations of an executor.

    backend        its name in sentences: "The compiled kernels"
    mixers         types of mixers, each with its options that are computed
    feed_forwards  likewise
    activations    of gates, by transformers' names
    formats        of weights
    options        of ``Architecture``
    blocks         formats of a GGUF file's blocks multiplied as stored, if ``formats`` has ``AS_STORED``
    """

    backend: str
    mixers: Mapping[type, Collection[str]]
    feed_forwards: Mapping[type, Collection[str]]
    activations: Collection[str]
    formats: tuple[str, ...]
    options: frozenset[str] = DECODER
    blocks: frozenset[str] = frozenset()

    @property
    def features(self) -> frozenset[str]:
        """All computed features, by the names of ``engine.models.architecture.features``."""
        named = set(self.options)
        for field, parts in (("mixer", self.mixers), ("feed_forward", self.feed_forwards)):
            named |= {f"layers.{field}={part.__name__}" for part in parts}
            named |= {f"layers.{field}.{option}" for each in parts.values() for option in each}
        activations = {f"layers.feed_forward.activation={name}" for name in self.activations}
        return frozenset(named | activations)

    def why_not(
        self, architecture: Architecture, weights: str, blocks: Collection[str] = ()
    ) -> str | None:
        """Return why the model cannot run with ``weights``, as a sentence for users; None if it can.

        ``blocks``: the blocks' formats if ``weights`` is ``AS_STORED``. Sizes are not checked here.
        """
        missing = sorted(features(architecture) - self.features)
        if missing:
            return f"{self.backend} cannot compute {', '.join(missing)}, which the model needs."
        if weights not in self.formats:
            return (
                f"{self.backend} cannot compute with {weights} weights, only with "
                f"{', '.join(self.formats)}."
            )
        unknown = sorted(set(blocks) - self.blocks) if weights == AS_STORED else ()
        if unknown:
            return f"{self.backend} cannot compute with {', '.join(unknown).upper()} blocks."
        return None
