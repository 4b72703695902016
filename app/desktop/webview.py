"""A process with one page in a window of pywebview: ``python -m app.desktop.webview URL FOLDER``."""

from __future__ import annotations

import contextlib
import sys
import urllib.request

import webview

from app import paths
from app.desktop.window import SHOWN, SIZE
from app.web.open_pages import CLOSED


def main(url: str, storage: str) -> None:
    """Show the page, and return when the window is closed."""
    webview.settings["ALLOW_DOWNLOADS"] = True
    window = webview.create_window("Foretoken", url, width=SIZE[0], height=SIZE[1])
    pages: set[str] = set()
    window.events.shown += lambda: print(SHOWN, flush=True)
    window.events.loaded += lambda: pages.add(window.evaluate_js("window.ForetokenPage"))
    icon = paths.assets() / "icons" / "foretoken-256.png"
    webview.start(private_mode=False, storage_path=storage, icon=str(icon))
    for page in pages:  # some systems' views are gone before their page can say so
        with contextlib.suppress(OSError):
            closed = f"{url}{CLOSED}?page={page}"
            urllib.request.urlopen(urllib.request.Request(closed, method="POST"), timeout=5).close()


if __name__ == "__main__":
    main(*sys.argv[1:])
