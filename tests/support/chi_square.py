"""Pearson's chi-square test. scipy has it too, but takes a second to import, in every test process."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def chi_square(observed: Sequence[float] | Tensor, expected: Sequence[float] | Tensor) -> float:
    """Return the p-value of counts against expected ones: the upper tail of chi-square with one degree of
    freedom less than there are classes. Raises AssertionError where the totals differ."""
    seen, wanted = (torch.as_tensor(each, dtype=torch.float64) for each in (observed, expected))
    torch.testing.assert_close(seen.sum(), wanted.sum(), rtol=1e-6, atol=0.0)
    statistic = ((seen - wanted) ** 2 / wanted).sum()
    freedom = torch.tensor((len(seen) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))
