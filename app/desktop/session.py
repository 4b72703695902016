"""What ``foretoken app`` adds to a server: its window, its tray icon, and an end with the last page."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app import paths
from app.desktop import instance
from app.desktop.window import Kind, open_window, why_no_window
from app.runtime import Runtime
from app.web.listen import Listener
from app.web.open_pages import OpenPages
from app.web.switch import ApiSwitch
from engine.errors import ForetokenError

GRACE_S = 10.0
"""A reload closes a page, too."""
API_IN_USE_S = 600.0
LOOK_S = 0.5


def show_running(data_dir: Path) -> None:
    """Open a window of the app that uses this folder already. Raises ForetokenError if it cannot be
    reached."""
    other = instance.running(data_dir)
    if other is None:
        raise ForetokenError(
            f"Another Foretoken is using {data_dir} and does not answer. Quit it, or start "
            "with another --data-dir."
        )
    shown = open_window(other.url, profile(data_dir))
    print(f"Foretoken is already running at {other.url}; opened {shown}.", flush=True)


def quit_running(data_dir: Path) -> bool:
    """End the app that uses this folder; return False if there is none."""
    other = instance.running(data_dir)
    if other is not None:
        other.quit()
    return other is not None


def profile(data_dir: Path) -> Path:
    """Return the folder of the window's cookies and settings."""
    return data_dir / "window"


def begin(
    runtime: Runtime,
    switch: ApiSwitch,
    pages: OpenPages,
    listener: Listener,
    stop: Callable[[], None],
) -> None:
    """Open the window and the tray icon on threads of their own. ``stop`` is called once the last page is
    closed and nothing else uses the app."""

    def show() -> None:
        shown = open_window(listener.url, profile(runtime.data_dir))
        if shown is Kind.BROWSER:
            print(f"{why_no_window()}, so the page opened in your browser.", flush=True)

    icon = show_icon(show, switch, stop)

    def in_use() -> bool:
        used = time.time() - runtime.requests.last_at < API_IN_USE_S
        return runtime.busy or (switch.on and (used or icon))

    def watch() -> None:
        while pages.closed_for < GRACE_S or in_use():
            time.sleep(LOOK_S)
        stop()

    for work in (show, watch):
        threading.Thread(target=work, name=work.__name__, daemon=True).start()


def show_icon(open_page: Callable[[], None], switch: ApiSwitch, stop: Callable[[], None]) -> bool:
    """Show the icon and return True; return False if there can be none.

    macOS has the dock's icon instead: a tray there needs the main thread, which serves the pages.
    """
    if sys.platform == "darwin" or find_spec("pystray") is None:
        return False
    try:
        icon = _icon(open_page, switch, stop)
        if not icon.HAS_MENU:  # a bare X server's tray, which most desktops no longer have
            return False
        icon.run_detached()
    except (
        Exception
    ):  # each desktop's library fails in its own way where there is no display or tray
        return False
    return True


def _icon(open_page: Callable[[], None], switch: ApiSwitch, stop: Callable[[], None]) -> Any:
    import pystray
    from PIL import Image

    def turn(icon: Any, _: object) -> None:
        try:
            switch.set(not switch.on)
        except ForetokenError as error:
            icon.notify(str(error), "Foretoken")

    def end(icon: Any, _: object) -> None:
        icon.stop()
        stop()

    item = pystray.MenuItem
    menu = pystray.Menu(
        item("Open", lambda icon, _: open_page(), default=True),
        item("API server", turn, checked=lambda _: switch.on),
        item("Quit", end),
    )
    with Image.open(paths.assets() / "icons" / "foretoken-64.png") as file:
        picture = file.copy()
    return pystray.Icon("foretoken", picture, "Foretoken", menu)
