"""The same linear layer of all experts of a mixture; each row is multiplied by the weight of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import Part, Weight, make_stacked, shape_of
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, finish_sums
from engine.kernels.formats.int8 import Int8Weight


class ExpertsLinear:
    """A linear layer with the ``stacked`` weights and ``biases (experts, out)`` of experts; see
    ``Fusion.gated``.

    Of few rows, only the device knows each one's expert. ``of`` is one expert's layer, for many rows.
    """

    def __init__(self, stacked: Weight, biases: Tensor | None, chosen: int, *, gated: bool) -> None:
        """``chosen``: how many experts a token has; there are rows of 16 tokens at most."""
        assert isinstance(stacked, tuple)
        self._stacked, self._biases, self.gated = stacked, biases, gated
        self._after = Fusion(gated=gated) if len(self._stacked) > 1 else PLAIN
        self.products, start = [], 0
        for part in self._stacked:
            stop = start + shape_of(_expert(part, 0))[0]
            bias = None if biases is None else biases[:, start:stop].contiguous()
            fusion = Fusion(bias=bias, gated=gated and self._after is PLAIN)
            self.products.append(make_stacked(part, fusion, chosen))
            start = stop
        self._alone: dict[int, BulkLinear] = {}

    def __call__(self, x: Tensor, experts: Tensor) -> Tensor:
        """Return ``(rows, out)`` in the dtype of ``x (rows, in)``; ``experts (rows,)`` int32."""
        if len(self.products) == 1:
            return self.products[0](x, None, experts)
        wide = x.float()  # sums are rounded once, at the end
        sums = torch.cat([product(wide, None, experts) for product in self.products], 1)
        return finish_sums(sums, self._after, None, x.dtype)

    def of(self, expert: int) -> BulkLinear:
        """Return the layer of one expert."""
        if expert not in self._alone:
            parts = tuple(_expert(part, expert) for part in self._stacked)
            weight = parts[0] if len(parts) == 1 else parts
            bias = None if self._biases is None else self._biases[expert]
            self._alone[expert] = BulkLinear(weight, Fusion(bias=bias, gated=self.gated))
        return self._alone[expert]


def stack(weights: Iterable[Weight], count: int) -> Weight:
    """Return the weights of ``count`` experts as one, whose tensors have a first dimension more.

    Each is copied to its place before the next is made, so their memory is taken once.
    """
    stacked: list[Part] = []
    for expert, weight in enumerate(weights):
        parts = weight if isinstance(weight, tuple) else (weight,)
        stacked = stacked or [
            _each(lambda one: one.new_empty(count, *one.shape), part) for part in parts
        ]
        for whole, part in zip(stacked, parts, strict=True):
            _each(Tensor.copy_, _expert(whole, expert), part)
    return tuple(stacked)


def in_groups(weight: Weight, count: int) -> Part:
    """Return the weight of a head, bf16 or int8, as that of ``count`` experts; its tensors are views."""
    assert isinstance(weight, Tensor | Int8Weight)
    return _each(lambda one: one.unflatten(0, (count, -1)), weight)


def _expert(stacked: Part, expert: int) -> Part:
    """Return the weight of one expert; its tensors are views."""
    return _each(lambda one: one[expert], stacked)


def _each(make: Callable[..., Tensor], part: Part, *others: Part) -> Part:
    """Return ``part`` with what ``make`` returns for each of its tensors, and the same of ``others``."""
    if isinstance(part, Tensor):
        return make(part, *others)
    made: dict[str, Any] = {
        each.name: make(*(getattr(one, each.name) for one in (part, *others)))
        for each in fields(part)
        if isinstance(getattr(part, each.name), Tensor)
    }
    return replace(part, **made)
