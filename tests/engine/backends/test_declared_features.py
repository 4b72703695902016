"""An executor declares exactly what it computes.

Every feature is tried on a small decoder. A declared one changes the logits, and to the same ones in both
executors. Without a declaration, no such decoder can be made, or the feature changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from torch import Tensor

from engine.backends.native import support as native_support
from engine.backends.native.decoder import NativeDecoder
from engine.backends.native.layers import FEED_FORWARDS, MIXERS
from engine.backends.support import Support
from engine.backends.torch import decoder as eager
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import ModelError
from engine.kernels import native
from engine.kernels.formats import FORMATS
from engine.kernels.native import structures
from engine.kernels.native.library import GATES, Library
from engine.kernels.torch.factory import DTYPES, kernels_for
from engine.models.activations import ACTIVATIONS
from engine.models.architecture import (
    SIZES,
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
    features,
)
from engine.models.base import ModelInfo
from engine.models.prompt_content import ContentRows, PromptContent
from engine.models.tensor_shapes import Names
from tests.support.random_tensors import (
    ARCHITECTURE,
    ATTENTION,
    CONVOLUTION,
    DELTA,
    MAMBA,
    MLP,
    VOCABULARY,
    RandomTensors,
)

TEXT = [7, 3, 99, 3, 64, 12]
INFO = ModelInfo("tried", "", VOCABULARY, len(TEXT), 0, "fp32", "cpu", frozenset())
PLAIN = replace(ATTENTION, rope=None)
EXPERTS = Experts(8, 2, 64, "relu")
RELU = replace(MLP, activation="relu")
BASE = replace(ARCHITECTURE, layers=(LayerSpec(PLAIN, RELU), LayerSpec(PLAIN, RELU)), tied=False)


def mixing(mixer: Attention | GatedDeltaNet | Mamba2 | ShortConvolution) -> Architecture:
    """``BASE`` with another mixer in the first layer."""
    return replace(BASE, layers=(LayerSpec(mixer, RELU), *BASE.layers[1:]))


def feeding(feed_forward: GatedMlp | Mlp | Experts) -> Architecture:
    """``BASE`` with another feed-forward in the first layer."""
    return replace(BASE, layers=(LayerSpec(PLAIN, feed_forward), *BASE.layers[1:]))


ROTATED, NORMED = mixing(ATTENTION), mixing(replace(ATTENTION, qk_norm=True))
assert ATTENTION.rope is not None
EXAMPLES: dict[str, Architecture] = {
    "layers.mixer=Attention": BASE,
    "layers.mixer=GatedDeltaNet": mixing(DELTA),
    "layers.mixer=Mamba2": mixing(MAMBA),
    "layers.mixer=ShortConvolution": mixing(CONVOLUTION),
    "layers.mixer.tiled": mixing(replace(DELTA, tiled=True)),
    "layers.mixer.rope": ROTATED,
    "layers.mixer.rope.magnitude": mixing(
        replace(ATTENTION, rope=replace(ATTENTION.rope, magnitude=1.5))
    ),
    "layers.mixer.rope.interleaved": mixing(
        replace(ATTENTION, rope=replace(ATTENTION.rope, interleaved=True))
    ),
    "layers.mixer.rope.axes": mixing(
        replace(ATTENTION, rope=replace(ATTENTION.rope, axes=(0, 1, 2, 1)))
    ),
    "layers.mixer.window": mixing(replace(PLAIN, window=2)),
    "layers.mixer.qkv_bias": mixing(replace(PLAIN, qkv_bias=True)),
    "layers.mixer.output_bias": mixing(replace(PLAIN, output_bias=True)),
    "layers.mixer.joined": mixing(replace(PLAIN, joined=True)),
    "layers.mixer.qk_norm": NORMED,
    "layers.mixer.qk_norm_across_heads": mixing(
        replace(ATTENTION, qk_norm=True, qk_norm_across_heads=True)
    ),
    "layers.mixer.qk_norm_after_rope": mixing(
        replace(ATTENTION, qk_norm=True, qk_norm_after_rope=True)
    ),
    "layers.mixer.temperature": mixing(replace(PLAIN, temperature=Temperature(2.0, 2))),
    "layers.mixer.output_gate": mixing(replace(PLAIN, output_gate=True)),
    "layers.mixer.shared_with": replace(
        BASE, layers=(*BASE.layers[:1], LayerSpec(replace(PLAIN, shared_with=0), RELU))
    ),
    "layers.mixer.value_norm": mixing(replace(PLAIN, value_norm=True)),
    "layers.mixer.keys_as_values": mixing(replace(PLAIN, keys_as_values=True)),
    "layers.mixer.score_cap": mixing(replace(PLAIN, score_cap=0.5)),
    "layers.mixer.sinks": mixing(replace(PLAIN, sinks=True)),
    "layers.mixer.causal": mixing(replace(PLAIN, causal=False)),
    "layers.feed_forward=GatedMlp": BASE,
    "layers.feed_forward=Mlp": feeding(Mlp(RELU.intermediate, "relu")),
    "layers.feed_forward.bias": feeding(replace(RELU, bias=True)),
    "layers.feed_forward.joined": feeding(replace(RELU, joined=True)),
    "layers.feed_forward=Experts": feeding(EXPERTS),
    "layers.feed_forward.sigmoid": feeding(replace(EXPERTS, sigmoid=True)),
    "layers.feed_forward.score_bias": feeding(replace(EXPERTS, score_bias=True)),
    "layers.feed_forward.renormalised": feeding(replace(EXPERTS, renormalised=True)),
    "layers.feed_forward.scale": feeding(replace(EXPERTS, scale=3.0)),
    "layers.feed_forward.clamp": feeding(replace(EXPERTS, clamp=0.5)),
    "layers.feed_forward.shared": feeding(replace(EXPERTS, shared=64)),
    "layers.feed_forward.norms": replace(
        feeding(replace(EXPERTS, shared=64, norms=True)), sandwich_norms=True
    ),
    "layers.feed_forward.score_scales": feeding(replace(EXPERTS, score_scales=True)),
    "layers.feed_forward.shared_gate": feeding(replace(EXPERTS, shared=64, shared_gate=True)),
    **{
        f"layers.feed_forward.activation={name}": feeding(replace(MLP, activation=name))
        for name in {**ACTIVATIONS, **GATES}
    },
    "tied": replace(BASE, tied=True),
    "centred_norms": replace(BASE, centred_norms=True),
    "sandwich_norms": replace(BASE, sandwich_norms=True),
    "post_norms": replace(BASE, post_norms=True),
    "layer_norms": replace(BASE, layer_norms=True),
    "norm_bias": replace(BASE, norm_bias=True),
    "parallel": replace(BASE, parallel=True),
    "residual_scale": replace(BASE, residual_scale=0.5),
    "logit_scale": replace(BASE, logit_scale=0.5),
    "embedding_scale": replace(BASE, embedding_scale=3.0),
    "logit_cap": replace(BASE, logit_cap=1.0),
    "per_layer_width": replace(BASE, per_layer_width=32),
    "layer_scalars": replace(BASE, layer_scalars=True),
}
"""A decoder with each feature, by its name."""
WITHOUT = {
    "layers.mixer.rope.magnitude": ROTATED,
    "layers.mixer.rope.interleaved": ROTATED,
    "layers.mixer.rope.axes": ROTATED,
    "layers.mixer.qk_norm_across_heads": NORMED,
    "layers.mixer.qk_norm_after_rope": NORMED,
    "layers.mixer.tiled": mixing(DELTA),
    "layers.feed_forward.shared_gate": EXAMPLES["layers.feed_forward.shared"],
    **{
        f"layers.feed_forward.{name}": feeding(EXPERTS)
        for name in (
            "sigmoid",
            "score_bias",
            "renormalised",
            "scale",
            "clamp",
            "shared",
            "score_scales",
        )
    },
}
"""What a decoder is compared with, where that is not ``BASE``."""


@dataclass(frozen=True)
class Executor:
    support: Support
    make: Callable[[Architecture, str], TorchDecoder | NativeDecoder]

    def logits(self, architecture: Architecture, weights: str = "fp32") -> Tensor | None:
        """The logits of all rows; None where no such decoder can be made."""
        try:
            model = self.make(architecture, weights)
        except (AssertionError, KeyError, ModelError, TypeError):
            return None
        state = model.new_state(len(TEXT))
        if any(each.rope is not None for each in architecture.attentions):
            rows = torch.randn(4, architecture.hidden, generator=torch.Generator().manual_seed(1))
            state.content = PromptContent((ContentRows(2, (2, 2), rows),))
        return model.forward(TEXT, state, last=len(TEXT))


def make_torch(architecture: Architecture, weights: str) -> TorchDecoder:
    dtype = DTYPES.get(weights, torch.float32)
    tensors = RandomTensors(architecture)
    return TorchDecoder(
        architecture,
        Names(),
        lambda name: tensors[name].to(dtype),
        INFO,
        kernels_for(weights, dtype),
    )


TORCH = Executor(eager.SUPPORT, make_torch)


@pytest.fixture(scope="module", params=["torch", "native"])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "torch":
        return TORCH
    library: Library = request.getfixturevalue("library")

    def make(architecture: Architecture, weights: str) -> NativeDecoder:
        tensors = RandomTensors(architecture).__getitem__
        return NativeDecoder(architecture, Names(), tensors, INFO, library, weights, torch.float32)

    return Executor(native_support.support(library), make)


def is_computed(executor: Executor, feature: str) -> bool:
    with_it = executor.logits(EXAMPLES[feature])
    if with_it is None or feature in features(BASE):
        return with_it is not None
    without = executor.logits(WITHOUT.get(feature, BASE))
    assert without is not None
    # Joined matrices only lie otherwise in the file.
    return torch.allclose(with_it, without, atol=1e-3) is feature.endswith("joined")


@pytest.mark.parametrize("feature", EXAMPLES)
def test_a_feature_is_declared_exactly_where_it_is_computed(
    feature: str, executor: Executor
) -> None:
    declared = feature in executor.support.features
    assert is_computed(executor, feature) is declared
    assert (executor.support.why_not(EXAMPLES[feature], "fp32") is None) is declared
    if declared:
        logits, reference = executor.logits(EXAMPLES[feature]), TORCH.logits(EXAMPLES[feature])
        assert logits is not None and reference is not None
        assert torch.allclose(logits, reference, atol=1e-3), (logits - reference).abs().max()


def test_every_feature_that_is_declared_or_described_has_an_example(executor: Executor) -> None:
    named = {field.name for field in fields(Architecture)}
    for part, types in get_type_hints(LayerSpec).items():
        for each in get_args(types) or (types,):
            named.add(f"layers.{part}={each.__name__}")
            named |= {f"layers.{part}.{field.name}" for field in fields(each)}
    named |= {f"layers.mixer.rope.{field.name}" for field in fields(Rope)}
    named.remove("layers.feed_forward.activation")  # its values are features
    named.remove("layers.mixer.inputs")  # of heads: a decoder's layers read the residual stream
    assert set(EXAMPLES) >= (named - SIZES) | executor.support.features
    for feature, architecture in EXAMPLES.items():
        assert feature in features(architecture)


@pytest.mark.parametrize("weights", FORMATS)
def test_a_format_is_declared_exactly_where_it_is_computed(
    weights: str, executor: Executor
) -> None:
    logits, exact = executor.logits(ROTATED, weights), executor.logits(ROTATED)
    assert (logits is not None) is (weights in executor.support.formats)
    if logits is not None and exact is not None:
        similar = torch.cosine_similarity(logits.flatten(), exact.flatten(), dim=0)
        assert similar > (0.9 if weights == "nf4" else 0.99)


GATE_NAMES = ("SILU", "GELU", "GELU_TANH", "RELU", "QUICK_GELU")


def test_the_compiled_step_has_the_cases_that_python_declares() -> None:
    support = native_support.support(None)
    assert set(support.mixers) == set(MIXERS)
    assert set(support.feed_forwards) == set(FEED_FORWARDS)
    assert {number for number, _ in MIXERS.values()} == set(structures.Mixer)
    assert set(FEED_FORWARDS.values()) == set(structures.FeedForward)
    folder = Path(native.__file__).parent / "step"
    header, *others = (
        (folder / f"{name}.h").read_text(encoding="utf-8")
        for name in ("structures", "decoder", "arithmetic")
    )
    for name, numbers in (
        ("Mixer", {each.name: each.value for each in structures.Mixer}),
        ("FeedForward", {each.name: each.value for each in structures.FeedForward}),
        (
            "Gate",
            dict(
                zip(
                    ("SILU", "GELU", "GELU_TANH", "RELU", "QUICK_GELU"), GATES.values(), strict=True
                )
            ),
        ),
    ):
        listed = re.search(rf"enum class {name} : int32_t {{(.*?)}}", header)
        assert listed is not None
        assert {n: int(v) for n, v in re.findall(r"(\w+) = (\d+)", listed[1])} == numbers
        assert set(re.findall(rf"case {name}::(\w+)", "".join(others))) == set(numbers)
