"""Each kernel that a model uses is tried on the GPU at hand; a wrong one is found, named and not used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("triton")

from app.diagnostics import gpu_trials
from engine.api import LoadProgress, Stage
from engine.backends.cuda import graphs
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.graphs import Runner
from engine.backends.cuda.prompts import attend_prompt, is_plain
from engine.backends.cuda.trial import model as trial
from engine.backends.cuda.trial import verdicts
from engine.backends.cuda.trial.attention import attention_cases
from engine.backends.cuda.trial.findings import Comparison, Finding
from engine.backends.cuda.trial.linear import linear_cases
from engine.events import Failed, Finished
from engine.kernels.cuda import kv_cache, references
from engine.kernels.formats import int8
from engine.local.engine import LocalEngine
from engine.local.host_rules import Rules
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import inspect
from engine.request import Request, Speculation
from engine.values import MAX_ROWS
from tests.engine.backends.cuda.small import SIZES, load
from tests.engine.backends.cuda.wrong_kernels import (
    put_wrong,
    refuse,
    spoil_rows,
    spoil_values,
)
from tests.engine.kernels.cuda.where import DEVICE
from tests.support.checkpoints import write_random
from tests.support.families import write_family
from tests.support.gguf_files import write_gguf
from tests.support.heads import eagle3, write_head
from tests.support.loading import request_for

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

ASKED = Request(
    token_ids=(5, 6, 7, 8), max_tokens=4, ignore_eos=True, speculation=Speculation(proposer="none")
)
OF_HEADS = {
    "heads": "num_attention_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim",
    "intermediate": "intermediate_size",
}  # fmt: skip
BLOCKS = ("Q4_K", "Q6_K")
"""Formats of GGUF files whose blocks are multiplied as they are stored, of 4 and 6 bits."""
OF_A_FORMAT = {
    "int8_rows": ("int8",),
    "int8_gemm": ("int8",),
    "block_gemm": ("nf4", *BLOCKS),
    "dequantise_blocks": ("nf4", *BLOCKS),
}
"""All others are tried with bf16."""
NAMED = {
    "bf16_gemm": "Bf16Linear",
    "int8_rows": "Int8Linear",
    "int8_gemm": "Int8Linear",
    "block_gemm": "BlockLinear",
    "finish_rows": "Bf16Linear",
    "dequantise_blocks": "BlockLinear",
    "normalise_rows": "norm",
    "rope_and_store": "rope and cache",
    "attend_splits": "attention",
    "combine_parts": "attention",
}
"""The first trial that each kernel fails."""
CASES = {
    "norm": "norm_cases", "rope and cache": "attention_cases", "attention": "attention_cases"
}  # fmt: skip
ROWS = (
    "bf16_gemm", "int8_gemm", "block_gemm", "normalise_rows", "rope_and_store", "combine_parts"
)  # fmt: skip
WRONG = [
    (name, format, spoil)
    for spoil, names in ((spoil_values, NAMED), (spoil_rows, ROWS))
    for name in names
    for format in OF_A_FORMAT.get(name, ("bf16",))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    write_random(made, **SIZES, uneven=0.1)
    return made


@pytest.fixture(autouse=True)
def _no_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the verdicts of a test in a file of its own."""
    monkeypatch.setattr(verdicts, "atexit", Mock())
    monkeypatch.setattr(verdicts, "_file", lambda: tmp_path / "gpu-trials.json")
    monkeypatch.setattr(verdicts, "_unwritten", [])


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalEngine]:
    """Return an engine that falls back to torch on the GPU, and interpreted on the CPU."""
    device = Device(DEVICE, kernels=True, native=False)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
    engine = LocalEngine()
    yield engine
    engine.close()


def last(engine: LocalEngine) -> Finished | Failed:
    event = list(engine.generate(ASKED))[-1]
    assert isinstance(event, Finished | Failed)
    return event


def load_blocks(root: Path, format: str) -> CudaDecoder:
    """Return a model whose every matrix is in ``format``; a row is a whole block of it."""
    wide = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 128}
    write_random(root / "made", **SIZES | wide)
    file = write_gguf(
        root / "made", root / "made.gguf", lambda name, _: "F32" if "norm" in name else format
    )
    return load(file, "stored")


def first_fault(model: CudaDecoder) -> Finding | None:
    """Try the model, up to the first fault: what follows takes the interpreter seconds."""

    class Found(Exception):
        pass

    found: list[Finding] = []

    def report(share: float) -> None:
        if found:
            raise Found

    def try_kernel(*asked: object) -> Finding:
        finding = kept(*asked)  # type: ignore[arg-type]
        if finding.why:
            found.append(finding)
        return finding

    kept = trial.try_kernel
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "try_kernel", try_kernel)
        with suppress(Found):
            trial.try_model(model, Rules(), report)
    return found[0] if found else None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.exhaustive)
        for each in ("bf16", "gemma2", "int8", "nf4", "qwen2")
    ],
)
def test_right_kernels_pass(name: str, folder: Path, tmp_path: Path) -> None:
    """Also with fp8 caches, windows, caps, biases and norms after parts."""
    if name in ("bf16", "int8", "nf4"):
        model = load(folder, name, kv_cache_dtype="fp8" if name == "int8" else "auto")
    else:
        write_family(tmp_path, name)
        model = load(tmp_path)
    shares: list[float] = []
    findings = trial.try_model(model, Rules(), shares.append)
    assert not [str(each) for each in findings if each.why]
    assert shares == sorted(shares) and shares[0] == 0 and len(shares) == len(findings) >= 12
    assert all(0 <= each.error < 0.2 and each.ms > 0 for each in findings)


@pytest.mark.parametrize(("name", "format", "spoil"), WRONG)
def test_a_wrong_kernel_is_found_and_named(
    name: str,
    format: str,
    spoil: Callable[[torch.Tensor], None],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong in one number, or in one bit of it beside other rows."""
    model = load_blocks(tmp_path, format) if format in BLOCKS else load(folder, format)
    for cases in ("norm_cases", "linear_cases", "attention_cases"):
        if cases != CASES.get(NAMED[name], "linear_cases"):
            monkeypatch.setattr(trial, cases, lambda _: [])
    wrong = put_wrong(monkeypatch, name, spoil)
    fault = first_fault(model)
    assert wrong.launches and fault is not None
    assert fault.kernel == NAMED[name]
    assert ("its bits" if spoil is spoil_rows else "its") in fault.why


@pytest.mark.parametrize(
    "name",
    [
        "attend_splits",
        *(
            pytest.param(each, marks=pytest.mark.exhaustive)
            for each in ("rope_and_store", "combine_parts", "move_rows")
        ),
    ],
)
def test_what_is_wrong_in_trees_alone_is_found(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a row, or a bit of it, or where rows are moved."""
    model = load(folder)
    for cases in ("norm_cases", "linear_cases"):
        monkeypatch.setattr(trial, cases, lambda _: [])
    if name == "move_rows":
        move = kv_cache.move_rows
        monkeypatch.setattr(
            kv_cache, name, lambda part, dim, start, rows: move(part, dim, start, rows.flip(0))
        )
    else:

        def spoil_last_row(acc: torch.Tensor) -> None:
            """Spoil more than a bit, which may be lost in rounding, of rows that a tree has."""
            spoil_values(acc[:MAX_ROWS])

        spoil = spoil_last_row if name == "attend_splits" else spoil_rows
        put_wrong(monkeypatch, name, spoil, trees=True)
    fault = first_fault(model)
    assert fault is not None and fault.kernel == "tree" and "its bits" in fault.why


@pytest.mark.parametrize(
    ("name", "place", "trees"),
    [
        *(("race_kernel", 0, trees) for trees in (False, True)),
        *(("accept_kernel", 1, trees) for trees in (False, True)),
        ("times_kernel", None, False),
        ("grow_kernel", MAX_ROWS + 1, False),
    ],
)
def test_wrong_sampling_is_found_by_the_hosts_rules(
    name: str, place: int | None, trees: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another token is drawn for the first row, or one more token is accepted; or in trees alone. Or a
    tree is drafted from the last tokens of a race, or has another branch."""

    def spoil(result: torch.Tensor) -> None:
        if place is None:
            result.neg_()
        else:
            result.view(-1)[place] += 1

    model = load(folder)
    for cases in ("norm_cases", "linear_cases", "attention_cases"):
        monkeypatch.setattr(trial, cases, lambda _: [])
    wrong = put_wrong(monkeypatch, name, spoil, trees)
    fault = first_fault(model)
    assert wrong.launches and fault is not None and fault.kernel == "sampling"
    assert fault.why


@pytest.mark.parametrize("right", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_wrong_attention_of_a_prompt_is_found(
    right: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a prompt's second part that do not see the first."""
    (case,) = attention_cases(load(folder, context=400))
    if not right:
        monkeypatch.setattr(
            "engine.backends.cuda.trial.attention.attend_prompt",
            lambda query, cache, past: attend_prompt(query, cache, 0),
        )
    comparison = Comparison()
    case.check_attends(comparison)
    assert bool(comparison.why) is not right


@pytest.mark.parametrize("window", [None, 20])
def test_wrong_attention_of_more_rows_than_a_round_has_is_found(
    window: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt's last part has up to 64 rows; with a window, all parts have."""
    (case,) = attention_cases(load(folder))
    case = replace(case, spec=replace(case.spec, window=window))

    def spoil(result: torch.Tensor) -> None:
        if len(result) > MAX_ROWS:
            spoil_values(result)

    wrong = put_wrong(monkeypatch, "combine_parts", spoil)
    comparison = Comparison()
    case.check_attends(comparison)
    assert wrong.launches and "its values" in comparison.why


@pytest.mark.parametrize("steps", [-4, pytest.param(4, marks=pytest.mark.exhaustive)])
def test_a_scale_that_is_rounded_otherwise_is_no_fault_of_int8(
    steps: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference's, by some of float32's steps: numbers halfway between two integers would change."""

    def quantise(x: torch.Tensor, levels: int) -> tuple[torch.Tensor, torch.Tensor]:
        _, scale = int8.quantise_rows(x, levels)
        scale = scale * (1 + steps * 2**-23)
        return (x / scale + levels + 1.5).to(torch.uint8), scale

    model = load(folder, "int8")
    monkeypatch.setattr(references, "int8", SimpleNamespace(quantise_rows=quantise))
    for case in linear_cases(model):
        comparison = Comparison()
        case.check(comparison)
        assert not comparison.why, case.shape


@pytest.mark.parametrize(
    ("error", "named"),
    [
        ("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul", "NOT_SUPPORTED"),
        ("", "RuntimeError"),
    ],
)
def test_without_cublas_int8_gives_a_prompt_the_same_bits(
    error: str, named: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the trial says so."""
    model = load(folder, "int8")
    case = next(each for each in linear_cases(model) if each.adds)
    x, draw = case.rows(), torch.Generator().manual_seed(0)
    residual = torch.randn(len(x), case.results, generator=draw).to(x)
    expected = case.linear(x, residual)

    def refuses(*_: object) -> torch.Tensor:
        raise RuntimeError(error)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "_int_mm", refuses)
        found = trial.try_kernel(case.kernel, case.shape, model.device, case.check)
    assert not found.why and named in found.note and found.note in str(found)
    assert torch.equal(case.linear(x, residual), expected)
    verdicts.keep(verdicts.Verdict(verdicts.machine(), "small", "shape", "bf16", (found,)))
    assert "right (prompts without cuBLAS" in gpu_trials()


def test_a_kernel_that_does_not_run_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(folder)
    put_wrong(monkeypatch, "bf16_gemm", refuse)
    fault = first_fault(model)
    assert fault is not None and fault.why.startswith("it does not run (OutOfResources: out of res")


def test_a_load_with_a_wrong_kernel_answers_with_torch(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says so, the words are those of torch, and the next load does not try again."""
    seen: list[LoadProgress] = []

    class Watcher:
        cancelled = False

        def on_progress(self, progress: object) -> None: ...

        def on_loading(self, progress: LoadProgress) -> None:
            seen.append(progress)

    with monkeypatch.context() as patch:
        put_wrong(patch, "bf16_gemm", spoil_values)
        loaded = engine.load(request_for(folder, quantization="bf16"), Watcher())
        found = last(engine)
    note = next(note for note in loaded.notes if "PyTorch operations" in note)
    assert "Bf16Linear" in note and "failed its trial" in note and "diagnostics --gpu" in note
    failed = {each.kernel for each in verdicts.kept()[0].findings if each.why}
    assert failed == {"Bf16Linear", "whole step"}  # what does not multiply is right
    shares = [each.fraction for each in seen if each.stage is Stage.TRYING]
    assert shares[1] == 0 and len(set(shares)) > 5
    monkeypatch.setattr("engine.backends.cuda.decoder.why_not", lambda *_: "not here")
    engine.load(request_for(folder, quantization="bf16"))
    assert isinstance(found, Finished) and found.token_ids
    assert found.token_ids == last(engine).token_ids


def test_a_load_that_passed_is_not_tried_again(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = (Finding("norm", "64", 0.0, 0.1),)
    with monkeypatch.context() as patch:
        patch.setattr("engine.backends.gpu_trial.try_model", lambda *_: right)
        engine.load(request_for(folder, quantization="bf16"))
    found = last(engine)
    again = Mock(side_effect=AssertionError("it was tried again"))
    monkeypatch.setattr("engine.backends.gpu_trial.try_model", again)
    loaded = engine.load(request_for(folder, quantization="bf16"))
    assert not [note for note in loaded.notes if "kernels" in note]
    assert isinstance(found, Finished) and last(engine) == found
    (kept,) = verdicts.kept()
    assert kept.findings == right and kept.passed and kept.model == folder.name
    monkeypatch.setattr(verdicts, "machine", lambda: "another driver")
    with pytest.raises(AssertionError, match="tried again"):
        engine.load(request_for(folder, quantization="bf16"))


@pytest.mark.parametrize("wrong", [False, True])
def test_attention_of_a_head_s_own_sizes_is_tried(
    folder: Path, engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """A verdict without it is not enough, nor is the model tried again for a head of its own sizes."""
    tried: list[tuple[str, ...]] = []

    def try_model(*arguments: Any) -> tuple[Finding, ...]:
        *_, of_heads = arguments
        comparison = Comparison()
        for case in of_heads:
            case.check_stores(comparison)
        tried.append(tuple(each.shape for each in of_heads))
        return (Finding("attention", "of heads", 0.0, 0.1, comparison.why),)

    if wrong:
        put_wrong(monkeypatch, "rope_and_store", spoil_values)
    monkeypatch.setattr("engine.backends.gpu_trial.try_model", try_model)
    own = {name: SIZES[key] for name, key in OF_HEADS.items()}
    for name, sizes in (("like", own), ("wider", own | {"head_dim": 32})):
        head = write_head(tmp_path / name, *eagle3(inspect(folder), sizes=sizes))
        loaded = engine.load(request_for(folder, heads=[head], quantization="bf16"))
    assert tried == [(), ("2 heads on 1 of 32, bfloat16, rope",)]
    assert any("failed its trial" in note for note in loaded.notes) is wrong


def test_a_load_says_that_rounds_could_not_be_captured(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For lack of memory, say: replies are right, and nobody would know why they are slow."""
    right = (Finding("norm", "64", 0.0, 0.1),)
    monkeypatch.setattr("engine.backends.gpu_trial.try_model", lambda *_: right)
    monkeypatch.setattr(graphs, "capture", lambda *_: RuntimeError("no capture\nof this"))
    prepare = Runner.prepare

    def prepare_captured(self: Runner) -> str:
        self.captures = True
        return prepare(self)

    monkeypatch.setattr(Runner, "prepare", prepare_captured)
    loaded = engine.load(request_for(folder, quantization="bf16"))
    assert any(
        "CUDA graphs, so tokens take longer: no capture. If" in note for note in loaded.notes
    )
    assert isinstance(last(engine), Finished)


def test_a_launch_that_fails_in_mid_reply_ends_it_with_what_was_written(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next load is without the kernels."""
    monkeypatch.setattr(
        "engine.backends.gpu_trial.try_model", lambda *_: (Finding("norm", "64", 0.0, 0.1),)
    )
    engine.load(request_for(folder, quantization="bf16"))
    with monkeypatch.context() as patch:
        wrong = put_wrong(patch, "combine_parts", lambda _: wrong.launches > 3 and refuse(_))
        failed = last(engine)
    assert isinstance(failed, Failed)
    assert "What was written is kept" in failed.message and "OutOfResources" in failed.message
    loaded = engine.load(request_for(folder, quantization="bf16"))
    assert any("PyTorch operations" in note for note in loaded.notes)
    assert isinstance(last(engine), Finished)


def test_a_trial_that_ends_the_program_twice_is_not_begun_again(folder: Path) -> None:
    model = load(folder)
    empty = verdicts.known(model.architecture, "bf16", "bf16", "small")
    assert not empty.passed and empty.fault is None
    assert empty.begin().fault is None
    again = verdicts.known(model.architecture, "bf16", "bf16", "small")
    assert again.begin().fault is not None
    assert "ended the program" in str(verdicts.why_not(model.architecture, "bf16"))
    assert verdicts.why_not(model.architecture, "int8") is None
    verdicts.forget()
    assert verdicts.why_not(model.architecture, "bf16") is None


def test_a_trial_that_a_user_ended_with_the_program_counts_for_nothing(folder: Path) -> None:
    """Compiling takes long the first time, and whoever quits twice has a GPU all the same."""
    model = load(folder)
    at_exit: Any = verdicts.atexit
    for _ in range(3):
        verdicts.known(model.architecture, "bf16", "bf16", "small").begin()
        assert verdicts.kept()
        run, *arguments = at_exit.register.call_args.args
        run(*arguments)
        assert not verdicts.kept()


def test_a_fault_of_the_system_counts_for_this_process_alone(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, where the compiler's results go: the next start tries again."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trial, "linear_cases", lambda _: [])
    monkeypatch.setattr(trial, "attention_cases", lambda _: [])
    put_wrong(monkeypatch, "normalise_rows", full)
    loaded = engine.load(request_for(folder, quantization="bf16"))
    assert any("No space left" in note for note in loaded.notes)
    assert verdicts.kept()[0].fault
    verdicts.keep(verdicts.Verdict("gpu", "small", "another", "bf16"))
    assert len(verdicts.kept()) == 2
    verdicts._unwritten.clear()  # as in a new process
    assert [each.shape for each in verdicts.kept()] == ["another"]


def test_the_driver_and_triton_are_known_wherever_they_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without nvidia-smi on PATH, as in WSL, and with the package for Windows."""

    def version(name: str) -> str:
        if name != "triton-windows":
            raise metadata.PackageNotFoundError
        return "3.6.1"

    monkeypatch.setattr(verdicts.metadata, "version", version)
    monkeypatch.setattr(verdicts.subprocess, "run", Mock(side_effect=FileNotFoundError))
    monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda: 12080, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A laptop's GPU")
    named = verdicts.machine.__wrapped__()
    assert "A laptop's GPU (8.6), driver of CUDA 12080, Triton 3.6.1, torch" in named


def test_a_prompt_takes_torchs_attention_only_where_that_is_compact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without FlashAttention torch makes a matrix of all rows and positions, in every head: so it did for
    Gemma 4's of size 512."""
    spec: Any = SimpleNamespace(window=None, score_cap=None, sinks=False, head_dim=256)
    wide: Any = SimpleNamespace(**{**vars(spec), "head_dim": 512})
    keys = SimpleNamespace(device=torch.device("cuda"))
    on_gpu: Any = SimpleNamespace(keys=keys, key_scales=None)
    for available in (True, False):
        monkeypatch.setattr(
            torch.backends.cuda, "is_flash_attention_available", lambda there=available: there
        )
        assert is_plain(spec, on_gpu, 100) is available
        assert not is_plain(wide, on_gpu, 100)


def test_a_cancelled_trial_leaves_no_verdict(
    folder: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.backends.gpu_trial.try_model", cancelled)
    with pytest.raises(KeyboardInterrupt):
        engine.load(request_for(folder, quantization="bf16"))
    assert not verdicts.kept()


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"machine": 1}]', "[" * 200, '{"a": 1}'])
def test_a_damaged_file_is_no_verdict(content: str, tmp_path: Path) -> None:
    (tmp_path / "gpu-trials.json").write_text(content)
    assert verdicts.kept() == []
    verdicts.keep(verdicts.Verdict("gpu", "small", "shape", "bf16"))
    assert len(verdicts.kept()) == 1


def test_the_file_is_bounded() -> None:
    for number in range(verdicts.MOST_KEPT + 3):
        verdicts.keep(verdicts.Verdict("gpu", "small", str(number), "bf16"))
    kept = verdicts.kept()
    assert len(kept) == verdicts.MOST_KEPT and kept[0].shape == str(verdicts.MOST_KEPT + 2)
