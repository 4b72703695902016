"""The tensors of a decoder: their names and shapes, which tell a model's weights without its files.

Names are those of transformers' ...ForCausalLM classes, which all families share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Mlp,
    ShortConvolution,
)

T = TypeVar("T")

_EMBEDDING, _HEAD = "embed_tokens.weight", "lm_head.weight"
PER_LAYER = "per_layer_model_projection", "per_layer_projection_norm"
OWN_NORM = "post_per_layer_input_norm.weight"
ROUTER, SCORE_BIAS = "mlp.gate.weight", "mlp.gate.e_score_correction_bias"
_SHARED, SHARED_GATE = "mlp.shared_expert.", "mlp.shared_expert_gate.weight"
ROUTERS = ROUTER, SHARED_GATE
"""Endings of the names of matrices that choose experts: small, and never quantised."""
ROUTER_NORM, SCORE_SCALE = "router.scale", "router.per_expert_scale"
MIXTURE_NORMS = (
    "pre_feedforward_layernorm_2.weight",
    "post_feedforward_layernorm_1.weight",
    "post_feedforward_layernorm_2.weight",
)
"""Before the experts, after the shared one and after the experts, by Gemma 4's names."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a checkpoint's tensors; the text part of a multimodal model has a longer prefix.

    ``first``: the number of the first layer, for a decoder that has only those from there on.
    """

    root: str = "model."
    head: str = _HEAD
    first: int = 0

    @classmethod
    def among(cls, tensors: Iterable[str]) -> Names:
        root, head = cls().root, cls().head
        for name in tensors:
            if ".layers." in name:  # GLM's drafting layer has an embedding of its own
                continue
            if name.endswith(_EMBEDDING):
                root = name.removesuffix(_EMBEDDING)
            elif name.endswith(_HEAD):
                head = name
        return cls(root, head)

    @property
    def embedding(self) -> str:
        return self.root + _EMBEDDING

    @property
    def per_layer_embedding(self) -> str:
        return f"{self.root}embed_tokens_per_layer.weight"

    @property
    def norm(self) -> str:
        return f"{self.root}norm.weight"

    def layer(self, index: int) -> str:
        return f"{self.root}layers.{self.first + index}."

    def within(self, index: int, tensor: Callable[[str], T]) -> Callable[[str], T]:
        """Return the source of a layer's tensors by their names within it."""
        prefix = self.layer(index)
        return lambda name: tensor(prefix + name)


def tensor_shapes(architecture: Architecture, names: Names) -> dict[str, tuple[int, ...]]:
    """Return the tensors that the decoder reads, with the shapes they must have."""
    layers = {
        names.layer(index) + name: size
        for index, spec in enumerate(architecture.layers)
        for name, size in layer_shapes(architecture, spec).items()
    }
    return layers | outer_shapes(architecture, names)


def outer_shapes(architecture: Architecture, names: Names) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors outside of the layers."""
    shapes = _norm_shapes(architecture, names.norm)
    shapes[names.embedding] = (architecture.vocabulary, architecture.hidden)
    if not architecture.tied:
        shapes[names.head] = (architecture.vocabulary, architecture.hidden)
    if architecture.per_layer_width:
        width = architecture.per_layer_width
        widths = len(architecture.layers) * width
        projection, norm = (f"{names.root}{name}.weight" for name in PER_LAYER)
        shapes[names.per_layer_embedding] = (architecture.vocabulary, widths)
        shapes |= {projection: (widths, architecture.hidden), norm: (width,)}
    return shapes


def unread_tensors(architecture: Architecture, names: Names) -> frozenset[str]:
    """Return what files may hold and nobody reads: keys and values of layers that read others'."""
    return frozenset(
        f"{names.layer(index)}self_attn.{part}.weight"
        for index, spec in enumerate(architecture.layers)
        if isinstance(spec.mixer, Attention) and spec.mixer.shared_with is not None
        for part in ("k_proj", "v_proj", "k_norm")
    )


def layer_shapes(architecture: Architecture, spec: LayerSpec) -> dict[str, tuple[int, ...]]:
    """Return the shapes of one layer's tensors, by their names within it."""
    a, hidden = architecture, architecture.hidden
    match spec.mixer:
        case Attention():
            shapes = _attention_shapes(spec.mixer, hidden)
        case GatedDeltaNet():
            shapes = _gated_delta_shapes(spec.mixer, hidden)
        case Mamba2():
            shapes = _mamba2_shapes(spec.mixer, hidden)
        case ShortConvolution():
            shapes = _short_convolution_shapes(spec.mixer, hidden)
    if isinstance(spec.feed_forward, Experts):
        shapes |= _experts_shapes(spec.feed_forward, hidden)
    else:
        shapes |= _mlp_shapes(spec.feed_forward, hidden)
    for name in norm_names(a):
        shapes |= {} if name is None else _norm_shapes(a, name)
    if a.per_layer_width:
        shapes["per_layer_input_gate.weight"] = (a.per_layer_width, hidden)
        shapes["per_layer_projection.weight"] = (hidden, a.per_layer_width)
        shapes |= _norm_shapes(a, OWN_NORM)
    if a.layer_scalars:
        shapes["layer_scalar"] = (1,)
    return shapes


def widest_rows(architecture: Architecture) -> int:
    """Return the most numbers of a row that a linear layer takes."""
    specs = set(architecture.layers)
    shapes = (shape for spec in specs for shape in layer_shapes(architecture, spec).values())
    return max(shape[1] for shape in shapes if len(shape) == 2)


def norm_names(a: Architecture) -> tuple[str | None, ...]:
    """Return the weights of the norms before and after the mixer, then of those of the feed-forward."""
    first, second = "input_layernorm.weight", "post_attention_layernorm.weight"
    third, fourth = "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"
    assert a.post_norms + a.sandwich_norms + a.parallel <= 1, "these exclude each other"
    if a.post_norms:
        return None, second, None, fourth
    if a.sandwich_norms:
        return first, second, third, fourth
    return first, None, None if a.parallel else second, None


def _norm_shapes(a: Architecture, weight: str) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys([weight, bias_of(weight)] if a.norm_bias else [weight], (a.hidden,))


def bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _attention_shapes(spec: Attention, hidden: int) -> dict[str, tuple[int, ...]]:
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    outputs = {"q": queries, "k": keys, "v": keys}
    if spec.joined:
        outputs = {"qkv": queries + 2 * keys}
    if spec.keys_as_values:
        del outputs["v"]
    if spec.shared_with is not None:
        outputs = {"q": queries}
    if spec.output_gate:
        outputs["q"] *= 2
    shapes: dict[str, tuple[int, ...]] = {}
    for name, rows in outputs.items():
        shapes |= _linear_shapes(
            f"self_attn.{name}_proj", rows, spec.inputs or hidden, spec.qkv_bias
        )
    shapes |= _linear_shapes("self_attn.o_proj", hidden, queries, spec.output_bias)
    if spec.sinks:
        shapes["self_attn.sinks"] = (spec.heads,)
    if spec.qk_norm:
        widths = {"q": queries, "k": keys} if spec.shared_with is None else {"q": queries}
        for name, width in widths.items():
            size = width if spec.qk_norm_across_heads else spec.head_dim
            shapes[f"self_attn.{name}_norm.weight"] = (size,)
    return shapes


def _gated_delta_shapes(spec: GatedDeltaNet, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by the names of transformers' Qwen3.5."""
    shapes = {
        "in_proj_qkv.weight": (spec.channels, hidden),
        "in_proj_z.weight": (spec.values, hidden),
        "in_proj_a.weight": (spec.value_heads, hidden),
        "in_proj_b.weight": (spec.value_heads, hidden),
        "conv1d.weight": (spec.channels, 1, spec.kernel),
        "A_log": (spec.value_heads,),
        "dt_bias": (spec.value_heads,),
        "norm.weight": (spec.value_dim,),
        "out_proj.weight": (hidden, spec.values),
    }
    return {f"linear_attn.{name}": shape for name, shape in shapes.items()}


def _mamba2_shapes(spec: Mamba2, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by the names of transformers' Granite."""
    shapes = {
        "in_proj.weight": (spec.values + spec.channels + spec.heads, hidden),
        "conv1d.weight": (spec.channels, 1, spec.kernel),
        "conv1d.bias": (spec.channels,),
        "A_log": (spec.heads,),
        "dt_bias": (spec.heads,),
        "D": (spec.heads,),
        "norm.weight": (spec.values,),
        "out_proj.weight": (hidden, spec.values),
    }
    return {f"mamba.{name}": shape for name, shape in shapes.items()}


def _short_convolution_shapes(spec: ShortConvolution, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by the names of transformers' LFM2."""
    return {
        "conv.in_proj.weight": (3 * spec.width, hidden),
        "conv.conv.weight": (spec.width, 1, spec.kernel),
        "conv.out_proj.weight": (hidden, spec.width),
    }


def _mlp_shapes(
    spec: GatedMlp | Mlp, hidden: int, prefix: str = "mlp."
) -> dict[str, tuple[int, ...]]:
    width = spec.intermediate
    outputs = {"up": width}
    if isinstance(spec, GatedMlp):
        outputs = {"gate_up": 2 * width} if spec.joined else {"gate": width, "up": width}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, rows in outputs.items():
        shapes |= _linear_shapes(f"{prefix}{name}_proj", rows, hidden, spec.bias)
    return shapes | _linear_shapes(f"{prefix}down_proj", hidden, width, spec.bias)


def _experts_shapes(spec: Experts, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes by the names of transformers' Qwen3-MoE; checkpoints/parts.py has others."""
    shapes = _linear_shapes("mlp.gate", spec.count, hidden, spec.bias)
    for expert in range(spec.count):
        shapes |= _mlp_shapes(spec.expert, hidden, f"mlp.experts.{expert}.")
    if spec.score_bias:
        shapes[SCORE_BIAS] = (spec.count,)
    if spec.shared is not None:
        shared = replace(spec.expert, intermediate=spec.shared, bias=False)
        shapes |= _mlp_shapes(shared, hidden, shared_prefix(spec))
    if spec.norms:
        shapes |= {name: (hidden,) for name in (ROUTER_NORM, *MIXTURE_NORMS)}
    if spec.score_scales:
        shapes[SCORE_SCALE] = (spec.count,)
    if spec.shared_gate:
        shapes[SHARED_GATE] = (1, hidden)
    return shapes


def _linear_shapes(name: str, rows: int, columns: int, biased: bool) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (rows, columns)}
    return shapes | {f"{name}.bias": (rows,)} if biased else shapes


def shared_prefix(spec: Experts) -> str:
    """Return where the shared expert's tensors are: of Gemma 4 it is the layer's MLP."""
    return "mlp." if spec.norms else _SHARED
