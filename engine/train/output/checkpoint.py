"""Checkpoints, written atomically, and Ctrl-C that waits for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from engine.errors import DiskError


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block; a second one takes effect at once."""
    if threading.current_thread() is not threading.main_thread():  # signals reach that one alone
        yield
        return
    pressed = False

    def wait(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signals = (signal.SIGINT, signal.SIGTERM)
    replaced = [sign for sign in signals if signal.getsignal(sign) is signal.default_int_handler]
    for sign in replaced:
        signal.signal(sign, wait)
    try:
        yield
    finally:
        for sign in replaced:
            signal.signal(sign, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint atomically. Raises DiskError, and then the old one stays."""
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, partial)
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch's own for a full disk is a RuntimeError
        partial.unlink(missing_ok=True)
        raise DiskError.at(path.parent, error) from error


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the checkpoint, tensors on the CPU; None if there is none. Refuses pickled objects."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
