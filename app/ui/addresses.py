"""The address of every page and chat: ``/race``, ``/chat/12``. A page is registered here, by one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.page_policy import rewriting

PAGES: Mapping[str, str] = {
    "chat": "Chat",
    "race": "Race",
    "tune": "Tune",
    "models": "Models",
    "train": "Train",
    "server": "Server",
    "plan": "Plan",
    "settings": "Settings",
}
"""Names of pages by the first part of their addresses. A page's element has the id ``NAME-page``."""

_ADDRESS = re.compile(rf"/(?:{'|'.join(PAGES)}|chat/\d+)/?")
_BASE, _END = b'<base href="./" />', b"</head>"
_MANIFEST = re.compile(rb'<link rel="manifest" href="/manifest\.json"[^>]*>\s*')
"""Gradio's own. A page has one: that of ``app.web.installable``."""
_ROOT = b"""<base href="/" /><style>
body:not(:has(.ft-page))::after {
  content: "Loading Foretoken"; position: fixed; inset: 40% 0 auto; text-align: center;
}
</style>
"""
"""The base of relative addresses, and a notice until a script has drawn the page."""
_NO_TIMER = r"""{
  const ask = window.requestAnimationFrame, timer = /^\(\) ?=> ?\{[^{}]{0,40}performance\.now\(\) ?-/;
  window.requestAnimationFrame = (act) => timer.test(act) ? 0 : ask(act);
}"""
"""Stops Gradio's timer of its loading notice, which is hidden. It goes on in every frame after the notice
is gone (seen in 6.x), which takes 8 % of a processor beside an idle page."""


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
{_NO_TIMER}
</script>"""


class Addresses:
    """ASGI middleware: every page's address is answered with the one document that holds all pages.

    What that names relatively lies at the root, it says that it is loading, ``head`` is added, and
    Gradio's manifest is left out. Gradio gets no query: it answers an unknown ``page`` with an error.
    """

    def __init__(self, app: ASGIApp, head: str, style: str) -> None:
        """``head`` comes before what Gradio has there, ``style`` behind it, so that each wins."""
        self._app = app
        self._begin, self._end = _ROOT + head.encode(), style.encode() + _END

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not asked or not (scope["path"] == "/" or is_page(scope["path"])):
            await self._app(scope, receive, send)
            return
        root = {**scope, "path": "/", "raw_path": b"/", "query_string": b""}
        rooted = rewriting(send, lambda _: True, lambda page, _: self._changed(page))
        await self._app(root, receive, rooted)

    def _changed(self, page: bytes) -> bytes:
        page = _MANIFEST.sub(b"", page, count=1)
        return page.replace(_BASE, self._begin, 1).replace(_END, self._end, 1)
