"""Retries with exponential backoff: after a lost connection, a 5xx, or a 429 with its waiting time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but re-exported implicitly
    parse_ratelimit_headers,
)

from engine.errors import DownloadError
from engine.loading.hub.errors import is_connection_error
from engine.loading.hub.paths import endpoint
from engine.values.address import retry_after_seconds

T = TypeVar("T")

ATTEMPTS = 5
"""Attempts in a row that may fail."""

BACKOFF_S = 1.0
"""The first delay; each next one is twice as long."""

LONGEST_WAIT_S = 300.0
"""Seconds; if the hub asks for a longer wait, the download fails and says so."""

TOO_MANY_REQUESTS = 429


class Retry:
    """Retries calls. While it waits it calls ``stop``, which may raise, and ``on_wait`` with the
    reason; with "" when it goes on."""

    def __init__(self, stop: Callable[[], None], on_wait: Callable[[str], None]) -> None:
        self._stop, self._on_wait = stop, on_wait

    def call(self, request: Callable[[], T], *, first: bool = False) -> T:
        """Return the result of ``request``. Raises the error of the last of ``ATTEMPTS``, or at once
        an error that a retry cannot cure.

        ``first``: nothing was answered yet, so an unreachable hub means that there is no network.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return request()
            except Exception as error:
                if not may_pass(error) or (first and status_of(error) is None):
                    raise
                self.wait(attempt, error)
        return request()

    def wait(self, attempt: int, error: Exception | None) -> None:
        """Wait after the ``attempt``-th try. Raises DownloadError if the hub asks for too long a wait."""
        asked = None if error is None else wanted_wait(error)
        if asked is not None and asked > LONGEST_WAIT_S:
            raise DownloadError(
                f"{endpoint()} refuses requests for another {round(asked / 60)} minutes, "
                "because too many were sent (429). Progress is kept; download again later. An "
                "access token raises the limit."
            ) from error
        seconds = BACKOFF_S * 2 ** (attempt - 1) if asked is None else asked
        why = "Hugging Face limits requests" if asked is not None else "the connection was lost"
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._stop()
            self._on_wait(f"{why}, trying again in {max(1, round(left))} s")
            time.sleep(min(0.05, left))
        self._on_wait("")


def may_pass(error: BaseException) -> bool:
    """Return whether a retry may help."""
    if isinstance(error, OfflineModeIsEnabled):
        return False
    return is_connection_error(error) or status_of(error) == TOO_MANY_REQUESTS


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error response, or None."""
    found = isinstance(error, HfHubHTTPError) and error.response is not None
    return error.response.status_code if found else None  # type: ignore[attr-defined]


def wanted_wait(error: BaseException) -> float | None:
    """Return the seconds that the hub asks to wait, by ``Retry-After`` or the draft header
    ``RateLimit``, or None."""
    if status_of(error) is None:
        return None
    headers = error.response.headers  # type: ignore[attr-defined]
    text = headers.get("Retry-After")
    if text is None:
        limit = parse_ratelimit_headers(headers)
        return float(limit.reset_in_seconds) if limit is not None and not limit.remaining else None
    return retry_after_seconds(text)
