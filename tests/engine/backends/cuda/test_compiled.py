"""A whole round of an 8B model, compiled with the types its launches have: no device, no memory.

The interpreter takes what the compiler refuses, and the kernels' own tests see them one by one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.round import DeviceRound, Mode
from engine.backends.linear_factory import LinearFactory
from engine.decoding.proposer import RoundProposer
from engine.decoding.target import Target
from engine.drafting import heads, proposers
from engine.drafting.resources import Resources
from engine.kernels.cuda import attention_kernel, recurrence_kernel, rotary_kernel
from engine.kernels.cuda.kv_cache import FP8
from engine.kernels.cuda.linear import parts, streamed
from engine.kernels.cuda.sampling import acceptance, branches
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.kernels.torch.linear import TiledLinear
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Rope,
    ShortConvolution,
)
from engine.models.base import ModelInfo
from engine.models.tensor_shapes import Names, tensor_shapes
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import ptx
from tests.support.heads import WRITERS, FakeShape

KERNELS = (
    *((streamed, name) for name in ("bf16_gemm", "int8_gemm", "int8_rows", "block_gemm")),
    *((attention_kernel, name) for name in ("attend_splits", "combine_parts")),
    (parts, "normalise_rows"),
    (rotary_kernel, "rope_and_store"),
    (recurrence_kernel, "take_in_rows"),
    *((acceptance, name) for name in ("race_kernel", "accept_kernel")),
    *((branches, name) for name in ("times_kernel", "grow_kernel")),
)
OF_HEADS = ("bf16_gemm", "normalise_rows", "rope_and_store", "attend_splits", "combine_parts")
META = torch.device("meta")
LLAMA_8B = Architecture(
    layers=(
        LayerSpec(
            Attention(32, 8, 128, 128**-0.5, Rope((1.0,) * 64)), GatedMlp(14336, "silu")
        ),
    ),
    vocabulary=128256, hidden=4096, epsilon=1e-5, tied=False,
)  # fmt: skip


SMALL = replace(LLAMA_8B, layers=LLAMA_8B.layers * 4, hidden=1024, vocabulary=2048)


def model(
    quantization: str,
    cached: torch.dtype = torch.bfloat16,
    architecture: Architecture = LLAMA_8B,
) -> CudaDecoder:
    shapes = tensor_shapes(architecture, Names())
    info = ModelInfo(
        "meta", "Llama", architecture.vocabulary, 4096, 0, quantization, "meta", frozenset()
    )

    def tensor(name: str) -> torch.Tensor:
        return torch.empty(shapes[name], dtype=torch.bfloat16, device=META)

    return CudaDecoder(architecture, Names(), tensor, info, quantization, cached)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("quantization", "cached", "rule", "capability"),
    [
        ("bf16", torch.bfloat16, Rule.GREEDY, 80),
        ("nf4", FP8, Rule.COUPLED, 90),
        ("int8", torch.bfloat16, Rule.REJECTION, 120),
    ],
    ids=str,
)
def test_a_whole_round_compiles_and_fits(
    quantization: str, cached: torch.dtype, rule: Rule, capability: int
) -> None:
    target, draft = model(quantization, cached), model("int8")
    round = DeviceRound(target, target.new_state(4096), draft.round_drafter(draft.new_state(4096)))
    with ptx.compiling(capability, *KERNELS) as found:
        round.run(Mode(2, rule, drafts=True, adjusts=True, truncates=True))
    assert {one.name for one in found} >= {"rope_and_store", "attend_splits", "accept_kernel"}
    assert not [str(one) for one in found if not one.fits]


OTHERS = {
    "experts": LayerSpec(
        LLAMA_8B.layers[0].mixer,
        Experts(128, 8, 768, "silu", renormalised=True, shared=512, shared_gate=True),
    ),
    "gated delta net": LayerSpec(GatedDeltaNet(16, 32, 128, 128, 4), GatedMlp(3072, "silu")),
    "Mamba-2": LayerSpec(Mamba2(48, 64, 1, 128, 4), GatedMlp(3072, "silu")),
    "short convolution": LayerSpec(ShortConvolution(1024, 3), GatedMlp(3072, "silu")),
}


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "quantization"), [("experts", "nf4"), *((name, "bf16") for name in OTHERS)]
)
def test_a_round_asks_the_device_nothing(
    name: str, quantization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it could not: these tensors have no values. The target drafts for itself, the host a tree."""
    monkeypatch.setattr("engine.backends.cuda.layers.make_exact", TiledLinear)
    target = model(
        quantization, architecture=replace(SMALL, layers=(OTHERS[name], SMALL.layers[0]))
    )
    draft = target.round_drafter(target.new_state(4096))
    round = DeviceRound(target, target.new_state(4096), draft)
    with ptx.compiling(90, *KERNELS) as found:
        round.run(Mode(2, Rule.GREEDY, drafts=True))
        round.run(Mode(7, Rule.COUPLED, tree=True))
    assert not [str(one) for one in found if not one.fits]


@pytest.mark.skipif(INTERPRETED, reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("kind", "capability"),
    [("eagle3", 80), ("block", 89), ("medusa", 90), ("mlp", 120), ("lstm", 90)],
)
def test_a_head_s_round_asks_the_device_nothing(kind: str, capability: int, tmp_path: Path) -> None:
    """Here it could not: these tensors have no values. Its kernels compile and fit too."""
    target = model("bf16", architecture=SMALL)
    shape = FakeShape(SMALL.hidden, SMALL.vocabulary, len(SMALL.layers), 4096)
    plan = heads.inspect(WRITERS[kind](tmp_path / kind, shape), shape)
    head = heads.load(plan, LinearFactory("bf16", META, triton=True))
    with ptx.compiling(capability, *KERNELS) as found:
        read = Target(target, head.aux_layers)
        proposer = proposers.create(kind, {}, Resources(heads={kind: head}, backbone=read))
        assert isinstance(proposer, RoundProposer)
        drafting = proposer.device_drafting()
        assert drafting is not None and drafting.draft is not None
        round = DeviceRound(target, read.state, drafting.draft.drafter)
        round.run(Mode(3, Rule.REJECTION, drafts=True))
        round.run(Mode(7, Rule.COUPLED, drafts=True, tree=True, levels=3))
    assert {"bf16_gemm", "grow_kernel"} <= {one.name for one in found}
    assert not [str(one) for one in found if not one.fits and one.name in OF_HEADS]
