"""A whole round of an 8B model, compiled with the types its launches have: no device, no memory.

The interpreter takes what the compiler refuses, and the kernels' own tests see them one by one.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.round import DeviceRound, Mode
from engine.kernels.cuda import attention_kernel, rotary_kernel
from engine.kernels.cuda.kv_cache import FP8
from engine.kernels.cuda.linear import parts, streamed
from engine.kernels.cuda.sampling import acceptance
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec, Rope
from engine.models.base import ModelInfo
from engine.models.tensor_shapes import Names, tensor_shapes
from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import ptx

KERNELS = (
    *((streamed, name) for name in ("bf16_gemm", "int8_gemm", "int8_rows", "nf4_gemm")),
    *((attention_kernel, name) for name in ("attend_splits", "combine_splits")),
    (parts, "normalise_rows"),
    (rotary_kernel, "rope_and_store"),
    *((acceptance, name) for name in ("race_kernel", "accept_kernel")),
)
META = torch.device("meta")
LLAMA_8B = Architecture(
    layers=(
        LayerSpec(
            Attention(32, 8, 128, 128**-0.5, Rope((1.0,) * 64)), GatedMlp(14336, "silu")
        ),
    ),
    vocabulary=128256, hidden=4096, epsilon=1e-5, tied=False,
)  # fmt: skip


def model(quantization: str, cached: torch.dtype = torch.bfloat16) -> CudaDecoder:
    shapes = tensor_shapes(LLAMA_8B, Names())
    info = ModelInfo("meta", "Llama", 128256, 4096, 0, quantization, "meta", frozenset())

    def tensor(name: str) -> torch.Tensor:
        return torch.empty(shapes[name], dtype=torch.bfloat16, device=META)

    return CudaDecoder(LLAMA_8B, Names(), tensor, info, quantization, cached)


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
    round = DeviceRound(target, target.new_state(4096), draft, draft.new_state(4096))
    with ptx.compiling(capability, *KERNELS) as found:
        round.run(Mode(2, rule, drafts=True, adjusts=True, truncates=True))
    assert {one.name for one in found} >= {"rope_and_store", "attend_splits", "accept_kernel"}
    assert not [str(one) for one in found if not one.fits]
