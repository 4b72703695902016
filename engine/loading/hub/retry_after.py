"""When a server lets one ask again, by its ``Retry-After``."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_asked(retry_after: str) -> float | None:
    """The seconds that the header means, as such or up to a date (RFC 9110 10.2.3); None for neither."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until.tzinfo else None
