"""The key to the pages: asked for by one plain page, then kept by the browser where no script reads it.

What is kept is not the key but a word of this process, so that it ends with the app. A cookie goes to
every port of a host: its name has the port, or two apps would put each other's people out.
"""

from __future__ import annotations

import asyncio
import html
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

PATH = "/login"
LARGEST_FORM = 8192
"""Bytes of what the page sends."""
WRONG_S = 0.5
"""What a wrong key costs, one after the other for all who try."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
)
_WRONG = (
    "That is not the key. It is the one that Foretoken was started with, or printed at its start."
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Foretoken</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 1rem; min-height: 90vh; }}
body {{ display: grid; place-items: center; }}
form {{ display: grid; gap: .75rem; width: min(24rem, 100%); }}
h1 {{ font-size: 1.25rem; margin: 0; }}
p {{ margin: 0; }}
input, button {{ font: inherit; padding: .5rem .75rem; border-radius: .375rem; border: 1px solid; }}
</style></head><body>
<form method="post" action="{path}">
<h1>Foretoken</h1>
<label for="key">This app needs its key.</label>
<input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
<input name="next" type="hidden" value="{next}">
<p role="alert">{problem}</p>
<button>Open</button>
</form></body></html>
"""


class Login:
    """Who may see the pages, and the page that lets them. An ASGI app for ``PATH``."""

    def __init__(self, key: Callable[[], str | None]) -> None:
        """``key``: the one that opens them now."""
        self._key, self._word = key, secrets.token_urlsafe(32)
        self._one_by_one = asyncio.Lock()

    def knows(self, scope: Scope) -> bool:
        """Whether the request brings the cookie."""
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(Headers(scope=scope).get("cookie", ""))
        except CookieError:
            return False
        found = jar.get(_cookie_name(scope))
        return found is not None and same(found.value, self._word)

    def ask(self, scope: Scope) -> Response:
        """Leads somebody who opens a page to the key, and back."""
        return RedirectResponse(f"{PATH}?next={quote(str(scope['path']))}", status_code=303)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(scope, receive))(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] in ("GET", "HEAD"):
            wanted = parse_qs(scope["query_string"].decode("ascii", "replace"))
            return _page(_local(wanted.get("next", ["/"])[0]))
        if scope["method"] != "POST":
            return Response(status_code=405, headers={"Allow": "GET, HEAD, POST"})
        form = await _form(receive)
        if form is None:
            return Response("This form is too large.", status_code=413)
        after = _local(form.get("next", "/"))
        key = self._key()
        if key is None or not same(form.get("key", "").strip(), key):
            async with self._one_by_one:
                await asyncio.sleep(WRONG_S)
            return _page(after, _WRONG, status=401)
        reply = RedirectResponse(after, status_code=303)
        reply.set_cookie(
            _cookie_name(scope), self._word, httponly=True, samesite="strict", path="/"
        )
        return reply


def same(given: str, key: str) -> bool:
    """Whether they are equal, in a time that does not tell how far."""
    return secrets.compare_digest(given.encode(), key.encode())


def _cookie_name(scope: Scope) -> str:
    server = scope.get("server")
    return f"foretoken-{server[1] if server else 0}"


def _local(path: str) -> str:
    """A path of this app; the front page for anything that could lead elsewhere."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path
    if not plain or any(ord(sign) < 32 for sign in path) or urlsplit(path).path == PATH:
        return "/"
    return path


def _page(after: str, problem: str = "", status: int = 200) -> Response:
    # With the app's own policy, no-referrer, browsers would send the form as of the origin "null".
    headers = {
        "Referrer-Policy": "same-origin",
        "Content-Security-Policy": _POLICY,
        "Cache-Control": "no-store",
    }
    text = _PAGE.format(path=PATH, next=html.escape(after), problem=html.escape(problem))
    return HTMLResponse(text, status_code=status, headers=headers)


async def _form(receive: Receive) -> dict[str, str] | None:
    """What was filled in; None for too much of it."""
    raw = bytearray()
    while True:
        message = await receive()
        raw += message.get("body", b"")
        if len(raw) > LARGEST_FORM:
            return None
        if not message.get("more_body", False):
            break
    fields = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
