"""Requests for models in folders, and single models in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.kernels.formats import AUTO
from engine.loading.loader import load_planned
from engine.loading.planning.model_plan import plan_model
from engine.loading.request import LoadRequest
from engine.machine import devices
from engine.models.base import Model
from engine.models.checkpoints.checkpoint import inspect


def request_for(
    target: Path, draft: Path | None = None, heads: Sequence[Path] = (), **settings: Any
) -> LoadRequest:
    """For the model in ``target`` and what drafts for it; ``settings`` are the other fields.

    Requests run one after the other, unless ``parallel`` is given."""
    settings.setdefault("parallel", 1)
    return LoadRequest(
        target=str(target),
        draft="" if draft is None else str(draft),
        heads=tuple(map(str, heads)),
        **settings,
    )


def load_model(
    path: Path,
    *,
    quantization: str = AUTO,
    context: int | None = None,
    device: str = AUTO,
    kv_cache_dtype: str = AUTO,
    native: bool = True,
    threads: int | None = None,
) -> Model:
    """Load the model in ``path`` alone. Raises as ``inspect``, ``plan_model``, ``devices.choose`` and
    ``load_planned``, whose arguments these are."""
    chosen = devices.choose(device, native=native, threads=threads)
    checkpoint = inspect(path)
    return load_planned(
        plan_model(checkpoint, chosen, quantization, context=context, kv_cache_dtype=kv_cache_dtype)
    )
