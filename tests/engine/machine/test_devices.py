"""Where models run, by what torch and the system say, and what people are told."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.errors import InvalidRequest
from engine.machine import devices
from engine.machine.devices import Facts, decide

GOOD = Facts(True, True, count=1, name="A GPU", capability=(9, 0), triton=True)
NONE = Facts(True, False)


def test_a_gpu_that_can_runs_the_kernels_and_nothing_is_told() -> None:
    place = decide("auto", GOOD)
    assert place == devices.Device(torch.device("cuda"), kernels=True)


@pytest.mark.parametrize(
    ("facts", "bf16", "words"),
    [
        (replace(GOOD, built_with_cuda=False), True, ("is no NVIDIA GPU", "PyTorch operations")),
        (replace(GOOD, capability=(7, 5)), False, ("A GPU has compute capability 7.5", "need 8.0")),
        (replace(GOOD, triton=False), True, ("Triton is not installed", "PyTorch operations")),
        (replace(GOOD, missing="none was found"), True, ("a C compiler, but none was found",)),
    ],
)
def test_a_gpu_without_kernels_runs_torch_and_says_why(
    facts: Facts, bf16: bool, words: tuple[str, ...]
) -> None:
    place = decide("auto", facts)
    assert (place.torch_device.type, place.kernels, place.bf16) == ("cuda", False, bf16)
    assert all(word in place.notes[0] for word in words)


def test_on_windows_triton_is_another_package_and_brings_its_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.delenv("CC", raising=False)
    (note,) = decide("auto", replace(GOOD, triton=False)).notes
    assert f"{sys.executable} -m pip install triton-windows" in note
    assert "install gcc" not in devices.lacks_to_build()
    monkeypatch.setattr(sys, "platform", "linux")
    assert "install gcc" in devices.lacks_to_build()


@pytest.mark.parametrize(
    ("capability", "knows"), [((8, 6), False), ((8, 9), True), ((12, 0), True)]
)
def test_fp8_is_known_from_ada_on(capability: tuple[int, int], knows: bool) -> None:
    place = decide("auto", replace(GOOD, capability=capability))
    assert place.kernels and place.fp8 is knows


def test_one_of_several_is_used_and_named() -> None:
    place = decide("auto", replace(GOOD, count=3))
    assert place.kernels and "One of 3 GPUs is used: A GPU" in place.notes[0]
    assert "use vLLM or SGLang" in place.notes[0]
    assert len(decide("auto", replace(GOOD, count=2, triton=False)).notes) == 2


@pytest.mark.parametrize(
    ("facts", "told", "words"),
    [
        (NONE, False, "finds no CUDA device"),
        (Facts(False, False), False, "no NVIDIA driver"),
        (Facts(False, True), True, "no CUDA support"),
        (
            replace(NONE, has_driver=True, problem="The driver is too old."),
            True,
            "is too old. Update",
        ),
        (replace(GOOD, lost=True), True, "Restart Foretoken"),
        (
            replace(GOOD, capability=(7, 0), built_for=("sm_75", "sm_120")),
            True,
            "7.0, and this PyTorch is built only for sm_75, sm_120",
        ),
    ],
)
def test_without_one_the_cpu_runs_and_what_could_be_mended_is_told(
    facts: Facts, told: bool, words: str
) -> None:
    """Who has no GPU is not told of CUDA; who asks for it is told why not."""
    place = decide("auto", facts)
    assert place.torch_device == torch.device("cpu") and not place.kernels
    assert bool(place.notes) == told
    assert all(words in note for note in place.notes)
    with pytest.raises(InvalidRequest, match=words):
        decide("cuda", facts)


def test_a_device_is_chosen_by_name_and_what_may_be_used_there_goes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "look", lambda: GOOD)
    assert devices.choose().torch_device.type == "cuda"
    assert devices.choose("cuda").torch_device.type == "cuda"
    assert devices.choose("cpu").torch_device.type == "cpu"
    for place in (devices.choose(), devices.choose("cpu")):
        assert place.native and place.cuda_graphs
    bare = devices.choose(native=False, cuda_graphs=False)
    assert not bare.native and not bare.cuda_graphs
    with pytest.raises(InvalidRequest, match="'tpu'; it must be one of auto, cpu, cuda"):
        devices.choose("tpu")


@pytest.mark.parametrize(
    ("built_for", "capability", "runs"),
    [
        ((), (6, 1), True),
        (("sm_80", "sm_90"), (8, 6), True),
        (("sm_86", "sm_90"), (8, 0), False),
        (("sm_80", "sm_90"), (12, 0), False),
        (("sm_80", "compute_90"), (12, 0), True),
        (("sm_90a",), (9, 0), True),
        (("sm_100a",), (10, 3), False),
        (("gfx90a",), (9, 0), True),
    ],
)
def test_a_torch_without_code_for_the_gpu_does_not_run_there(
    built_for: tuple[str, ...], capability: tuple[int, int], runs: bool
) -> None:
    """It would fail at the first operation, long after the weights were copied."""
    place = decide("auto", replace(GOOD, capability=capability, built_for=built_for))
    assert (place.torch_device.type == "cuda") is runs


def test_a_driver_that_fails_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise RuntimeError("CUDA driver initialization failed\nand more")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", fails)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    place = decide("auto", replace(devices.look(), has_driver=True))
    assert place.torch_device.type == "cpu"
    assert "cannot use the GPU: CUDA driver initialization failed. Update" in place.notes[0]


def test_what_triton_builds_with_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setattr("sysconfig.get_paths", lambda scheme: {"include": str(tmp_path)})
    assert "Python's headers are not in" in devices.lacks_to_build()
    (tmp_path / "Python.h").touch()
    assert devices.lacks_to_build() == ""
    monkeypatch.delenv("CC")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "install gcc" in devices.lacks_to_build()


def test_what_torch_warns_of_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver older than torch's CUDA is a warning there, and False."""

    def unavailable() -> bool:
        import warnings

        warnings.warn("CUDA initialization: The NVIDIA driver\n is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", unavailable)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert devices.look().problem == "CUDA initialization: The NVIDIA driver is too old"


def test_a_driver_in_wsl_is_found_off_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So who has a torch for CPUs there is told to install the other one."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(devices, "_WSL", str(tmp_path))
    assert devices.nvidia_smi() is None
    program = tmp_path / "nvidia-smi"
    program.touch(mode=0o755)
    assert devices.nvidia_smi() == str(program)
    assert devices.look().has_driver


TWO = "0, GPU-1f2e, 12282, 8.9, 525.60.13\n1, GPU-7b0e, 8188, 8.9, 525.60.13"


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a script")
@pytest.mark.parametrize(
    ("said", "visible", "size"),
    [
        (TWO, None, 12282),
        (TWO, "0,1", 12282),
        (TWO, "1", 8188),
        (TWO, "1,0", 8188),
        (TWO, "GPU-7b", 8188),  # CUDA takes what begins one
        (TWO, "-1", 0),
        (TWO, "", 0),
        (TWO, "2", 0),
        (TWO, "MIG-7b0e", 0),
        ("0, GPU-1, 12282, 8.9, 470.82.01", None, 0),  # too old a driver for CUDA 12
        ("0, GPU-1, 6144, 7.5, 580.65.06", None, 0),
        ("0, GPU-1, [N/A], [N/A], [N/A]", None, 0),
        ("No devices were found", None, 0),
        ("", None, 0),
    ],
)
def test_the_memory_of_a_gpu_with_the_kernels_is_known_without_torch(
    said: str, visible: str | None, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    version, known = tmp_path / "version.py", devices._cuda_of_torch()
    assert known == int((torch.version.cuda or "0").split(".")[0])
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    monkeypatch.setattr(devices, "nvidia_smi", lambda: str(program))
    monkeypatch.setattr(devices, "lacks_to_build", lambda: "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    version.write_text("__version__ = '2.9.0'\ncuda: Optional[str] = None\n")
    assert devices.kernels_bytes.__wrapped__() == 0  # a build for the CPU
    version.write_text("__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\n")
    assert devices.kernels_bytes.__wrapped__() == size << 20
    monkeypatch.setattr(devices, "nvidia_smi", lambda: None)
    assert devices.kernels_bytes.__wrapped__() == 0
