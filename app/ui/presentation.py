"""The pages' theme and head, and the bundle of scripts and styles that is served with them."""

from __future__ import annotations

import hashlib
from typing import Any

from gradio.themes import Base
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from app import paths
from app.ui import addresses
from app.web import installable

SCRIPT, STYLE, ON_DEMAND = "app.js", "app.css", "katex.js"
FONT = "fonts/inter-latin-wght-normal.woff2"


def presentation() -> dict[str, Any]:
    """Return the keyword arguments for ``gr.mount_gradio_app``: theme and static files."""
    assets = paths.assets() / "ui"
    return {
        # Its own fonts would come from the web.
        "theme": Base(font="system-ui", font_mono="monospace"),
        "head": style(),  # once more, behind Gradio's own styles
        "favicon_path": str(assets / "img" / "favicon.png"),
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "app_kwargs": {
            "routes": [Mount(served(), _Unchanging(directory=assets)), *installable.routes()]
        },
    }


def served() -> str:
    """Return the address of scripts, styles and fonts, which holds a digest of them: what a browser has
    from there never changes."""
    digest = hashlib.sha256()
    for name in (SCRIPT, STYLE, ON_DEMAND):
        digest.update((paths.assets() / "ui" / name).read_bytes())
    return f"/foretoken/{digest.hexdigest()[:12]}"


def head() -> str:
    """Return the scripts' part of the document's head. It is in the document itself: Gradio would add it
    only after its own scripts have come, one after another."""
    folder = served()
    return "\n".join(
        (
            '<meta name="color-scheme" content="light dark">',
            addresses.head(),
            f'<link rel="preload" href="{folder}/{STYLE}" as="style">',
            f'<script type="module" src="{folder}/{SCRIPT}"></script>',
            f'<link rel="preload" href="{folder}/{FONT}" as="font" type="font/woff2" crossorigin>',
            installable.HEAD,
        )
    )


def style() -> str:
    """Return the link to the styles."""
    return f'<link rel="stylesheet" href="{served()}/{STYLE}">'


class _Unchanging(StaticFiles):
    """Files that a browser may keep for good."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response
