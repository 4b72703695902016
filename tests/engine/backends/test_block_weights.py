"""The compiled decoder with matrices as a GGUF file stores them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.backends.native.decoder import NativeDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.kernels.formats.blocks import Weight
from engine.kernels.native.library import Library
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedMlp,
    LayerSpec,
    Rope,
)
from engine.models.base import ModelInfo
from engine.models.tensor_shapes import Names, tensor_shapes
from tests.support.block_matrices import random_blocks
from tests.support.sameness import (
    check_parts,
    check_rollback,
    check_rows,
    check_together,
    check_tree,
)

NAMES = Names()
MIXED = {"v_proj": "q6_k", "down_proj": "q5_k", "lm_head": "q8_0", "gate_proj": "q4_0"}
"""As files mix them; the others are q4_k."""


MLP = GatedMlp(512, "silu")
EXPERTS = Experts(
    6, 2, 256, "quick_gelu", sigmoid=True, score_bias=True, renormalised=True, bias=True, clamp=2.0,
    shared=512, shared_gate=True,
)  # fmt: skip


def architecture(joined: bool) -> Architecture:
    rope = Rope(tuple(10000 ** (-pair / 32) for pair in range(32)))
    attention = Attention(4, 2, 64, 64**-0.5, rope, qkv_bias=not joined, joined=joined)
    layers = (LayerSpec(attention, replace(MLP, joined=joined)),) * 2
    return Architecture(layers, vocabulary=100, hidden=256, epsilon=1e-6, tied=False)


def weights(of: Architecture) -> dict[str, Weight]:
    generator = torch.Generator().manual_seed(5)
    found: dict[str, Weight] = {}
    for seed, (name, shape) in enumerate(tensor_shapes(of, NAMES).items()):
        if len(shape) == 1:
            found[name] = 1 + 0.1 * torch.randn(shape, generator=generator)
        else:
            format = next((kind for part, kind in MIXED.items() if part in name), "q4_k")
            blocks = random_blocks(format, *shape, seed=seed)
            # Of trained weights' size: in larger ones attention turns on the last bit of a score.
            found[name] = blocks.times(float(0.06 / blocks.dequantise().std()))
    return found


def decoder(of: Architecture, stored: dict[str, Weight], library: Library) -> NativeDecoder:
    info = ModelInfo("random", "random", of.vocabulary, 512, 0, "stored", "cpu", frozenset())
    return NativeDecoder(of, NAMES, stored.__getitem__, info, library, "fp32", torch.float32)


@pytest.mark.parametrize("joined", [False, True], ids=["apart", "joined"])
def test_it_computes_what_the_widened_weights_do(joined: bool, library: Library) -> None:
    """Rotary order, the scores' scale, biases and parts: any of them wrong is far off."""
    of = architecture(joined)
    stored = weights(of)
    wide = {
        name: held if isinstance(held, torch.Tensor) else held.dequantise()
        for name, held in stored.items()
    }
    text = _text(of, 60)
    found, exact = (
        model.forward(text, model.new_state(512), last=60)
        for model in (decoder(of, stored, library), decoder(of, dict(wide), library))
    )
    assert (found - exact).norm() < 0.1 * exact.norm()


def test_rows_have_the_bits_of_rows_alone(library: Library) -> None:
    of = architecture(joined=False)
    model = decoder(of, weights(of), library)
    check_rows(model, _text(of, 70), 40)


def test_layers_may_have_heads_and_widths_of_their_own(library: Library) -> None:
    """In caches too, over rows, trees, rollbacks and several sequences. The last shares a cache."""
    narrow = Rope(tuple(10000 ** (-pair / 16) for pair in range(16)))
    layers = (
        *architecture(joined=False).layers,
        LayerSpec(Attention(8, 1, 32, 32**-0.5, narrow, window=9), GatedMlp(256, "gelu")),
        LayerSpec(Attention(2, 2, 128, 128**-0.5, None, qk_norm=True, score_cap=30.0), MLP),
        LayerSpec(Attention(16, 1, 32, 32**-0.5, narrow, qk_norm=True, shared_with=2), MLP),
        LayerSpec(Attention(4, 2, 64, 64**-0.5, narrow, sinks=True), EXPERTS),
    )
    of = replace(architecture(joined=False), layers=layers)
    stored = weights(of)
    model, text = decoder(of, stored, library), _text(of, 90)
    wide = {
        name: held if isinstance(held, torch.Tensor) else held.dequantise()
        for name, held in stored.items()
    }
    eager = TorchDecoder(of, NAMES, wide.__getitem__, model.info)
    found, exact = (each.forward(text, each.new_state(512), last=60) for each in (model, eager))
    assert (found - exact).norm() < 0.1 * exact.norm()
    for each in (model, eager):
        check_rows(each, text, 40)
    check_rollback(model, text, [[7] * 15, [9] * 15])
    check_parts(model, text, [1, 7, 64])
    check_tree(model, text[:30], seed=1)
    check_together(model, seed=2)


def _text(of: Architecture, count: int) -> list[int]:
    drawn = torch.randint(of.vocabulary, (count,), generator=torch.Generator().manual_seed(6))
    return [int(token) for token in drawn]


def test_the_scale_of_scores_adds_no_rounding_to_halves(library: Library) -> None:
    """Folded into queries of 16 bits, 1 / sqrt(48) once rounded them a second time."""
    rope = Rope(tuple(10000 ** (-pair / 24) for pair in range(24)))
    attention = Attention(2, 2, 48, 48**-0.5, rope, qkv_bias=True)
    of = replace(architecture(joined=False), layers=(LayerSpec(attention, MLP),))
    generator = torch.Generator().manual_seed(8)
    halves: dict[str, Weight] = {
        name: 0.1 * torch.randn(shape, generator=generator).half()
        if len(shape) > 1
        else torch.ones(shape)
        for name, shape in tensor_shapes(of, NAMES).items()
    }
    wide = {name: held.float() for name, held in halves.items() if isinstance(held, torch.Tensor)}
    text = list(range(50))
    found, exact = (
        model.forward(text, model.new_state(512), last=50)
        for model in (decoder(of, halves, library), decoder(of, dict(wide), library))
    )
    assert torch.equal(found, exact)
