"""A sweep's rows as ``foretoken bench compare`` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.bench.sweep import Row

_KEYS = (
    "proposer depth controller prompt_kind tokens_per_s speedup acceptance_rate "
    "mean_acceptance_length"
).split()


def identical(row: Row) -> bool | None:
    """True if every reply has the tokens of plain decoding; None where the acceptance rule promises the
    distribution instead of the words."""
    return None if row.divergences is None else row.divergences == 0


def as_json(rows: Sequence[Row], verify_cost: dict[int, float]) -> dict[str, Any]:
    """Return the stable keys that scripts rely on."""
    results = [
        {**{key: getattr(row, key) for key in _KEYS}, "identical": identical(row)} for row in rows
    ]
    cost = {str(count): ratio for count, ratio in verify_cost.items()}
    return {"results": results, "verify_cost": cost}
