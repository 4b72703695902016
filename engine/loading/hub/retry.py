"""Asking the hub again: after a cut, an error of its own (5xx), or once it says that one may (429).

A few times, each wait twice as long as the one before; never for ever, and never longer than people
would wait at a page.
"""

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
"""How often in a row something may bring nothing."""

BACKOFF_S = 1.0
"""The first wait; each next one is twice as long."""

LONGEST_WAIT_S = 300.0
"""A hub that wants more than this is told of instead."""

TOO_MANY_REQUESTS = 429


class Retry:
    """Waits between attempts. ``stop`` is called often meanwhile, and raises to end it; ``on_wait`` is
    told why something waits, and "" when it goes on."""

    def __init__(self, stop: Callable[[], None], on_wait: Callable[[str], None]) -> None:
        self._stop, self._on_wait = stop, on_wait

    def call(self, question: Callable[[], T], *, first: bool = False) -> T:
        """The answer; raises what the last of ``ATTEMPTS`` raised, and at once what waiting cannot mend.

        ``first``: nothing was answered yet, so a hub that is not reached is taken for no network.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                return question()
            except Exception as error:
                if not may_pass(error) or (first and status_of(error) is None):
                    raise
                self.wait(attempt, error)
        return question()

    def wait(self, attempt: int, trouble: Exception | None) -> None:
        """Before the attempt behind number ``attempt``. Raises DownloadError for too long a wait."""
        asked = None if trouble is None else wanted_wait(trouble)
        if asked is not None and asked > LONGEST_WAIT_S:
            raise DownloadError(
                f"{endpoint()} lets nobody from here in for another {round(asked / 60)} minutes, for too "
                "much was asked of it (429). What has arrived is kept; download again then. With an "
                "access token more may be asked."
            ) from trouble
        seconds = BACKOFF_S * 2 ** (attempt - 1) if asked is None else asked
        why = "the hub asks to slow down" if asked is not None else "the connection broke off"
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._stop()
            self._on_wait(f"{why}, trying again in {max(1, round(left))} s")
            time.sleep(min(0.05, left))
        self._on_wait("")


def may_pass(error: BaseException) -> bool:
    """Whether asking again later may help."""
    if isinstance(error, OfflineModeIsEnabled):
        return False
    return is_connection_error(error) or status_of(error) == TOO_MANY_REQUESTS


def status_of(error: BaseException) -> int | None:
    """The HTTP status of an answer that was an error."""
    found = isinstance(error, HfHubHTTPError) and error.response is not None
    return error.response.status_code if found else None  # type: ignore[attr-defined]


def wanted_wait(error: BaseException) -> float | None:
    """The seconds that the hub asks for, by ``Retry-After`` or the draft's ``RateLimit``; None where it
    does not say."""
    if status_of(error) is None:
        return None
    headers = error.response.headers  # type: ignore[attr-defined]
    text = headers.get("Retry-After")
    if text is None:
        limit = parse_ratelimit_headers(headers)
        return float(limit.reset_in_seconds) if limit is not None and not limit.remaining else None
    return retry_after_seconds(text)
