"""The result of one kernel's trial, and the comparisons that lead to it."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import DeviceLost
from engine.machine.devices import device_errors, ran_out
from engine.values import MAX_ROWS

log = logging.getLogger(__name__)

BF16_ERROR = (2**-7, 2**-10)
"""Most error of a bf16 result, relative to itself: a rounding, which may go the other way; and relative
to the largest number of its row: the order of sums, and inputs rounded the other way."""
FLOAT_ERROR = (2**-13, 2**-13)
"""The same in float32: tensor cores cut what they add, some hundred times in a row."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a kernel's trial at a shape.

    ``error``: the worst, relative to the largest number of its row. ``ms``: one call with 16 rows.
    ``why``: what is wrong, as the end of a sentence; "" if nothing is. ``note``: what else to know.
    ``passing``: the system is at fault, as a full disk is, and not the kernel.
    """

    kernel: str
    shape: str
    error: float
    ms: float
    why: str = ""
    note: str = ""
    passing: bool = False

    def __str__(self) -> str:
        return f"{self.kernel} ({self.shape}): {self.result}"

    @property
    def result(self) -> str:
        return (self.why or "right") + (f" ({self.note})" if self.note else "")


class Comparison:
    """Compares results, and remembers the worst error and the first fault. ``note``: see ``Finding``."""

    def __init__(self) -> None:
        self.error, self.why, self.note = 0.0, "", ""

    def near(
        self, found: Tensor, expected: Tensor, error: tuple[float, float] | None = None
    ) -> None:
        """Expect (rows, ...) to be equal but for ``error``, by default that of its dtype."""
        step, slack = error or (FLOAT_ERROR if found.dtype is torch.float32 else BF16_ERROR)
        ours, theirs = found.float().flatten(1), expected.float().flatten(1)
        size = theirs.abs().amax(-1, keepdim=True).clamp(min=1e-30)
        apart = (ours - theirs).abs()
        worst = float((apart / size).amax())
        # NaN compares false, so it is a fault too.
        if not bool((apart <= step * theirs.abs() + slack * size).all()):
            self.fault(f"its values are off by up to {worst:.1e} of the largest")
        self.error = max(self.error, worst) if worst == worst else float("inf")

    def same(self, found: Tensor, expected: Tensor, where: str) -> None:
        if not torch.equal(found, expected):
            self.fault(f"its bits differ {where}")

    def rows_are_alike(self, run: Callable[[slice], Tensor], whole: Tensor) -> None:
        """Expect that ``run`` gives parts of 16 rows their bits in ``whole``: alone, and with others."""
        for row in some(range(MAX_ROWS), whole.device):
            part = slice(row, row + 1)
            self.same(run(part), whole[part], f"in row {row}, if it is alone")
        for rows in some(range(2, MAX_ROWS + 1), whole.device):
            self.same(run(slice(rows)), whole[:rows], f"with {rows} rows instead of {MAX_ROWS}")
            end = slice(MAX_ROWS - rows, MAX_ROWS)
            self.same(run(end), whole[end], f"in the last {rows} of {MAX_ROWS} rows")

    def fault(self, why: str) -> None:
        """Note what is wrong, unless something was before."""
        self.why = self.why or why


def some(numbers: Sequence[int], device: torch.device) -> Sequence[int]:
    """Return all numbers on a GPU; a few for Triton's interpreter, where a program takes milliseconds."""
    return numbers if device.type == "cuda" else numbers[:: max(len(numbers) // 2, 1)]


def try_kernel(
    kernel: str,
    shape: str,
    device: torch.device,
    check: Callable[[Comparison], Callable[[], object]],
) -> Finding:
    """Return the finding of ``check``, which compares, and returns a call of the kernel to be timed.

    An error of the compiler or the launch is a fault of the kernel. Raise DeviceLost if the GPU is lost,
    and torch's errors for full memory.
    """
    comparison, ms, passing = Comparison(), 0.0, False
    try:
        with device_errors(device):
            call = check(comparison)
            ms = _milliseconds(call, device)
    except DeviceLost:
        raise
    except Exception as error:  # compiler and launcher raise what they like
        if ran_out(error):
            raise
        log.warning("The trial of %s (%s) failed", kernel, shape, exc_info=True)
        text = (str(error).splitlines() or [""])[0]
        comparison.why = f"it does not run ({type(error).__name__}: {text[:200]})"
        # A full or read-only disk, a folder without programs, a C compiler.
        passing = isinstance(error, OSError | ImportError | subprocess.SubprocessError)
    found = comparison.error, ms, comparison.why, comparison.note, passing
    finding = Finding(kernel, shape, *found)
    (log.warning if finding.why else log.info)("Trial of %s", finding)
    return finding


def _milliseconds(call: Callable[[], object], device: torch.device) -> float:
    _finish(device)
    started = time.perf_counter()
    call()
    _finish(device)
    return 1e3 * (time.perf_counter() - started)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
