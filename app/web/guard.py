"""Protects a local server from websites in the user's own browser.

Any website can make a browser send requests to localhost. So ``Host`` must be a name of this server (not
a DNS name that an attacker points here). A request that changes something, and every one to the API, must
come from this server's pages, from a client that is no browser, or, for the API, from an allowed origin.
With a key, the API needs it in every request, and the pages need it once. Pure ASGI: it buffers nothing
but pages, so streams stay streams.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import installable, login
from app.web.error_forms import OLLAMA, Form, error_body, form_of
from app.web.listen import is_address, is_loopback
from app.web.login import Login
from app.web.page_policy import content_policy, opens_page, uncompressed, with_nonce
from app.web.switch import ApiSwitch
from engine import wire

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METRICS = "/metrics"
LLAMA_CPP = "/tokenize", "/detokenize", "/apply-template", "/infill", "/rerank", "/reranking"
"""Paths of the API that are elsewhere than its others, as llama.cpp has them."""
HEALTH = "/health"
"""Says only whether a model is loaded, so it needs no key."""
CORS, CREDENTIALS = "access-control-", "access-control-allow-credentials"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

GRADIO = "/gradio_api/"
GRADIO_USED = (
    "app_id", "cancel", "component_server", "heartbeat/", "info", "reset", "run/",
    "startup-events", "theme.css",
)  # fmt: skip
"""Gradio's routes that the pages use, by prefixes. The others are blocked: they accept uploads of any
size, fetch from other servers, serve files and edit the app."""
GRADIO_NEVER = ("/monitoring", "/svelte", "/gradio_api", "/manifest.json")
"""More of Gradio's routes that no page uses."""

SECURITY_HEADERS = {
    "Content-Security-Policy": content_policy(),
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
    """ASGI middleware: checks Host, Origin and the key; adds security headers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        switch: ApiSwitch,
        instance: str = wire.INSTANCE,
    ) -> None:
        """``instance``: this app's name in ``Via`` headers."""
        self.app = app
        # A key of the Server page is for the API; the pages need the one of the command line.
        wanted = switch.pages and (switch.given_key is not None or switch.needs_key)
        self.login = Login(switch) if wanted else None
        self.host = host.strip("[]").lower()
        self.switch, self.instance = switch, instance
        self.names = LOOPBACK_NAMES | ({self.host} if is_loopback(host) else _machine_names(host))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self.judge(scope)
        wire.passed.set(wire.instances_in(Headers(scope=scope).getlist(wire.VIA)))
        sending = _with_headers(send, scope)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, sending)
        elif self.login is not None and scope["path"] == login.PATH:
            await self.login(scope, receive, sending)
        elif scope["type"] == "http" and opens_page(scope):
            whole = sending if scope["method"] == "HEAD" else with_nonce(sending)
            await self.app(uncompressed(scope), receive, whole)
        else:
            await self.app(scope, receive, sending)

    def judge(self, scope: Scope) -> Refusal | None:
        """Return why the request is refused; None if it is served."""
        headers, path = Headers(scope=scope), str(scope["path"])
        host = headers.get("host", "")
        if not self._goes_by(host):
            return Refusal(
                403,
                "unknown_host",
                f"This server does not accept the host name {host!r}. Open it as localhost or "
                "127.0.0.1, or start it with --host.",
            )
        if self.instance in wire.instances_in(headers.getlist(wire.VIA)):
            return Refusal(
                508,
                "request_loop",
                "This Foretoken is connected to a server that leads back to it. Connect it to "
                "another server.",
            )
        origin = headers.get("origin")
        guarded = (
            scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS or is_api(path)
        )
        if guarded and origin is not None and not self._trusted(origin, host, path):
            return Refusal(
                403,
                "origin_not_allowed",
                f"Pages of {origin} may not use this server. To allow them, start with "
                f"--allow-origin {origin}{self.switch.or_page('allow it')}.",
            )
        if is_unused(path) or any(ord(sign) < 32 for sign in path):
            return Refusal(404, "unknown_endpoint", f"There is nothing at {path!r}.")
        if is_api(path):
            return None if self._has_key(scope, headers) else self._needs_key()
        return None if self._may_see_pages(scope, headers) else _PAGES_NEED_KEY

    def _goes_by(self, host: str) -> bool:
        name = _name_of(host)
        if name in self.names:
            return True
        # Beyond loopback the machine has many addresses. A literal address is safe: DNS rebinding
        # needs a name.
        return not is_loopback(self.host) and is_address(name)

    def _trusted(self, origin: str, host: str, path: str) -> bool:
        if self.switch.allows(origin) and (is_api(path) or path == HEALTH):
            return True
        try:
            return urlsplit(origin.lower()).netloc == host.lower()
        except ValueError:  # http://[
            return False

    def _has_key(self, scope: Scope, headers: Headers) -> bool:
        key = self.switch.api_key
        if key is None or scope.get("method") == "OPTIONS":
            return True
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        sent = [credentials] if scheme.lower() == "bearer" else []
        sent += headers.getlist("x-api-key")  # Anthropic's clients
        # Clients send a key that is not ASCII in UTF-8.
        meant = (one.strip().encode("latin-1").decode("utf-8", "replace") for one in sent)
        return any(login.same(one, key) for one in meant)

    def _needs_key(self) -> Refusal:
        return Refusal(
            401,
            "invalid_api_key",
            "This server needs its API key. Send the header 'Authorization: Bearer KEY', or "
            f"'x-api-key: KEY', with the key from its start{self.switch.or_page('set')}.",
        )

    def _may_see_pages(self, scope: Scope, headers: Headers) -> bool:
        path = scope["path"]
        if self.login is None or path in (login.PATH, HEALTH) or installable.is_public(path):
            return True
        given = "authorization" in headers or "x-api-key" in headers
        return self.login.knows(scope) or (given and self._has_key(scope, headers))

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message})
        elif self.login is not None and refusal is _PAGES_NEED_KEY and opens_page(scope):
            await self.login.ask(scope)(scope, receive, send)
        else:
            answer = _answer(scope, refusal, self._readable(scope))
            await answer(scope, receive, send)

    def _readable(self, scope: Scope) -> dict[str, str]:
        """Return headers that let pages of an allowed origin read the refusal."""
        origin = Headers(scope=scope).get("origin", "")
        if not self.switch.allows(origin) or not is_api(scope["path"]):
            return {}
        return {"access-control-allow-origin": origin, "vary": "Origin"}


class Cors(CORSMiddleware):
    """Starlette's middleware, for the origins that the switch allows at the time."""

    def __init__(self, app: ASGIApp, switch: ApiSwitch) -> None:
        super().__init__(
            app,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # OpenAI's clients send a dozen about themselves
            expose_headers=["Retry-After"],
        )
        self._switch = switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._switch.origins:
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return self._switch.allows(origin)


_PAGES_NEED_KEY = Refusal(
    401,
    "login_needed",
    f"These pages need the server's key. Open {login.PATH} in a browser.",
)


def is_api(path: str) -> bool:
    return path in ("/v1", METRICS, *LLAMA_CPP) or path.startswith(("/v1/", OLLAMA))


def is_unused(path: str) -> bool:
    """Return whether this is one of Gradio's routes that no page uses."""
    if path.startswith(GRADIO):
        return not path.removeprefix(GRADIO).startswith(GRADIO_USED)
    return any(path == never or path.startswith(f"{never}/") for never in GRADIO_NEVER)


def _name_of(host: str) -> str:
    """Return ``localhost`` for ``localhost:7860``, ``::1`` for ``[::1]:7860``."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _machine_names(host: str) -> frozenset[str]:
    own = socket.gethostname().lower()
    return frozenset({host.lower(), own, f"{own.split('.')[0]}.local", socket.getfqdn().lower()})


def _with_headers(send: Send, scope: Scope) -> Send:
    of_api = is_api(scope["path"])
    of_anthropic = scope["type"] == "http" and of_api and form_of(scope) is Form.ANTHROPIC

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if of_anthropic:
                headers["Request-Id"] = f"req_{secrets.token_hex(12)}"
            # Gradio would let other origins read the pages, and send cookies.
            for name in {name.lower() for name in headers}:
                if name == CREDENTIALS or (name.startswith(CORS) and not of_api):
                    del headers[name]
        await send(message)

    return sending


def _answer(scope: Scope, refusal: Refusal, headers: dict[str, str]) -> Response:
    """Return the answer in the API's form on its paths, as plain text elsewhere."""
    if not is_api(scope["path"]):
        return PlainTextResponse(refusal.message, refusal.status, headers)
    body = error_body(form_of(scope), refusal.status, refusal.message, code=refusal.code)
    return JSONResponse(body, refusal.status, headers)
