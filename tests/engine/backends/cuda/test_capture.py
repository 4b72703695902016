"""A capture that fails leaves torch as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

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
        """As ``torch.cuda.graph``, of an operation that a capture forbids: its end fails too."""
        capturing.append(pool)
        current[0] = SimpleNamespace(device_index=0)
        try:
            yield
        finally:
            raise RuntimeError(
                "CUDA error: operation failed due to a previous error during capture"
            )

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: current.__setitem__(0, stream))
    monkeypatch.setattr(
        torch._C, "_cuda_endAllocateToPool", lambda device, pool: capturing.remove(pool),
        raising=False,
    )  # fmt: skip
    first = RuntimeError("CUDA error: operation not permitted when stream is capturing")
    assert capture(Mock(side_effect=first), "a round", pool) is first
    assert current == [own] and not capturing
