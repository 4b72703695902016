"""The icon in the tray, by pystray if that is installed and this desktop has a tray: Open, API, Quit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from app import paths
from app.web.switch import ApiSwitch
from engine.errors import ForetokenError


def show(open_page: Callable[[], None], switch: ApiSwitch, stop: Callable[[], None]) -> bool:
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
