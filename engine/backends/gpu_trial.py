"""Try a loaded model on its GPU, whose arithmetic nobody may have tried before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from engine.backends import row_independence
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.trial import verdicts
from engine.backends.cuda.trial.attention import head_cases
from engine.backends.cuda.trial.findings import Finding
from engine.backends.cuda.trial.model import try_model, try_products
from engine.backends.cuda.trial.rounds import HostRules
from engine.backends.cuda.trial.verdicts import Verdict, kernel_errors
from engine.backends.split import SplitDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.errors import DeviceLost, KernelsFailed
from engine.kernels.cuda.linear.bulk import BulkLinear
from engine.machine.devices import device_errors
from engine.models.architecture import Architecture, Attention
from engine.models.base import Model

_SPLIT_ROWS = (2, 5, 16)
"""Numbers of rows tried of a model in two parts at each load, which also compiles its kernels."""


def try_on_gpu(
    model: Model,
    architecture: Architecture | None,
    cached: str,
    host: HostRules | None,
    begin: Callable[[], None],
    report: Callable[[float], None],
    blocks: Collection[str] = (),
    heads: Collection[Attention] = (),
) -> None:
    """Try what is not known to be right on this machine; nothing on a CPU.

    ``architecture``: as it was planned by. ``cached``: the dtype of the KV cache. ``host``: the host's
    rules, for a model whose sampling is tried too: a target. ``begin`` is called before a trial,
    ``report`` with the share that is done. ``blocks``: see ``Support.why_not``.
    ``heads``: the attention of the heads that draft for it.

    Raise KernelsFailed if a kernel failed: the next plan for this model is without them. With torch,
    nothing may draft for a model that fails.
    """
    if isinstance(model, SplitDecoder):
        try_on_gpu(model.rest, architecture, cached, host, begin, report, blocks)
        begin()
        if fault := row_independence.first_fault(model, _SPLIT_ROWS):
            model.rest.without_drafts(
                f"The layers on the CPU and the GPU together are not exact enough for drafting: {fault}. "
                "So nothing is drafted; the words are right."
            )
    elif isinstance(model, CudaDecoder):
        assert architecture is not None  # else it was not planned so
        of_heads = head_cases(model, heads)
        cached = "; ".join([cached, *(each.shape for each in of_heads)])
        run = partial(try_model, model, host, report, of_heads)
        model.verdict = _try_kernels(model, architecture, cached, host, begin, run, blocks)
    elif isinstance(model, TorchDecoder):
        products = [each for each in model.gpu_products if isinstance(each, BulkLinear)]
        if products:
            assert architecture is not None
            run = partial(try_products, products, model.device, report)
            model.verdict = _try_kernels(model, architecture, cached, host, begin, run, blocks)
        if model.device.type != "cuda":
            return
        begin()
        if fault := row_independence.first_fault(model):
            model.without_drafts(
                f"PyTorch on this GPU is not exact enough for drafting: {fault}. So nothing is "
                "drafted; the words are right."
            )


@contextmanager
def gpu_errors(model: Model) -> Iterator[None]:
    """Raise DeviceLost or KernelsFailed for errors of the model's GPU, also in rounds and heads.

    Other errors pass.
    """
    part = model.rest if isinstance(model, SplitDecoder) else model
    verdict = part.verdict if isinstance(part, CudaDecoder | TorchDecoder) else None
    with device_errors(torch.device(model.info.device)), kernel_errors(verdict):
        yield


def _try_kernels(
    model: Model,
    architecture: Architecture,
    cached: str,
    host: HostRules | None,
    begin: Callable[[], None],
    run: Callable[[], tuple[Finding, ...]],
    blocks: Collection[str],
) -> Verdict:
    """Return the verdict on the kernels, from an earlier load or by ``run``. See ``try_on_gpu``."""
    info = model.info
    role = "draft" if host is None else "target"
    verdict = verdicts.known(
        architecture, info.quantization, f"{cached}, {role}", info.name, blocks
    )
    if not verdict.passed:
        begin()
        begun = verdict.begin()
        try:
            findings = run()
        except DeviceLost:  # it is this trial's doing: the next process need not repeat it
            begun.end((Finding("of the trial", verdict.cached, 0.0, 0.0, "it lost the GPU"),))
            raise
        except BaseException:
            verdicts.forget(begun)
            raise
        verdict = begun.end(findings)
    if verdict.fault is not None:
        raise KernelsFailed(verdict.fault)
    return verdict
