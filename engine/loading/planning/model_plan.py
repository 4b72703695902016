"""How one model is loaded: decided from its headers and what the machine has."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backends.native.decoder import Library
from engine.kernels.formats import AUTO, FP8
from engine.loading.planning.choices import (
    Backend,
    check_kv_cache,
    choose_backend,
    choose_quantization,
    compiled_step,
    compute_dtype,
)
from engine.machine.devices import Device
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.values import CHECKPOINT_MB


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """How one model is loaded; the loader decides nothing.

    ``quantization`` is the format of weights: fp32, bf16, int8, nf4, q4 or stored. ``compute``: the dtype
    of activations, fp32 or bf16. ``kv_cache_dtype``: auto (as ``compute``) or fp8. ``context``: tokens
    that the KV cache holds. ``library`` is set for the native backend. ``rounded``: the format that wider
    weights are rounded to when they are packed, or None. ``checkpoint_mb``: see ``LoadRequest``.
    ``host``: the plan of the first ``host_layers``, which are left on the CPU beside a GPU; None if there
    are none.
    """

    checkpoint: Checkpoint
    device: Device
    backend: Backend
    quantization: str
    compute: str
    kv_cache_dtype: str
    context: int
    library: Library | None = None
    rounded: str | None = None
    checkpoint_mb: int = CHECKPOINT_MB
    host: ModelPlan | None = None
    host_layers: int = 0

    @property
    def cached(self) -> str:
        """The KV cache's dtype, with auto resolved: fp32, bf16 or fp8."""
        return FP8 if self.kv_cache_dtype == FP8 else self.compute


def plan_model(
    checkpoint: Checkpoint,
    device: Device,
    quantization: str = AUTO,
    *,
    context: int | None = None,
    kv_cache_dtype: str = AUTO,
) -> ModelPlan:
    """Return the plan for a model on ``device``. ``quantization``: one of ``QUANTIZATIONS``;
    ``context`` bounds the model's own. Raises InvalidRequest for what this model or device lacks."""
    quantization = choose_quantization(checkpoint, quantization, device)
    backend = choose_backend(checkpoint, quantization, device)
    return ModelPlan(
        checkpoint=checkpoint,
        device=device,
        backend=backend,
        quantization=quantization,
        compute=compute_dtype(checkpoint, quantization, device),
        kv_cache_dtype=check_kv_cache(checkpoint, quantization, kv_cache_dtype, device),
        context=min(checkpoint.context, context or checkpoint.context),
        library=compiled_step(device) if backend is Backend.NATIVE else None,
    )
