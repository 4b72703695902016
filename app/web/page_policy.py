"""The content security policy of pages, and the nonce of their inline scripts.

Gradio's page begins with inline scripts. Each page is sent with its own nonce in its policy and its
script tags, so that inline scripts inserted later do not run.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope, Send

POLICY = "content-security-policy"
_SCRIPT = re.compile(rb"<script(?=[\s>])", re.IGNORECASE)
_SCRIPT_END = re.compile(rb"</script", re.IGNORECASE)


def content_policy(nonce: str = "") -> str:
    """Return an answer's policy: nothing is fetched from or sent to another machine, not even an image in
    a model's Markdown.

    Gradio needs 'unsafe-eval' (it compiles templates by ``Function``) and inline styles.
    """
    inline = f" 'nonce-{nonce}'" if nonce else ""
    return "; ".join(
        (
            "default-src 'self' data: blob:",
            f"script-src 'self'{inline} 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "connect-src 'self' data: blob:",
            "frame-ancestors 'self'",
            "form-action 'self'",
            "base-uri 'self'",
            "object-src 'none'",
        )
    )


def uncompressed(scope: Scope) -> Scope:
    """Return the request without Accept-Encoding: the page is changed before it is sent."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
    return {**scope, "headers": headers}


def opens_page(scope: Scope) -> bool:
    """Return whether a browser opens an address, as opposed to a script's request."""
    accepted = Headers(scope=scope).get("accept", "")
    return scope["method"] in ("GET", "HEAD") and "text/html" in accepted


def with_nonce(send: Send) -> Send:
    """Wrap ``send`` so that a page without a policy of its own is sent with a nonce."""

    def marked(page: bytes, headers: MutableHeaders) -> bytes:
        nonce = secrets.token_urlsafe(16)
        headers[POLICY] = content_policy(nonce)
        return mark(page, nonce)

    return rewriting(send, _is_page, marked)


def rewriting(
    send: Send, wanted: Callable[[Headers], bool], change: Callable[[bytes, MutableHeaders], bytes]
) -> Send:
    """Wrap ``send`` so that an answer with ``wanted`` headers is collected, and sent with the body that
    ``change`` returns; ``change`` may set headers too. Other answers pass unchanged."""
    start: Message | None = None
    collected = bytearray()

    async def sending(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and wanted(Headers(raw=message["headers"])):
            start = message
        elif start is None or message["type"] != "http.response.body":
            await send(message)
        else:
            collected.extend(message.get("body", b""))
            if not message.get("more_body", False):
                headers = MutableHeaders(raw=list(start["headers"]))
                body = change(bytes(collected), headers)
                headers["content-length"] = str(len(body))
                await send({**start, "headers": headers.raw})
                await send({"type": "http.response.body", "body": body})

    return sending


def mark(page: bytes, nonce: str) -> bytes:
    """Return ``page`` with the nonce in its script tags, but not in tags within a script's text."""
    parts, at = [], 0
    while (tag := _SCRIPT.search(page, at)) is not None:
        end = _SCRIPT_END.search(page, tag.end())
        upto = len(page) if end is None else end.end()
        parts += [page[at : tag.end()], f' nonce="{nonce}"'.encode(), page[tag.end() : upto]]
        at = upto
    return b"".join([*parts, page[at:]])


def _is_page(headers: Headers) -> bool:
    kind = headers.get("content-type", "")
    return kind.startswith("text/html") and not {POLICY, "content-encoding"} & set(headers)
