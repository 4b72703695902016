"""Try recurrent mixers: rows after others that they take in again, as after a rejected draft; trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.recurrent import CudaRecurrence, new_memories
from engine.backends.cuda.trial.attention import random_parents
from engine.backends.cuda.trial.findings import Comparison, some
from engine.backends.torch.decoder import mix_recurrent
from engine.backends.torch.state import new_memory
from engine.kernels.cuda.linear.dispatch import DTYPE
from engine.kernels.cuda.trees import branch, tree_table
from engine.models.architecture import Architecture, Recurrent
from engine.values import MAX_ROWS

_BEFORE = MAX_ROWS + 3
"""Rows before those that are compared, in one step; the next one takes in the last 16 of them again."""
_BEFORE_INTERPRETED = 3


@dataclass(frozen=True, slots=True)
class RecurrenceCase:
    """The recurrent mixer of ``architecture``, which has one layer."""

    architecture: Architecture
    recurrence: CudaRecurrence
    device: torch.device

    @property
    def spec(self) -> Recurrent:
        """Return the mixer's description."""
        spec = self.architecture.layers[0].mixer
        assert isinstance(spec, Recurrent)
        return spec

    @property
    def shape(self) -> str:
        return repr(self.spec)

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``."""
        memories = new_memories(self.architecture, self.device)
        assert memories is not None
        memory = memories.layers[0]
        length = torch.zeros(1, dtype=torch.int32, device=self.device)
        before = _BEFORE if self.device.type == "cuda" else _BEFORE_INTERPRETED
        shape = before + MAX_ROWS, memory.rows.shape[1]
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(self.device, DTYPE)

        def step(start: int, inputs: Tensor, tree: Tensor | None = None) -> Tensor:
            for each in (length, memories.committed):
                each.fill_(start)
            memories.begin(length, len(inputs), tree)
            result = self.recurrence(inputs, memory, memories)
            memories.keep(memory, inputs)
            return result

        step(0, x[:before])
        kept = [each.clone() for each in memories.tensors]

        def run(rows: slice) -> Tensor:
            memories.copy_(kept)
            first = before + (rows.start or 0)
            if first > before:
                step(before, x[before:first])
            return step(first, x[first : before + rows.stop])

        whole = run(slice(MAX_ROWS))
        comparison.rows_are_alike(run, whole)
        comparison.near(whole, self._expected(x)[before:])
        parents = random_parents(MAX_ROWS)
        memories.copy_(kept)
        in_tree = step(before, x[before:], tree_table(parents).to(self.device))
        grown = [each.clone() for each in memories.tensors]
        start = torch.tensor([before], device=self.device)
        for leaf in some([row for row in range(MAX_ROWS) if row not in parents], self.device):
            path = branch(parents, leaf)
            memories.copy_(grown)
            memories.move(start, torch.tensor(path, device=self.device))
            after = step(before + len(path), x[:1])
            memories.copy_(kept)
            chain = step(before, x[before:][path])
            comparison.same(in_tree[path], chain, f"in a tree's branch of {len(path)}")
            chain = step(before + len(path), x[:1])
            comparison.same(after, chain, "after a tree's accepted rows")
        return lambda: run(slice(MAX_ROWS))

    def _expected(self, x: Tensor) -> Tensor:
        """Return what torch makes of the linear layer's outputs ``x``, from the first row on."""
        own: Any = self.recurrence.weights
        weights = replace(own, inputs=_same, output=_same)
        state, epsilon = new_memory(self.spec, self.device), self.architecture.epsilon
        return mix_recurrent(weights, self.spec, x, state, epsilon, final=True)


def _same(x: Tensor) -> Tensor:
    return x


def recurrence_cases(model: CudaDecoder) -> list[RecurrenceCase]:
    """Return the recurrent mixers of the model that differ in what their launches depend on."""
    found = [
        RecurrenceCase(replace(model.architecture, layers=(spec,)), layer.recurrence, model.device)
        for layer, spec in zip(model.layers, model.architecture.layers, strict=True)
        if layer.recurrence is not None
    ]
    return list({each.shape: each for each in reversed(found)}.values())
