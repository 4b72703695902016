"""The device and its settings, and training that can stop at any moment: clock, checkpoints, log."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from engine.errors import DiskError
from engine.machine import threads
from engine.train.schema import RecipeError
from engine.train.settings import Budget, Device

MASKED = -30000.0
"""Added to the scores of what is not seen: finite, since a row of padding must not become NaN."""
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # glibc malloc.h


class DeviceChoice(Protocol):
    """What a recipe says about the machine."""

    @property
    def device(self) -> Device: ...

    @property
    def threads(self) -> int | None: ...


def choose_device(recipe: DeviceChoice) -> torch.device:
    """The device that the recipe names, or CUDA where there is one. Sets the number of threads."""
    has_cuda = torch.cuda.is_available()
    if recipe.device == "cuda" and not has_cuda:
        raise RecipeError(
            "recipe key device: cuda was asked for, but torch finds none; use auto or cpu."
        )
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    if recipe.device == "cuda" or (recipe.device == "auto" and has_cuda):
        return torch.device("cuda")
    threads.use(min(torch.get_num_threads(), threads.physical_cores()))
    keep_freed_memory()
    return torch.device("cpu")


@cache
def pass_dtype(device: torch.device) -> torch.dtype:
    """bf16 where the device multiplies it faster than fp32, else fp32.

    Timed, since no flag tells it for every processor: without bf16 instructions (Ice Lake) bf16 products
    take 2 to 4 times as long as fp32 ones, with them (Zen 4) half as long.
    """
    if device.type != "cpu":
        return torch.bfloat16
    return min((torch.float32, torch.bfloat16), key=_product_seconds)


def _product_seconds(dtype: torch.dtype) -> float:
    """The fastest of a few products of the shape that training's are of."""
    rows, weight = torch.ones(2048, 256, dtype=dtype), torch.ones(512, 256, dtype=dtype)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        torch.nn.functional.linear(rows, weight)
        times.append(time.perf_counter() - start)
    return min(times)


def keep_freed_memory() -> None:
    """Lets glibc reuse large buffers: handing them back costs a page fault per 4 KiB, 8 % of a step."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_M_TOP_PAD, 1 << 26)


class Clock:
    """How far a run is: the fraction of its tokens or minutes, whichever is larger."""

    def __init__(self, budget: Budget, tokens: int = 0, seconds: float = 0.0) -> None:
        self._budget, self.tokens, self._before = budget, tokens, seconds
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._start

    @property
    def progress(self) -> float:
        parts = [0.0]
        if self._budget.tokens is not None:
            parts.append(self.tokens / max(1, self._budget.tokens))
        if self._budget.minutes is not None:
            parts.append(self.seconds / max(1e-9, self._budget.minutes * 60))
        return min(1.0, max(parts))

    @property
    def seconds_left(self) -> float:
        done = self.progress
        return self.seconds * (1 - done) / done if done > 0 else 0.0


class Timer:
    """Tells when so many minutes have passed since it last did."""

    def __init__(self, minutes: float) -> None:
        self._every, self._last = minutes * 60, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True


@dataclass(frozen=True, slots=True)
class Journal:
    """A log of one JSON object a line. A killed run loses at most the line being written."""

    path: Path

    def write(self, **values: object) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Whole lines; none if there is no log."""
        if not self.path.exists():
            return []
        found: list[dict[str, Any]] = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # cut by a kill
                continue
        return found


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end, so that no step is left half done; a second one at once."""
    if threading.current_thread() is not threading.main_thread():  # signals reach that one alone
        yield
        return
    pressed = False

    def wait(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    both = (signal.SIGINT, signal.SIGTERM)
    held = [sign for sign in both if signal.getsignal(sign) is signal.default_int_handler]
    for sign in held:
        signal.signal(sign, wait)
    try:
        yield
    finally:
        for sign in held:
            signal.signal(sign, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replaces the checkpoint at once, so that a kill leaves the old one or the new one.

    Raises DiskError; the old one is there then.
    """
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, partial)
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch's own for a full disk is a RuntimeError
        partial.unlink(missing_ok=True)
        raise DiskError.at(path.parent, error) from error


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """The checkpoint, tensors on the CPU; None if there is none. Refuses pickled objects."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
