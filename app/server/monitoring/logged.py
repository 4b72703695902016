"""ASGI middleware that logs requests to the API and how they are answered."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.guard import METRICS, is_api
from app.web.request_log import RequestLog, current

QUIET = (METRICS, "/api/show")
"""Paths that programs poll, without a reply by a model."""
LONGEST_ERROR = 16_384
"""Bytes of an answer that are read for the reason of a refusal."""


class Logged:
    """Wraps the guard, so that refused requests are logged too."""

    def __init__(self, app: ASGIApp, log: RequestLog) -> None:
        self.app, self.log = app, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not is_api(path) or path in QUIET:
            await self.app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._log_always(scope, receive, send)
        else:
            await self._log_refused(scope, receive, send)

    async def _log_always(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Log a request that may make a reply from its arrival on."""
        entry = self.log.begin(*_who(scope))
        token = current.set(entry)
        watch = _Watch(send)
        try:
            await self.app(scope, receive, watch)
        finally:
            current.reset(token)
            if watch.failed and not entry.followed:
                entry.refuse(watch.reason)
            entry.end()

    async def _log_refused(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Log lists of models and the like only if they are refused."""
        watch = _Watch(send)
        await self.app(scope, receive, watch)
        if watch.failed and scope["method"] != "OPTIONS":
            entry = self.log.begin(*_who(scope))
            entry.refuse(watch.reason)
            entry.end()


class _Watch:
    """A ``send`` that reads the status and the beginning of an error."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self.failed and len(self._body) < LONGEST_ERROR:
            self._body += message.get("body", b"")[: LONGEST_ERROR - len(self._body)]
        await self._send(message)

    @property
    def failed(self) -> bool:
        return self._status >= 400

    @property
    def reason(self) -> str:
        """The status and message of an error, in OpenAI's or Ollama's form."""
        try:
            error: Any = json.loads(bytes(self._body))["error"]
            message = error["message"] if isinstance(error, dict) else str(error)
        except (ValueError, KeyError, TypeError):
            message = bytes(self._body).decode("utf-8", "replace")[:200]
        return f"{self._status}: {message}"


def _who(scope: Scope) -> tuple[str, str, str]:
    """Return address, user agent and path."""
    client = scope.get("client")
    agent = Headers(scope=scope).get("user-agent", "")
    return (client[0] if client else "", agent[:200], str(scope["path"])[:200])
