"""What pages may run and reach: the content policy, and the word by which a page's own scripts are known.

Gradio's page begins with inline scripts. Each answer that is a page gets a word of its own, in its policy
and in its script tags, so that what comes into the page later cannot run inline.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope, Send

POLICY = "content-security-policy"
_SCRIPT = re.compile(rb"<script(?=[\s>])", re.IGNORECASE)
_SCRIPT_END = re.compile(rb"</script", re.IGNORECASE)


def hash_of(script: str) -> str:
    """By which a policy knows an inline script that Gradio puts into the page later."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def content_policy(nonce: str = "", hashes: Sequence[str] = ()) -> str:
    """The policy of an answer. Nothing may be fetched from, or sent to, another machine: neither by the
    page nor by an image in a model's Markdown.

    Gradio compiles its components' templates by ``Function``, which is 'unsafe-eval', and sets styles.
    """
    inline = "".join(f" {each}" for each in ([f"'nonce-{nonce}'"] if nonce else []) + [*hashes])
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
    """The request as of a browser that takes a page in no compressed form, since it is written into."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
    return {**scope, "headers": headers}


def opens_page(scope: Scope) -> bool:
    """Whether somebody opens an address in a browser, rather than a script asking for something."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get(
        "accept", ""
    )


def with_nonce(send: Send, hashes: Sequence[str]) -> Send:
    """``send``, by which a page that has no policy of its own is sent whole, with its word; all else goes
    through as it comes. ``hashes``: of scripts that come into the page later."""
    start: Message | None = None
    page = bytearray()

    async def sending(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and _is_page(Headers(raw=message["headers"])):
            start = message
        elif start is None:
            await send(message)
        else:
            page.extend(message.get("body", b""))
            if not message.get("more_body", False):
                nonce = secrets.token_urlsafe(16)
                marked = mark(bytes(page), nonce)
                headers = MutableHeaders(raw=list(start["headers"]))
                headers["content-length"] = str(len(marked))
                headers[POLICY] = content_policy(nonce, hashes)
                await send({**start, "headers": headers.raw})
                await send({"type": "http.response.body", "body": marked})

    return sending


def mark(page: bytes, nonce: str) -> bytes:
    """``page`` with the word in its script tags; what stands inside a script is left as it is."""
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
