"""The sampling kernels: checked in the interpreter or on a GPU, and compiled for those not here."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.stats import kstest

pytest.importorskip("triton")

from engine.kernels.cuda.arithmetic import exponential_reference
from engine.kernels.cuda.cut import CUT_WARPS, cut_kernel
from engine.kernels.cuda.sampling import ADJUST_WARPS, adjust_kernel
from engine.noise import Stream, exponential
from tests.engine.kernels.cuda.elsewhere import PLACES, run_checks
from tests.engine.kernels.cuda.ptxas import ARCHITECTURES, POINTERS, usage


@pytest.mark.parametrize("place", PLACES)
def test_sampling_kernels_hold_what_is_checked(place: str) -> None:
    run_checks("sampling_checks.py", place)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("kernel", "constants", "warps"),
    [
        (adjust_kernel, {"MASKED": True, "GREEDY": False}, ADJUST_WARPS),
        (cut_kernel, {"BLOCKS": 128}, CUT_WARPS),
    ],
    ids=["adjust", "cut"],
)
def test_kernels_compile_and_nothing_spills(
    kernel: Any, constants: dict[str, Any], warps: int, arch: int
) -> None:
    """For a vocabulary of up to 262,144 tokens, as the widest has."""
    used = usage(kernel, POINTERS, constants, arch, warps)
    print(f"sm_{arch}: {used}")
    assert used.spilled == 0 and used.stack == 0
    assert used.registers * warps * 32 <= 65536 and used.shared <= 48 * 1024


def test_float32_clocks_are_exponential_and_those_of_the_engine_to_seven_digits() -> None:
    positions = range(40, 60)
    clocks = exponential_reference(11, Stream.CHOICE, positions, 5000)
    exact = exponential(11, Stream.CHOICE, positions, 5000)
    assert float(((clocks - exact) / exact).abs().max()) < 4e-7
    assert kstest(clocks.flatten().numpy(), "expon").pvalue > 1e-4
