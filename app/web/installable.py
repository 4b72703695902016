"""What lets a browser install the page as an app: a manifest, icons, and a service worker.

The worker keeps nothing: every page comes from the app. Where the app cannot be reached, it says so, in
place of the browser's own error page. Browsers run it on this machine and over HTTPS only.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from app import paths

MANIFEST, WORKER, ICONS = "/app.webmanifest", "/worker.js", "/icons"
ACCENT, LIGHT, DARK = "#0f6e60", "#fbfaf7", "#171a1d"
"""Colours of the icon, and of the top bar by day and by night."""

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
        Route(MANIFEST, _answer(json.dumps(_manifest()), "application/manifest+json")),
        Route(WORKER, _answer(_worker(), "text/javascript")),
        Mount(ICONS, StaticFiles(directory=paths.assets() / "icons")),
    )


def _answer(text: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(text, media_type=kind, headers={"cache-control": "no-cache"})

    return answer


def _manifest() -> dict[str, object]:
    def icon(name: str, sizes: str, kind: str = "image/png", purpose: str = "any") -> object:
        return {"src": f"{ICONS}/{name}", "sizes": sizes, "type": kind, "purpose": purpose}

    return {
        "id": "/",
        "name": "Foretoken",
        "short_name": "Foretoken",
        "description": "Chat with the models on your computer",
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "background_color": LIGHT,
        "theme_color": ACCENT,
        "icons": [
            icon("foretoken-192.png", "192x192"),
            icon("foretoken-512.png", "512x512"),
            icon("foretoken.svg", "any", "image/svg+xml"),
            icon("maskable.png", "512x512", purpose="maskable"),
        ],
    }


_OFFLINE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Foretoken cannot be reached</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem; min-height: 90vh; }
body { display: grid; place-items: center; }
main { width: min(28rem, 100%); }
h1 { font-size: 1.25rem; }
</style></head><body><main>
<h1>Foretoken cannot be reached</h1>
<p>Check that it is running on your computer, and that this device is in the same network. Your chats are
on that computer.</p>
<p><a href="">Try again</a></p>
</main></body></html>"""


def _worker() -> str:
    return f"""const OFFLINE = {json.dumps(_OFFLINE)};

addEventListener("install", (event) => {{
  // All but pages go past this worker: faster, and what a closing page says still arrives.
  event.addRoutes?.({{ condition: {{ not: {{ requestMode: "navigate" }} }}, source: "network" }});
  skipWaiting();
}});
addEventListener("activate", (event) => event.waitUntil(registration.navigationPreload?.enable()));
addEventListener("fetch", (event) => {{
  if (event.request.mode === "navigate") event.respondWith(answer(event));
}});

async function answer(event) {{
  try {{
    return (await event.preloadResponse) ?? (await fetch(event.request));
  }} catch {{
    return new Response(OFFLINE, {{ status: 503, headers: {{ "content-type": "text/html" }} }});
  }}
}}
"""
