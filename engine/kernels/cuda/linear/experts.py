"""The same linear layer of all experts of a mixture; each row is multiplied by the weight of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import Part, Weight, make_linear, make_stacked, shape_of
from engine.kernels.cuda.linear.fusion import PLAIN, Fusion, finish_sums
from engine.kernels.formats.block_planes import BlockPlanes
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.formats.nf4 import Nf4Weight


class ExpertsLinear:
    """A linear layer with the ``weights`` and ``biases (experts, out)`` of experts; see ``Fusion.gated``.

    Of few rows, only the device knows each one's expert. ``of`` is one expert's layer, for many rows.
    """

    def __init__(
        self, weights: Sequence[Weight], biases: Tensor | None, chosen: int, *, gated: bool
    ) -> None:
        """``chosen``: how many experts a token has; there are rows of 16 tokens at most."""
        each = [weight if isinstance(weight, tuple) else (weight,) for weight in weights]
        self._stacked = [_stack(parts) for parts in zip(*each, strict=True)]
        self._biases, self.gated = biases, gated
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
            fusion = Fusion(bias=bias, gated=self.gated)
            self._alone[expert] = BulkLinear(make_linear(weight, fusion), weight, fusion)
        return self._alone[expert]


def _stack(parts: Sequence[Part]) -> Part:
    """Return the weights of all experts in one, whose tensors have a first dimension more."""
    match parts[0]:
        case Tensor():
            return torch.stack([part for part in parts if isinstance(part, Tensor)])
        case Int8Weight():
            pairs = [(part.values, part.scale) for part in parts if isinstance(part, Int8Weight)]
            return Int8Weight(*map(torch.stack, zip(*pairs, strict=True)))
        case Nf4Weight():
            packs = [(part.packed, part.absmax) for part in parts if isinstance(part, Nf4Weight)]
            packed, absmax = map(torch.stack, zip(*packs, strict=True))
            return Nf4Weight(packed, absmax, parts[0].shape)
    planes = [part for part in parts if isinstance(part, BlockPlanes)]
    return _each_plane(planes[0], lambda name: torch.stack([getattr(one, name) for one in planes]))


def _expert(stacked: Part, expert: int) -> Part:
    """Return the weight of one expert; its tensors are views."""
    match stacked:
        case Tensor():
            return stacked[expert]
        case Int8Weight():
            return Int8Weight(stacked.values[expert], stacked.scale[expert])
        case Nf4Weight():
            return replace(stacked, packed=stacked.packed[expert], absmax=stacked.absmax[expert])
    return _each_plane(stacked, lambda name: getattr(stacked, name)[expert])


def _each_plane(planes: BlockPlanes, make: Callable[[str], Tensor]) -> BlockPlanes:
    """Return ``planes`` with what ``make`` returns for the name of each that is there."""
    names = ("codes", "high", "scales", "lows")
    made: dict[str, Any] = {name: make(name) for name in names if getattr(planes, name) is not None}
    return replace(planes, **made)
