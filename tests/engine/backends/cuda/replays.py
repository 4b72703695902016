"""Graphs in Triton's interpreter: they run their operations again, which must be the captured ones.

A graph repeats its launches with the addresses, shapes and numbers that they had. So a replay fails here
if an operation would have another of these, but for the addresses of what the graph itself computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.backends.cuda import round

Operation = tuple[str, tuple[object, ...]]
"""A name, and its arguments: of tensors place, shape and strides."""


class Replay:
    """A graph of ``run``: its first replay, right after the capture, is what the others must repeat."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._captured: list[Operation] | None = None
        self._held: list[Any] = []  # memory that is freed may come back at the same address

    def replay(self) -> bool:
        recorder = _Recorder()
        with _launches_to(recorder), recorder:
            self._run()
        self._held += recorder.held
        if self._captured is None:
            self._captured = recorder.operations
        for at, pair in enumerate(zip(self._captured, recorder.operations, strict=True)):
            assert pair[0] == pair[1], f"operation {at} is not what was captured: {pair}"
        return True


class _Recorder(TorchDispatchMode):
    """Notes operations. ``held``: the memory they use that was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.held: list[Any] = []
        self._made = set[int]()

    def note(self, name: str, arguments: Sequence[object]) -> None:
        self.operations.append((name, tuple(map(self._described, arguments))))

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        arguments = tree_leaves((args, kwargs or {}))
        if function is torch.ops.aten.lift_fresh.default:  # numbers of the host
            self.note(str(function), [args[0].tolist()])
            self._made.add(_memory(args[0]))
        else:
            self.note(str(function), arguments)
        known = {_memory(each) for each in arguments if isinstance(each, Tensor)}
        made = function(*args, **(kwargs or {}))
        self._made |= {
            _memory(each) for each in tree_leaves(made) if isinstance(each, Tensor)
        } - known
        return made

    def _described(self, value: object) -> object:
        if not isinstance(value, Tensor):
            return value
        memory = _memory(value)
        if memory in self._made:
            return value.dtype, value.shape, value.stride()
        self.held.append(value.untyped_storage())
        return value.dtype, value.shape, value.stride(), value.data_ptr()


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextmanager
def _launches_to(recorder: _Recorder) -> Iterator[None]:
    """Note launches of kernels, and not what the interpreter does for them."""
    from triton.runtime.interpreter import GridExecutor

    launch: Any = GridExecutor.__call__

    def noted(self: Any, *args: Any, **named: Any) -> None:
        grid = () if callable(self.grid) else self.grid
        recorder.note(self.fn.__name__, tree_leaves((grid, args, named)))
        with torch.utils._python_dispatch._disable_current_modes():
            launch(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridExecutor, "__call__", noted)
        patch.setattr(round, "stamp", lambda *_: None)  # on a device, a kernel reads the time
        yield
