"""Which pages are open in windows and tabs. Each says so when it is opened, and when it is closed.

No stream is kept open for it: a browser has six connections to the app, for all of its tabs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

OPENED, CLOSED = "/pages/opened", "/pages/closed"
MOST, LONGEST = 1000, 40
"""Pages that are known, and characters of their names. Both come from outside."""


class OpenPages:
    """The open pages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, None] = {}
        self._left: float | None = None

    def opened(self, page: str) -> None:
        with self._lock:
            self._open[page] = self._left = None
            if len(self._open) > MOST:
                del self._open[next(iter(self._open))]

    def closed(self, page: str) -> None:
        with self._lock:
            if page in self._open:
                del self._open[page]
                self._left = None if self._open else time.monotonic()

    @property
    def names(self) -> frozenset[str]:
        """The pages that are open, each by a random name."""
        with self._lock:
            return frozenset(self._open)

    @property
    def closed_for(self) -> float:
        """Seconds since the last page was closed; 0 while one is open, or if none ever was."""
        with self._lock:
            return 0.0 if self._left is None else time.monotonic() - self._left


def routes(pages: OpenPages) -> Sequence[Route]:
    """Return the routes by which pages say that they are opened and closed."""

    def route(path: str, act: Callable[[str], None]) -> Route:
        async def answer(request: Request) -> Response:
            page = request.query_params.get("page", "")
            if 0 < len(page) <= LONGEST:
                act(page)
            return Response(status_code=204)

        return Route(path, answer, methods=["POST"])

    return route(OPENED, pages.opened), route(CLOSED, pages.closed)
