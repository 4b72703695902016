"""Which pages are open in windows and tabs. Each says so when it is opened, and when it is closed.

No stream is kept open for it: a browser has six connections to the app, for all of its tabs.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

OPENED, CLOSED = "/pages/opened", "/pages/closed"
MOST, LONGEST = 1000, 40
"""Pages that are known, and characters of their names. Both come from outside."""


class OpenPages:
    """The open pages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, None] = OrderedDict()
        self._left: float | None = None

    def opened(self, page: str) -> None:
        with self._lock:
            self._open[page] = self._left = None
            if len(self._open) > MOST:
                self._open.popitem(last=False)

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


class FollowPages:
    """ASGI middleware that takes what pages say, for ``pages``."""

    def __init__(self, app: ASGIApp, pages: OpenPages) -> None:
        self._app, self._acts = app, {OPENED: pages.opened, CLOSED: pages.closed}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        act = self._acts.get(scope["path"]) if scope["type"] == "http" else None
        if act is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        page = parse_qs(scope["query_string"].decode("ascii", "replace")).get("page", [""])[0]
        if 0 < len(page) <= LONGEST:
            act(page)
        await Response(status_code=204)(scope, receive, send)
