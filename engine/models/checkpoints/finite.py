"""Whether a tensor's numbers are numbers: the last thing that a damaged file can get wrong."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from engine.errors import ModelError


def check_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raises ModelError that names the tensor if one of its numbers is none."""
    if not tensor.is_floating_point() or not tensor.numel():
        return
    low, high = tensor.detach().aminmax()  # NaN comes through both; nothing is copied
    if not bool(low.isfinite() & high.isfinite()):
        kind = "NaN" if bool(low.isnan()) else "an infinite number"
        raise ModelError(
            f"In {path}, the tensor {name} holds {kind}: the model is damaged, or diverged "
            "in training. Download it again, or use another checkpoint."
        )
