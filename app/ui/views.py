"""What a page's script gets, and sends: plain JSON values."""

from __future__ import annotations

from typing import Any

View = dict[str, Any]


def shorten(number: float | None) -> float | None:
    """Round to four significant digits; the page shows fewer."""
    return None if number is None else float(f"{number:.4g}")
