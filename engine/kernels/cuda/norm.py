"""RMSNorm (Zhang and Sennrich 2019) of whole rows, where no product follows that could take it in.

One program a row, so that its bits know nothing of the rows beside it; torch's own reductions are cut by
the number of rows too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.cuda.linear.fusion import Norm


def normalise(x: Tensor, norm: Norm, residual: Tensor | None = None) -> Tensor:
    """``x (rows, width)`` normalised, times the norm's weight, plus ``residual``; rounded once.

    In the dtype of ``x``. ``residual`` has its shape.
    """
    from engine.kernels.cuda.norm_kernel import normalise_rows

    x = x.contiguous()
    result = torch.empty_like(x)
    normalise_rows[(len(x),)](
        x, norm.weight, None if residual is None else residual.contiguous(), result,
        x.shape[1], norm.epsilon, DEPTH=1024, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return result
