"""What lets a browser install the page as an app: a manifest, icons, and a service worker.

The worker keeps nothing: every page comes from the app. Where the app cannot be reached, it says so, in
place of the browser's own error page. Browsers run it on this machine and over HTTPS only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from app import paths

MANIFEST, WORKER, ICONS = "/app.webmanifest", "/worker.js", "/icons"
LIGHT, DARK = "#fbfaf7", "#171a1d"
"""Colours of the top bar by day and by night."""

HEAD = f"""<link rel="manifest" href="{MANIFEST}">
<link rel="apple-touch-icon" href="{ICONS}/maskable.png">
<meta name="theme-color" content="{LIGHT}" media="(prefers-color-scheme: light)">
<meta name="theme-color" content="{DARK}" media="(prefers-color-scheme: dark)">"""


def is_public(path: str) -> bool:
    """Return whether a browser gets this without the app's key: it asks for icons without its cookies."""
    return path in (MANIFEST, WORKER) or path.startswith(f"{ICONS}/")


def routes() -> Sequence[BaseRoute]:
    """Return the routes of manifest, worker and icons."""
    return (
        Route(MANIFEST, _answer(MANIFEST, "application/manifest+json")),
        Route(WORKER, _answer(WORKER, "text/javascript")),
        Mount(ICONS, StaticFiles(directory=paths.assets() / "icons")),
    )


def _answer(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    text = (paths.assets() / "install" / name.removeprefix("/")).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(text, media_type=kind, headers={"cache-control": "no-cache"})

    return answer
