"""Where models run, by what torch and the system say, and what people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine import devices
from engine.devices import Facts, decide
from engine.errors import InvalidRequest

GOOD = Facts(True, True, count=1, name="A GPU", capability=(9, 0), triton=True)
NONE = Facts(True, False)


def test_a_gpu_that_can_runs_the_kernels_and_nothing_is_told() -> None:
    place = decide("auto", GOOD)
    assert place == devices.Place(torch.device("cuda"), kernels=True)


@pytest.mark.parametrize(
    ("facts", "bf16", "words"),
    [
        (replace(GOOD, capability=(7, 5)), False, ("A GPU has compute capability 7.5", "need 8.0")),
        (replace(GOOD, triton=False), True, ("Triton is not installed", "torch's own operations")),
    ],
)
def test_a_gpu_without_kernels_runs_torch_and_says_why(
    facts: Facts, bf16: bool, words: tuple[str, ...]
) -> None:
    place = decide("auto", facts)
    assert (place.device.type, place.kernels, place.bf16) == ("cuda", False, bf16)
    assert all(word in place.notes[0] for word in words)


@pytest.mark.parametrize(
    ("capability", "knows"), [((8, 6), False), ((8, 9), True), ((12, 0), True)]
)
def test_fp8_is_known_from_ada_on(capability: tuple[int, int], knows: bool) -> None:
    place = decide("auto", replace(GOOD, capability=capability))
    assert place.kernels and place.fp8 is knows


def test_one_of_several_is_used_and_named() -> None:
    place = decide("auto", replace(GOOD, count=3))
    assert place.kernels and "3 GPUs are here; one is used, A GPU" in place.notes[0]
    assert len(decide("auto", replace(GOOD, count=2, triton=False)).notes) == 2


@pytest.mark.parametrize(
    ("facts", "told", "words"),
    [
        (NONE, False, "finds no CUDA device"),
        (Facts(False, False), False, "built without CUDA"),
        (Facts(False, True), True, "built without CUDA"),
        (
            replace(NONE, has_driver=True, problem="The driver is too old."),
            True,
            "is too old. Update",
        ),
        (replace(GOOD, lost=True), True, "Restart the app"),
    ],
)
def test_without_one_the_cpu_runs_and_what_could_be_mended_is_told(
    facts: Facts, told: bool, words: str
) -> None:
    """Who has no GPU is not told of CUDA; who asks for it is told why not."""
    place = decide("auto", facts)
    assert place.device == torch.device("cpu") and not place.kernels
    assert bool(place.notes) == told
    assert all(words in note for note in place.notes)
    with pytest.raises(InvalidRequest, match=words):
        decide("cuda", facts)


def test_the_setting_is_the_environments_where_nobody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "look", lambda: GOOD)
    assert devices.choose().device.type == "cuda"
    assert devices.choose("cpu").device.type == "cpu"
    monkeypatch.setenv(devices.SETTING, "cpu")
    assert devices.choose().device.type == "cpu"
    assert devices.choose("cuda").device.type == "cuda"
    monkeypatch.setenv(devices.SETTING, "tpu")
    with pytest.raises(InvalidRequest, match="'tpu'; it must be one of auto, cpu, cuda"):
        devices.choose()


def test_what_torch_warns_of_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver older than torch's CUDA is a warning there, and False."""

    def unavailable() -> bool:
        import warnings

        warnings.warn("CUDA initialization: The NVIDIA driver\n is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", unavailable)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert devices.look().problem == "CUDA initialization: The NVIDIA driver is too old"
