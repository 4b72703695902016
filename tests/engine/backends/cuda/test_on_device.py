"""On a real GPU: layers of real shapes, captured rounds, and memory that runs out."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.round import DeviceRound, Mode
from engine.backends.torch.decoder import TorchDecoder
from engine.decoding.text.codec import TextCodec
from engine.drafting.resources import Resources
from engine.kernels.cuda.kv_cache import FP8
from engine.kernels.cuda.sampling.acceptance import Rule
from engine.local.session import Session
from engine.machine import devices
from engine.machine.devices import FP8_CAPABILITY
from engine.models.architecture import Architecture, Attention, GatedMlp, LayerSpec, Rope
from engine.models.base import ModelInfo
from engine.models.tensor_shapes import Names, tensor_shapes
from engine.request import Speculation
from engine.values import RoundResult
from engine.values.sampling import AcceptanceRule, Sampling
from tests.engine.backends.cuda.small import load, tokens, write_pair
from tests.engine.backends.cuda.test_rounds import run, words
from tests.engine.kernels.cuda.where import DEVICE, INTERPRETED
from tests.support.places import ROOT
from tests.support.sameness import check_rollback, check_rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(INTERPRETED, reason="for a real device"),
]
FORMATS = ("bf16", "int8", "nf4")
ROPE = Rope(tuple(5e5 ** (-pair / 64) for pair in range(64)))
NARROW = Rope(ROPE.frequencies[::2])
CONTEXT = 1024


def llama(
    hidden: int, inner: int, heads: int, kv_heads: int, width: int, tied: bool, normed: bool = False
) -> Architecture:
    """Return two layers of this shape with a whole vocabulary."""
    rope = ROPE if width == 128 else NARROW
    attention = Attention(heads, kv_heads, width, width**-0.5, rope, qk_norm=normed)
    return Architecture(
        layers=(LayerSpec(attention, GatedMlp(inner, "silu")),) * 2,
        vocabulary=128256, hidden=hidden, epsilon=1e-5, tied=tied,
    )  # fmt: skip


SHAPES = {
    "Llama 3.2 1B": llama(2048, 8192, 32, 8, 64, True),
    "Llama 3.1 8B": llama(4096, 14336, 32, 8, 128, False),
    "Qwen3 32B": llama(5120, 25600, 64, 8, 128, False, normed=True),
}


def random_tensors(architecture: Architecture) -> Callable[[str], Tensor]:
    """Return bf16 weights by name, the same for every model."""
    shapes = tensor_shapes(architecture, Names())

    def tensor(name: str) -> Tensor:
        shape = shapes[name]
        generator = torch.Generator(DEVICE).manual_seed(zlib.crc32(name.encode()))
        values = torch.randn(shape, generator=generator, device=DEVICE, dtype=torch.bfloat16)
        return 1 + 0.1 * values if len(shape) == 1 else values * shape[1] ** -0.5

    return tensor


def info(architecture: Architecture) -> ModelInfo:
    name, vocabulary = "random", architecture.vocabulary
    return ModelInfo(name, "Llama", vocabulary, CONTEXT, 0, "bf16", "cuda", frozenset())


def model_of(
    architecture: Architecture, dtype: str, cached: torch.dtype = torch.bfloat16
) -> CudaDecoder:
    tensor = random_tensors(architecture)
    return CudaDecoder(architecture, Names(), tensor, info(architecture), dtype, cached)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_layers_of_real_shapes(shape: str, dtype: str) -> None:
    """Near torch's decoder, streamed and in bulk; the same bits for 1 to 16 rows and after rollback."""
    architecture = SHAPES[shape]
    model = model_of(architecture, dtype)
    reference = TorchDecoder(
        architecture, Names(), random_tensors(architecture), info(architecture)
    )
    text = tokens(320)
    found = model.forward(text, model.new_state(CONTEXT), last=8)
    expected = reference.forward(text, reference.new_state(CONTEXT), last=8)
    apart = {"bf16": 0.05, "int8": 0.1, "nf4": 0.5}[dtype]
    assert float((found - expected).norm() / expected.norm()) < apart
    check_rows(model, text, 250)
    check_rollback(model, text[:60], [tokens(15, seed=seed) for seed in (1, 2)])


needs_fp8 = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < FP8_CAPABILITY,
    reason="this device knows no e4m3",
)


@needs_fp8
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cache_in_fp8_gives_every_row_its_bits(shape: str) -> None:
    """Near what a cache in bf16 gives; the same for 1 to 16 rows, after rollback, and in graphs."""
    architecture = SHAPES[shape]
    model, wide = model_of(architecture, "bf16", FP8), model_of(architecture, "bf16")
    text = tokens(320)
    found = model.forward(text, model.new_state(CONTEXT), last=8)
    expected = wide.forward(text, wide.new_state(CONTEXT), last=8)
    assert float((found - expected).norm() / expected.norm()) < 0.1
    del wide
    check_rows(model, text, 250)
    check_rollback(model, text[:60], [tokens(15, seed=seed) for seed in (1, 2)])
    results = []
    for captures in (False, True):
        cache, text = model.new_state(CONTEXT), tokens(40)
        model.forward(text[:-1], cache, last=0)
        runner = Runner(DeviceRound(model, cache), captures)
        runner.begin(Sampling(), AcceptanceRule.GREEDY, 5, text, len(text))
        results.append([untimed(runner.launch(0).read()) for _ in range(8)])
        assert runner.captures is captures and not runner._uncaptured
    assert results[0] == results[1]


def untimed(result: RoundResult) -> RoundResult:
    return replace(result, draft_s=0.0, total_s=0.0)


RULES = [rule for rule in AcceptanceRule if rule is not AcceptanceRule.AUTO]


@pytest.mark.parametrize("depth", [0, 1, 5, 15])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_captured_round_gives_the_bits_of_one_that_is_not(
    depth: int, rule: AcceptanceRule
) -> None:
    """Compare twelve rounds of the 1B shape; one graph serves every length."""
    architecture = SHAPES["Llama 3.2 1B"]
    models = model_of(architecture, "nf4"), model_of(architecture, "int8")
    sampling = (
        Sampling() if rule is AcceptanceRule.GREEDY else Sampling(temperature=0.8, top_p=0.95)
    )
    results = []
    for captures in (False, True):
        caches = [model.new_state(CONTEXT) for model in models]
        text = tokens(40)
        for model, cache in zip(models, caches, strict=True):
            model.forward(text[:-1], cache, last=0)
        runner = Runner(
            DeviceRound(models[0], caches[0], models[1].round_drafter(caches[1])), captures
        )
        runner.begin(sampling, rule, 5, text, len(text))
        launched = (runner.launch(depth, drafts=depth > 0) for _ in range(12))
        results.append([untimed(round.read()) for round in launched])
        assert runner.captures is captures and not runner._uncaptured
    assert results[0] == results[1]


def test_a_round_asks_the_device_nothing() -> None:
    """torch raises at every operation that makes the host wait."""
    architecture = SHAPES["Llama 3.2 1B"]
    model = model_of(architecture, "bf16")
    caches = model.new_state(64), model.new_state(64)
    round = DeviceRound(model, caches[0], model.round_drafter(caches[1]))
    round.begin(Sampling(temperature=1.0), 1, tokens(4), 4)
    mode = Mode(3, Rule.COUPLED, drafts=True, adjusts=True, truncates=True)
    round.run(mode)
    torch.cuda.set_sync_debug_mode("error")
    try:
        round.run(mode)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("captures", [True, False], ids=["graphs", "no graphs"])
def test_words_are_those_of_none_with_graphs_and_without(captures: bool, tmp_path: Path) -> None:
    write_pair(tmp_path / "target", tmp_path / "draft")
    target = load(tmp_path / "target", "nf4")
    session = Session(
        target,
        TextCodec(tmp_path / "target"),
        Resources(draft=load(tmp_path / "draft", "int8")),
        devices.choose("cuda", cuda_graphs=captures),
    )
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=9, min_p=0.02)):
        alone = words(session, Speculation(proposer="none"), sampling)
        for depth in (1, 2, 3, 4, 5, 7, 10, 15):
            asked = Speculation(proposer="draft", depth=depth)
            assert words(session, asked, sampling) == alone
    asked = Speculation(proposer="draft", depth=3, acceptance=AcceptanceRule.REJECTION)
    drawn = Sampling(temperature=1.0, seed=2)
    assert run(session, asked, drawn)[1] == run(session, asked, drawn)[1]


def test_running_out_of_memory_is_survived() -> None:
    model = model_of(SHAPES["Llama 3.2 1B"], "bf16")
    cache, text = model.new_state(64), tokens(20)
    before = model.forward(text, cache, last=3)
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    taken = []
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            for _ in range(10_000):
                taken.append(model.new_state(CONTEXT))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        taken.clear()
    cache.rewind(0)
    assert torch.equal(model.forward(text, cache, last=3), before)


LOSES_THE_GPU = """
import sys
import torch
from engine.events import Failed, Finished
from engine.backends.cuda.graphs import Runner
from engine.request import Request, Speculation
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine

engine, launch, alone = LocalEngine(), Runner.launch, Speculation(proposer="none")
asked = Request(token_ids=(5, 6, 7), max_tokens=4, ignore_eos=True, speculation=alone)

def load():
    return engine.load(LoadRequest(target=sys.argv[1], quantization="bf16", threads=1))

def last():
    return list(engine.generate(asked))[-1]

def broken(self, *given, **named):
    torch.zeros(1, device="cuda")[torch.full((1,), 10**9, device="cuda")]
    return launch(self, *given, **named)

assert load().device.startswith("cuda")
assert isinstance(last(), Finished)
Runner.launch = broken
failed = last()
assert isinstance(failed, Failed) and "stopped responding" in failed.message, failed
assert load().device == "cpu"
assert isinstance(last(), Finished)
print("goes on", flush=True)
"""


def test_who_loses_the_gpu_goes_on_on_the_cpu(tmp_path: Path) -> None:
    """Run a process that loses its GPU; freeing memory afterwards must not end it."""
    write_pair(tmp_path / "target", tmp_path / "draft")
    done = subprocess.run(
        [sys.executable, "-c", LOSES_THE_GPU, str(tmp_path / "target")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "goes on" in done.stdout, done.stderr[-3000:]
