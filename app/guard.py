"""What protects a server on one's own machine from pages in one's own browser.

Any website can make a browser send requests to localhost. So the ``Host`` header must be a name
this server goes by (a DNS name that an attacker points here is none), and a request that changes
something must come from this server's own pages, from no browser at all, or from an origin that
was listed. Pure ASGI: it buffers nothing, so streams stay streams.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.listen import is_loopback
from app.switch import ApiSwitch

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# Scripts and styles may be inline, because Gradio's are; but nothing may be fetched from, or sent
# to, another machine: neither by the page nor by an image in a model's Markdown.
CONTENT_POLICY = "; ".join(
    (
        "default-src 'self' data: blob:",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self' data: blob:",
        "frame-ancestors 'self'",
        "form-action 'self'",
        "base-uri 'self'",
        "object-src 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served."""

    status: int
    code: str
    message: str


class Guard:
    """ASGI middleware: checks Host, Origin and the API's key; adds security headers."""

    def __init__(
        self, app: ASGIApp, *, host: str, switch: ApiSwitch, origins: tuple[str, ...] = ()
    ) -> None:
        self.app = app
        self.host = host.strip("[]").lower()
        self.switch = switch
        self.origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self.names = LOOPBACK_NAMES | ({self.host} if is_loopback(host) else _machine_names(host))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self.judge(scope)
        if refusal is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message})
        else:
            await _refuse(scope, refusal, _with_headers(send))

    def judge(self, scope: Scope) -> Refusal | None:
        """Why this request is refused; None: it is served."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._goes_by(host):
            return Refusal(
                403,
                "unknown_host",
                f"This server does not go by the name {host!r}. Open it as localhost or 127.0.0.1, "
                "or start it with --host.",
            )
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if changes and origin is not None and not self._trusted(origin, host):
            return Refusal(
                403,
                "origin_not_allowed",
                f"A page of {origin} may not use this server. Start it with "
                f"--allow-origin {origin} if it should.",
            )
        if scope["path"].startswith("/v1/") and not self._has_key(scope, headers):
            return Refusal(
                401,
                "invalid_api_key",
                "This server needs its API key: send the header 'Authorization: Bearer KEY' with "
                "the key given to --api-key.",
            )
        return None

    def _goes_by(self, host: str) -> bool:
        name = _name_of(host)
        if name in self.names:
            return True
        # Beyond loopback the machine has many addresses. A literal address is safe: pointing a
        # foreign name here needs a name.
        return not is_loopback(self.host) and _is_address(name)

    def _trusted(self, origin: str, host: str) -> bool:
        origin = origin.rstrip("/").lower()
        if origin in self.origins:
            return True
        return urlsplit(origin).netloc == host.lower()

    def _has_key(self, scope: Scope, headers: Headers) -> bool:
        key = self.switch.api_key
        if key is None or scope.get("method") == "OPTIONS":
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        return secrets.compare_digest(given.encode(), key.encode())


def _name_of(host: str) -> str:
    """``localhost`` of ``localhost:7860``, ``::1`` of ``[::1]:7860``."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _machine_names(host: str) -> frozenset[str]:
    own = socket.gethostname().lower()
    return frozenset({host.lower(), own, f"{own.split('.')[0]}.local", socket.getfqdn().lower()})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


async def _refuse(scope: Scope, refusal: Refusal, send: Send) -> None:
    """Answer as the API would on its paths, in plain words elsewhere."""
    if scope["path"].startswith("/v1/"):
        error = {
            "message": refusal.message,
            "type": "invalid_request_error",
            "param": None,
            "code": refusal.code,
        }
        body, kind = json.dumps({"error": error}).encode(), b"application/json"
    else:
        body, kind = refusal.message.encode(), b"text/plain; charset=utf-8"
    start: Message = {
        "type": "http.response.start",
        "status": refusal.status,
        "headers": [(b"content-type", kind), (b"content-length", str(len(body)).encode())],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
