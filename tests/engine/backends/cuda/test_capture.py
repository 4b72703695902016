"""A capture that fails leaves torch as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.backends.cuda.capture import capture


def test_a_failed_capture_restores_the_stream_and_the_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, pool = SimpleNamespace(device_index=0), (0, 7)
    current, capturing = [own], list[tuple[int, int]]()

    @contextmanager
    def graph(_: object, *, pool: tuple[int, int], **__: Any) -> Iterator[None]:
        """As ``torch.cuda.graph``, of an operation that a capture forbids."""
        capturing.append(pool)
        current[0] = SimpleNamespace(device_index=0)
        yield
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: current.__setitem__(0, stream))
    monkeypatch.setattr(
        torch._C, "_cuda_endAllocateToPool", lambda device, pool: capturing.remove(pool),
        raising=False,
    )  # fmt: skip
    assert capture(lambda: None, "a round", pool) is None
    assert current == [own] and not capturing
