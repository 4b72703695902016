"""The address of every page and chat: ``/race``, ``/chat/12``. A page is registered here, by one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from app.ui.words import Words
from app.web.page_policy import rewriting

PAGES: Mapping[str, str] = {
    "chat": Words.CHAT,
    "race": Words.RACE,
    "tune": Words.TUNE,
    "models": Words.MODELS,
    "train": Words.TRAIN,
    "server": Words.SERVER,
    "plan": Words.PLAN,
    "settings": Words.SETTINGS,
}
"""Names of pages by the first part of their addresses. A page's column has the id ``NAME-page``."""

_ADDRESS = re.compile(rf"/(?:{'|'.join(PAGES)}|chat/\d+)/?")
_BASE = b'<base href="./" />'
_ROOT = b"""<base href="/" /><style>
body:not(:has(a[data-page]))::after {
  content: "Loading Foretoken"; position: fixed; inset: 40% 0 auto; text-align: center;
}
body:not(:has(a[data-page])) [data-testid="status-tracker"] { display: none; }
</style>"""
"""The base of relative addresses, and a notice until scripts have built the pages, after a second."""


def is_page(path: str) -> bool:
    """Return whether ``path`` is the address of a page or a chat."""
    return _ADDRESS.fullmatch(path) is not None


def head() -> str:
    """Return the pages' part of the document's head: their names, and which one is shown before any
    script has loaded."""
    shown = "\n".join(
        f':root[data-page="{name}"] #{name}-page {{ display: flex !important; }}' for name in PAGES
    )
    chosen = "(name) => location.pathname.split('/')[1] === name"
    return f"""<style>.ft-page {{ display: none !important; }}
{shown}</style>
<script>
window.ForetokenPages = {json.dumps(PAGES)};
document.documentElement.dataset.page =
  Object.keys(window.ForetokenPages).find({chosen}) ?? "{next(iter(PAGES))}";
</script>"""


class Addresses:
    """ASGI middleware: every page's address is answered with the one document that holds all pages.

    What that names relatively lies at the root, and it says that it is loading.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not asked or not (scope["path"] == "/" or is_page(scope["path"])):
            await self._app(scope, receive, send)
            return
        root = {**scope, "path": "/", "raw_path": b"/"}
        rooted = rewriting(send, lambda _: True, lambda page, _: page.replace(_BASE, _ROOT, 1))
        await self._app(root, receive, rooted)
