"""The report for who looks for a fault: enough to find it, and nothing private."""

from __future__ import annotations

import logging
import platform
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from app import diagnostics
from app.settings.preferences import PreferencesFile
from app.web.recent_errors import MOST, RecentErrors
from engine.api import LoadRequest
from engine.loading.catalog import open_catalog
from engine.machine import processor
from engine.machine.devices import Device, Facts
from tests.app.cli.conftest import Foretoken, foretoken, model
from tests.support.fake_engine import FakeEngine
from tests.support.fixtures import pair
from tests.support.places import ROOT

__all__ = ["foretoken", "model", "pair"]  # fixtures


@pytest.fixture
def complaints() -> RecentErrors:
    return RecentErrors()


def logged(complaints: RecentErrors) -> logging.Logger:
    log = logging.getLogger("tests.diagnostics")
    log.handlers, log.propagate = [complaints], False
    return log


def test_it_tells_the_machine_the_pair_and_what_went_wrong(complaints: RecentErrors) -> None:
    engine = FakeEngine(
        catalog=lambda: open_catalog(ROOT / "model_catalog.yaml"), loads=LoadRequest(target="pip")
    )
    logged(complaints).warning("The disk is nearly full.")
    loaded = engine.loaded
    engine.close()
    assert loaded is not None
    text = diagnostics.report(loaded, {"data": Path("/data")}, complaints.errors)
    for fact in (
        platform.python_version(),
        processor.name(),
        f"loaded: {loaded.name}",
        "drafts by: draft; has none, draft, ngram",
        "data: /data",
        "warning tests.diagnostics: The disk is nearly full.",
    ):
        assert fact in text


def test_it_holds_neither_the_home_folder_nor_a_key(
    complaints: RecentErrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = Path("/", "home")
    home = homes / "ada"
    monkeypatch.setattr(Path, "home", lambda: home)
    log = logged(complaints)
    file, other = home / "models" / "x.gguf", homes / "grace" / "x"
    log.error("%s refused the key %s, said %s", file, "hf_secret", other)
    try:
        raise ValueError("a chat of Ada's")
    except ValueError:
        log.exception("A page's request failed")
    folders = {"data": home / "data"}
    text = diagnostics.report(None, folders, complaints.errors, secrets=("hf_secret", None))
    assert f"~/models/x.gguf refused the key (hidden), said {homes}/(user)/x" in text
    assert "data: ~/data" in text
    assert "ValueError: test_diagnostics.py:" in text
    for private in ("ada", "grace", "hf_secret", "Ada's"):
        assert private not in text


def test_the_last_complaints_are_kept_and_no_more(complaints: RecentErrors) -> None:
    log = logged(complaints)
    log.setLevel(logging.INFO)
    for number in range(2 * MOST):
        log.info("no complaint")
        log.warning("number %d", number)
    log.warning("a wrong %d")  # its arguments are missing, as a library may have it
    kept = [each.message for each in complaints.errors]
    assert len(kept) == MOST
    assert kept[-1] == "a wrong %d"
    assert kept[-2] == f"number {2 * MOST - 1}"


def test_the_terminal_shows_what_it_showed_before(
    complaints: RecentErrors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logging writes to it only where there is no handler at all."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    complaints.listen()
    logging.getLogger("app.loading").error("The model is gone.")
    assert capsys.readouterr().err == "The model is gone.\n"
    assert [each.message for each in complaints.errors] == ["The model is gone."]


def test_the_command_prints_it_without_what_only_a_running_app_knows(
    foretoken: Foretoken, tmp_path: Path
) -> None:
    told = foretoken("diagnostics", "--data-dir", tmp_path)
    assert told.status == 0
    assert "instructions: " in told.out
    assert "loaded: nothing" in told.out


def test_without_a_gpu_the_command_says_what_to_do(
    foretoken: Foretoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "PyTorch finds no CUDA device. Check nvidia-smi and CUDA_VISIBLE_DEVICES."
    monkeypatch.setattr("engine.machine.devices.why_no_gpu", lambda: reason)
    told = foretoken("diagnostics", "--gpu", "--data-dir", tmp_path)
    first, *others = told.out.splitlines()
    assert first.startswith("No GPU that PyTorch can use, driver ")
    assert f"torch {torch.__version__}" in first
    assert others == [
        f"No GPU can be tested here, so models run on the CPU. {reason}", "Nothing was tried."
    ]  # fmt: skip
    assert told.status == 1


def test_with_a_gpu_that_is_too_old_the_command_says_what_runs_instead(
    foretoken: Foretoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Facts(True, True, count=1, name="GTX 1660", capability=(7, 5), triton=True)
    monkeypatch.setattr("engine.machine.devices.look", lambda: old)
    told = foretoken("diagnostics", "--gpu", "--data-dir", tmp_path)
    assert "GTX 1660 has compute capability 7.5, and the kernels need 8.0, so the model" in told.out
    assert told.out.endswith(
        "runs with PyTorch operations: slower, and in fp32 or bf16 only.\nNothing was tried.\n"
    )
    assert told.status == 1


@pytest.mark.parametrize(("stated", "target"), [((), "last"), (("--pair", "pip"), "pip")])
def test_the_command_tests_the_pair_that_the_app_starts_with(
    stated: tuple[str, ...],
    target: str,
    foretoken: Foretoken,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PreferencesFile(tmp_path).remember(LoadRequest(target=str(model)))
    monkeypatch.setattr(diagnostics, "why_no_trial", lambda: None)
    monkeypatch.setattr(diagnostics, "gpu_trials", str)
    seen: list[LoadRequest] = []

    def load(request: LoadRequest, *_: object, **__: object) -> nullcontext[None]:
        seen.append(request)
        return nullcontext()

    monkeypatch.setattr("app.cli.loading.open_here", load)
    told = foretoken("diagnostics", "--gpu", *stated, "--data-dir", tmp_path)
    (request,) = seen
    assert request.target == (str(model) if target == "last" else target)
    assert request.device == "cuda" and told.status == 1


def test_the_results_of_the_gpus_kernels_are_a_table_to_send_in(
    foretoken: Foretoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All models of this machine; none of another driver."""
    from engine.backends.cuda.trial import verdicts
    from engine.backends.cuda.trial.findings import Finding
    from engine.backends.cuda.trial.verdicts import Verdict

    monkeypatch.setattr(verdicts, "_file", lambda: tmp_path / "gpu-trials.json")
    monkeypatch.setattr("engine.machine.devices.why_no_gpu", lambda: None)
    device = Device(torch.device("cpu"), kernels=True)
    monkeypatch.setattr("engine.machine.devices.choose", lambda *_, **__: device)
    monkeypatch.setattr("app.cli.loading.open_here", lambda *_, **__: nullcontext())
    right = Finding("Bf16Linear", "6144 x 4096", 1.9e-3, 0.02)
    wrong = Finding("attention", "32 heads", float("inf"), 0.1, "its values are off")
    verdicts.keep(Verdict(verdicts.machine(), "small", "a", "bf16, target", (right, wrong)))
    verdicts.keep(Verdict("another driver", "other", "b", "bf16, target", (right,)))
    told = foretoken("diagnostics", "--gpu", "--data-dir", tmp_path).out
    assert told.startswith(verdicts.machine()) and "other" not in told
    assert "small, KV cache bf16, target: On this GPU, the kernel attention (32 heads) fail" in told
    assert "kernel      shape        worst error  ms    result\n" in told
    assert "Bf16Linear  6144 x 4096  1.9e-03      0.02  right\n" in told
    assert "attention   32 heads     inf          0.10  its values are off\n" in told
    again = foretoken("diagnostics", "--gpu", "--again", "--data-dir", tmp_path)
    assert again.out.endswith("No model was tried with the GPU's kernels.\n")
    assert again.status == 1
