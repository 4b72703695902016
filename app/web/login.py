"""The login page, which asks for the app's key and sets a cookie that no script can read.

The cookie is a random token of this process, not the key, so it is void when the app ends. Cookies go to
every port of a host, so its name has the port: two apps must not log each other's users out.
"""

from __future__ import annotations

import asyncio
import html
import secrets
from string import Template
from urllib.parse import quote, urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from app import paths
from app.web.installable import HEAD, ICONS
from app.web.switch import ApiSwitch

PATH = "/login"
LARGEST_FORM = 8192
"""Bytes of the submitted form."""
WRONG_S = 0.5
"""Delay after a wrong key; attempts wait for each other."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; manifest-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_WRONG = "Wrong key. Use the one that Foretoken was started with, or printed when it started."


class Login:
    """The login page, an ASGI app for ``PATH``, and the check of its cookie."""

    def __init__(self, switch: ApiSwitch) -> None:
        self._switch, self._token = switch, secrets.token_urlsafe(32)
        self._attempts = asyncio.Lock()

    def knows(self, scope: Scope) -> bool:
        """Return whether the request has the cookie."""
        return same(HTTPConnection(scope).cookies.get(_cookie_name(scope), ""), self._token)

    def ask(self, scope: Scope) -> Response:
        """Redirect to the login page, which leads back."""
        return RedirectResponse(f"{PATH}?next={quote(str(scope['path']))}", status_code=303)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(scope, receive))(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] in ("GET", "HEAD"):
            return _page(_local(QueryParams(scope["query_string"]).get("next", "/")))
        if scope["method"] != "POST":
            return Response(status_code=405, headers={"Allow": "GET, HEAD, POST"})
        form = await _form(receive)
        if form is None:
            return Response("This form is too large.", status_code=413)
        after = _local(form.get("next", "/"))
        key = self._switch.api_key
        if key is None or not same(form.get("key", "").strip(), key):
            async with self._attempts:
                await asyncio.sleep(WRONG_S)
            return _page(after, _WRONG, status=401)
        reply = RedirectResponse(after, status_code=303)
        reply.set_cookie(
            _cookie_name(scope),
            self._token,
            httponly=True,
            samesite="strict",
            path="/",
            secure=scope["scheme"] == "https",
        )
        return reply


def same(text: str, key: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(text.encode(), key.encode())


def _cookie_name(scope: Scope) -> str:
    server = scope.get("server")
    return f"foretoken-{server[1] if server else 0}"


def _local(path: str) -> str:
    """Return ``path`` if it is a path of this app, else the front page."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path
    if not plain or any(ord(sign) < 32 for sign in path) or urlsplit(path).path == PATH:
        return "/"
    return path


def _page(after: str, problem: str = "", status: int = 200) -> Response:
    # With the app's policy, no-referrer, browsers would send the form with the origin "null".
    headers = {
        "Referrer-Policy": "same-origin",
        "Content-Security-Policy": _POLICY,
        "Cache-Control": "no-store",
    }
    page = Template((paths.assets() / "install" / "login.html").read_text("utf-8"))
    text = page.substitute(
        head=HEAD,
        icon=f"{ICONS}/foretoken.svg",
        path=PATH,
        next=html.escape(after),
        problem=html.escape(problem),
    )
    return HTMLResponse(text, status_code=status, headers=headers)


async def _form(receive: Receive) -> QueryParams | None:
    """Return the submitted fields; None if the form is too large."""
    raw = bytearray()
    while True:
        message = await receive()
        raw += message.get("body", b"")
        if len(raw) > LARGEST_FORM:
            return None
        if not message.get("more_body", False):
            break
    return QueryParams(raw.decode("utf-8", "replace"))
