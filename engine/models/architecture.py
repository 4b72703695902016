"""What a decoder computes, as values: read from config.json by a family, executed by decoder.py.

A field says what a layer does, never whose it is. So a family is a function that fills an
``Architecture`` in, and there is one forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: pair i of a head turns by ``frequencies[i]`` radians a position.

    Fewer frequencies than half the head's width leave the rest of the head as it is. ``magnitude``
    multiplies what is turned (YaRN and LongRoPE sharpen attention this way).
    """

    frequencies: tuple[float, ...]
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What tells layers of one model apart. ``window``: positions a row sees, itself included."""

    rope: Rope | None  # None: the layer knows no positions (NoPE)
    window: int | None = None  # None: all of the past


@dataclass(frozen=True, slots=True)
class Architecture:
    """A pre-norm decoder with gated feed-forward layers and grouped-query attention."""

    layers: tuple[LayerSpec, ...]
    vocabulary: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    tied: bool
    """The output head is the embedding."""
    activation: str
    """Transformers' name of the gate's function."""
    query_scale: float
    """Multiplies the scores; head_dim ** -0.5 in most models."""

    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    joined: bool = False
    """The file holds qkv_proj and gate_up_proj instead of their parts."""
    qk_norm: bool = False
    """Queries and keys are normalised per head before they are turned."""
    centred_norms: bool = False
    """Norms multiply by 1 + weight."""
    sandwich_norms: bool = False
    """Attention and feed-forward results are normalised too, before they are added."""
    embedding_scale: float = 1.0
    score_cap: float | None = None
    """Scores s become cap * tanh(s / cap)."""
    logit_cap: float | None = None
