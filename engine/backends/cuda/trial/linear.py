"""Try linear layers: with few rows, as in a round, and with many, as in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.feed_forward import CudaExperts
from engine.backends.cuda.trial.findings import Comparison
from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import DTYPE, Weight, codes_of, shape_of, take_outputs
from engine.kernels.cuda.linear.experts import ExpertsLinear
from engine.kernels.cuda.linear.fusion import Norm
from engine.kernels.cuda.references import floats_of, linear_reference
from engine.kernels.formats.int8 import Int8Weight
from engine.kernels.torch.linear import trial_rows
from engine.values import MAX_ROWS

_VANISHING = 32
"""First outputs, which the trial's rows nearly cancel."""
_PART = 1024
"""Outputs of a weight that are dequantised at once: some hundred megabytes, where caches will be."""
_BULK_ERROR = (2**-6, 2**-6)
"""Of many rows, sums are rounded before bias, gate and residual; see ``Comparison.near``."""
_INT8_ERROR = {torch.bfloat16: (2**-7, 2**-14), torch.float32: (2**-14, 2**-14)}
"""Of int8, whose sums are exact (see ``_int8_rows``). What is left: two scales and a norm's factor in
float32, some 2^-21; the gate's exponential, 2^-19; one rounding to bf16, which may go the other way."""
_LEAST_WEIGHT = 2**-10
"""Of a norm, below which its inputs are zero in the trial of int8."""


@dataclass(frozen=True, slots=True)
class LinearCase:
    """A linear layer, the dtype of its rows, and whether it adds a residual."""

    linear: BulkLinear
    dtype: torch.dtype
    adds: bool

    @property
    def kernel(self) -> str:
        return type(self.linear.streamed).__name__

    @property
    def shape(self) -> str:
        """Return all that the launch depends on."""
        fusion, (outputs, width) = self.linear.fusion, shape_of(self.linear.weight)
        parts = [f"{outputs} x {width}", str(self.dtype).removeprefix("torch.")]
        parts += codes_of(self.linear.weight)
        parts += ["norm"] * (fusion.norm is not None) + ["bias"] * (fusion.bias is not None)
        parts += ["gate"] * fusion.gated + ["residual"] * self.adds
        return ", ".join(parts)

    @property
    def results(self) -> int:
        return shape_of(self.linear.weight)[0] // (2 if self.linear.fusion.gated else 1)

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``."""
        x, few = self.rows(), slice(MAX_ROWS)
        residual = None
        if self.adds:
            draw = torch.Generator().manual_seed(0)
            residual = torch.randn(len(x), self.results, generator=draw).to(x)

        def run(rows: slice) -> Tensor:
            return self.linear(x[rows], None if residual is None else residual[rows])

        whole, many = run(few), run(slice(None))
        comparison.rows_are_alike(run, whole)
        for _ in range(3):  # programs finish in another order each time
            comparison.same(run(few), whole, "from run to run")
        error = _error(self.linear.weight, self.dtype)
        for part, expected in self._expected(x, residual):
            comparison.near(whole[:, part], expected[few], error)
            comparison.near(many[:, part], expected, _BULK_ERROR)
        comparison.note = self.linear.refused
        return lambda: run(few)

    def rows(self) -> Tensor:
        """Return more rows than the kernels compute at once, of different sizes."""
        weight, norm = self.linear.weight, self.linear.fusion.norm
        x = (
            _int8_rows(weight, norm)
            if isinstance(weight, Int8Weight)
            else _float_rows(weight, norm)
        )
        return torch.cat([x, x[:MAX_ROWS]]).to(self.dtype)

    def _expected(self, x: Tensor, residual: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
        """Yield the reference's results, part by part."""
        weight, fusion = self.linear.weight, self.linear.fusion
        for start in range(0, self.results, _PART):
            part = slice(start, min(start + _PART, self.results))
            places = [part]
            if fusion.gated:  # the other half
                places.append(slice(part.start + self.results, part.stop + self.results))
            bias = fusion.bias
            if bias is not None:
                bias = torch.cat([bias[each] for each in places])
            reference = linear_reference(take_outputs(weight, *places), replace(fusion, bias=bias))
            yield part, reference(x, None if residual is None else residual[:, part])


def _error(weight: Weight, dtype: torch.dtype) -> tuple[float, float] | None:
    """Return the error of results in ``dtype``; see ``Comparison.near``."""
    return _INT8_ERROR[dtype] if isinstance(weight, Int8Weight) else None


def _float_rows(weight: Weight, norm: Norm | None) -> Tensor:
    """Return rows whose first outputs nearly vanish, so that another order of a sum shows in them; a
    norm's weight is divided out for that."""
    x = trial_rows(floats_of(take_outputs(weight, slice(_VANISHING))))[:STREAMED_ROWS]
    sizes = torch.logspace(-2, 2, MAX_ROWS, device=x.device)
    x = x * sizes.repeat(STREAMED_ROWS // MAX_ROWS)[:, None]
    if norm is not None:
        factors = norm.weight.float()
        x = x / torch.where(factors.abs() > 0.1, factors, 1.0)
    return x


def _int8_rows(weight: Int8Weight, norm: Norm | None) -> Tensor:
    """Return rows that every right kernel rounds to the same integers, so that sums are equal.

    In steps of int8 their numbers are quarters up to 63.75, but not halfway between two steps; one is
    127. A norm's weight is divided out, and bf16 then moves numbers by 63.75 * 2^-8 steps at most, and
    none to less than 2^-12 from halfway. Scale, quotient and sum of a kernel are exact to 2^-15 steps.
    """
    draw = torch.Generator().manual_seed(0)
    width, device = weight.values.shape[1], weight.values.device
    quarters = (64 * torch.randn(STREAMED_ROWS, width, generator=draw)).round().clamp(-255, 255)
    quarters += quarters % 4 == 2
    factors = torch.ones(width) if norm is None else norm.weight.float().cpu()
    quarters[:, factors.abs().argmax()] = 4 * 127
    sizes = torch.exp2(torch.arange(STREAMED_ROWS) % MAX_ROWS - 8.0)
    usable = factors.abs() >= _LEAST_WEIGHT
    x = torch.where(usable, quarters / torch.where(usable, factors, 1.0), 0.0)
    return (x * sizes[:, None]).to(device)


@dataclass(frozen=True, slots=True)
class ExpertsCase:
    """A layer of ``count`` experts, of which a row chooses some."""

    linear: ExpertsLinear
    count: int
    device: torch.device

    @property
    def kernel(self) -> str:
        return f"{' and '.join(type(each).__name__ for each in self.linear.products)} of experts"

    @property
    def shape(self) -> str:
        return f"{self.count} of {LinearCase(self.linear.of(0), DTYPE, False).shape}"

    def check(self, comparison: Comparison) -> Callable[[], object]:
        """See ``try_kernel``. Some of the experts are chosen by several rows."""
        some = torch.tensor([0, self.count - 1, self.count // 2, 1 % self.count])
        experts = some.repeat(MAX_ROWS // len(some)).to(self.device, torch.int32)
        x = LinearCase(self.linear.of(0), DTYPE, False).rows()[:MAX_ROWS]

        def run(rows: slice) -> Tensor:
            return self.linear(x[rows], experts[rows])

        whole = run(slice(None))
        comparison.rows_are_alike(run, whole)
        for expert in set(some.tolist()):
            own, alone = experts == expert, self.linear.of(expert)
            expected = linear_reference(alone.weight, alone.fusion)(x[own])
            comparison.near(whole[own], expected, _error(alone.weight, DTYPE))
        return lambda: run(slice(None))


def linear_cases(model: CudaDecoder) -> list[LinearCase | ExpertsCase]:
    """Return the linear layers of the model, as ``distinct_cases`` does."""
    adds = model.architecture.residual_scale == 1
    found: list[LinearCase | ExpertsCase] = [LinearCase(model.head, torch.float32, False)]
    for layer in model.layers:
        found += [
            LinearCase(layer.inputs, DTYPE, False),
            LinearCase(layer.output, DTYPE, adds and layer.mixer_after is None),
        ]
        part, last = layer.feed_forward, adds and layer.feed_forward_after is None
        if isinstance(part, CudaExperts):
            for each in (part.gate_up, part.down):
                found.append(ExpertsCase(each, part.spec.count, model.device))
                found.append(LinearCase(each.of(0), DTYPE, False))
            mlp, last = part.shared, False
        else:
            mlp = part
        if mlp is not None:
            found += [LinearCase(mlp.gate_up, DTYPE, False), LinearCase(mlp.down, DTYPE, last)]
        if layer.own_input is not None:
            own = layer.own_input.gate, layer.own_input.output
            found += [LinearCase(each, DTYPE, False) for each in own]
    if model.own is not None:
        found.append(LinearCase(model.own.projection, DTYPE, False))
    return distinct_cases(found)


C = TypeVar("C", LinearCase, "LinearCase | ExpertsCase")


def distinct_cases(cases: Sequence[C]) -> list[C]:
    """Return those that differ in what their launch depends on."""
    return list({(each.kernel, each.shape): each for each in reversed(cases)}.values())
