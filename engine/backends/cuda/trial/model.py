"""All trials of one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engine.backends import row_independence
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.trial.attention import AttentionCase, attention_cases
from engine.backends.cuda.trial.findings import Comparison, Finding, some, try_kernel
from engine.backends.cuda.trial.linear import LinearCase, distinct_cases, linear_cases
from engine.backends.cuda.trial.norm import norm_cases
from engine.backends.cuda.trial.recurrence import recurrence_cases
from engine.backends.cuda.trial.rounds import HostRules
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.kernels.cuda.linear.dispatch import DTYPE
from engine.values import MAX_ROWS

Check = Callable[[Comparison], Callable[[], object]]


def try_model(
    model: CudaDecoder,
    host: HostRules | None = None,
    report: Callable[[float], None] = lambda share: None,
    of_heads: Sequence[AttentionCase] = (),
) -> tuple[Finding, ...]:
    """Try each kernel at each shape that the model has; ``report`` is told which share is done.

    ``host``: the host's rules, to try a target's sampling by. ``of_heads``: the attention of its heads.

    Raise DeviceLost if a kernel loses the GPU, and torch's errors for full memory.
    """
    trials: list[tuple[str, str, Check]] = [
        *(("norm", each.shape, each.check) for each in norm_cases(model)),
        *((each.kernel, each.shape, each.check) for each in linear_cases(model)),
    ]
    trials += [("recurrence", each.shape, each.check) for each in recurrence_cases(model)]
    own = attention_cases(model)
    for each in (*own, *of_heads):
        trials += [
            ("rope and cache", each.shape, each.check_stores),
            ("attention", each.shape, each.check_attends),
        ]
    trials += [("tree", each.shape, each.check_trees) for each in own]
    if host is not None:
        from engine.backends.cuda.trial.sampling import sampling_cases  # it needs Triton

        cases = sampling_cases(model.info.vocabulary, model.device, host)
        trials += [("sampling", each.shape, each.check) for each in cases]
    # Last, since it shows a fault of any kernel and does not name it.
    trials.append(("whole step", model.info.quantization, _check_step(model)))
    return _tried(trials, model.device, report)


def try_products(
    products: Sequence[BulkLinear], device: torch.device, report: Callable[[float], None]
) -> tuple[Finding, ...]:
    """Try the products of a model that torch runs; see ``try_model``."""
    cases = distinct_cases([LinearCase(each, DTYPE, False) for each in products])
    return _tried([(each.kernel, each.shape, each.check) for each in cases], device, report)


def _tried(
    trials: Sequence[tuple[str, str, Check]], device: torch.device, report: Callable[[float], None]
) -> tuple[Finding, ...]:
    findings = []
    for index, (kernel, shape, check) in enumerate(trials):
        report(index / len(trials))
        findings.append(try_kernel(kernel, shape, device, check))
    return tuple(findings)


def _check_step(model: CudaDecoder) -> Check:
    def check(comparison: Comparison) -> Callable[[], object]:
        counts = tuple(some(range(1, MAX_ROWS + 1), model.device))
        if fault := row_independence.first_fault(model, counts):
            comparison.fault(fault)
        state = model.new_state(MAX_ROWS)
        rows = min(MAX_ROWS, state.context)
        return lambda: model.forward([0] * rows, state, last=rows)

    return check
