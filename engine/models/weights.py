"""The weights of a decoder's layers, as ``weight_loading`` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.kernels.cuda.linear.fusion import Norm
from engine.kernels.torch.linear import Linear


@dataclass(frozen=True, slots=True)
class RmsNorm(Norm):
    """See ``Norm``; computed in the dtype of ``weight (width,)``. ``bias (width,)`` lies behind it in
    memory."""

    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class LayerNorm(RmsNorm):
    """LayerNorm (Ba, Kiros, Hinton 2016): the mean is subtracted first."""


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Weights of ``Attention``. None for those that the model lacks."""

    qkv: Linear  # hidden -> (heads + 2 * kv_heads) * head_dim, and heads * head_dim gates if there are
    qk_norm: Tensor | None  # (heads + kv_heads, head_dim), float32
    output: Linear
    sinks: Tensor | None = None  # (heads,), float32


@dataclass(frozen=True, slots=True)
class GatedDeltaWeights:
    """Weights of ``GatedDeltaNet``."""

    inputs: Linear  # hidden -> channels (queries, keys, values), gates, alpha, beta
    convolution: Tensor  # (kernel, channels), float32
    decay: Tensor  # (value_heads,), float32: -exp(A_log)
    decay_bias: Tensor  # (value_heads,), float32
    norm: Tensor  # (value_dim,), float32
    output: Linear


@dataclass(frozen=True, slots=True)
class Mamba2Weights:
    """Weights of ``Mamba2``."""

    inputs: Linear  # hidden -> gates, channels (x, B, C), dt
    convolution: Tensor  # (kernel, channels), float32
    convolution_bias: Tensor  # (channels,), float32
    decay: Tensor  # (heads,), float32: -exp(A_log)
    step_bias: Tensor  # (heads,), float32
    skip: Tensor  # (heads,), float32: D
    norm: Tensor  # (values,), float32
    output: Linear


@dataclass(frozen=True, slots=True)
class ShortConvolutionWeights:
    """Weights of ``ShortConvolution``."""

    inputs: Linear  # hidden -> B, C and x, width each
    convolution: Tensor  # (kernel, width), float32
    output: Linear


MixerWeights = AttentionWeights | GatedDeltaWeights | Mamba2Weights | ShortConvolutionWeights


@dataclass(frozen=True, slots=True)
class GatedMlpWeights:
    """Weights of ``GatedMlp``."""

    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear


@dataclass(frozen=True, slots=True)
class MlpWeights:
    """Weights of ``Mlp``."""

    up: Linear  # hidden -> intermediate
    down: Linear


@dataclass(frozen=True, slots=True)
class MixtureNorms:
    """Norms of a mixture whose parts have their own. The norm before the whole has no weight.

    ``experts`` and ``shared`` (hidden,), float32, multiply its rows; the router's is in its matrix.
    """

    experts: Tensor
    shared: Tensor
    experts_after: RmsNorm
    shared_after: RmsNorm


@dataclass(frozen=True, slots=True)
class ExpertsWeights:
    """Weights of ``Experts``. None for those that the model lacks.

    ``gate_up`` and ``down``: a linear layer for each expert, or one of them all where kernels stack them:
    first the gates of all experts, then their other factors.
    """

    router: Linear  # hidden -> count, and the shared expert's gate; float32
    score_bias: Tensor | None  # (count,), float32
    gate_up: Linear | tuple[Linear, ...]
    down: Linear | tuple[Linear, ...]
    shared: GatedMlpWeights | None
    norms: MixtureNorms | None = None
    score_scale: Tensor | None = None  # (count,), float32


FeedForwardWeights = GatedMlpWeights | MlpWeights | ExpertsWeights


@dataclass(frozen=True, slots=True)
class OwnInputWeights:
    """Weights by which a layer reads its own input (``Architecture.per_layer_width``)."""

    gate: Linear  # hidden -> width
    output: Linear  # width -> hidden
    after: RmsNorm


@dataclass(frozen=True, slots=True)
class PerLayerWeights:
    """Weights that make the layers' own inputs: norm(projection(x)) + scale * second embedding."""

    projection: Linear  # hidden -> layers * width
    norm: RmsNorm  # of each layer's part
    scale: float


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights. None for those that the model lacks."""

    mixer_norm: RmsNorm | None
    mixer: MixerWeights
    mixer_after: RmsNorm | None
    feed_forward_norm: RmsNorm | None
    feed_forward: FeedForwardWeights
    feed_forward_after: RmsNorm | None
    own_input: OwnInputWeights | None = None
    scalar: float = 1.0

    @property
    def attention(self) -> AttentionWeights:
        """The mixer, which must be attention. Raises TypeError for another."""
        if not isinstance(self.mixer, AttentionWeights):
            raise TypeError(f"a layer has {type(self.mixer).__name__}, no attention")
        return self.mixer
