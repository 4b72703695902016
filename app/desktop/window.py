"""The app's own window: by pywebview if that is installed and works, else a browser's app mode, else a
page of the usual browser.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

SIZE = 1280, 860
NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge",
    "brave-browser", "vivaldi",
)  # fmt: skip
ON_MACOS = ("Google Chrome", "Microsoft Edge", "Chromium", "Brave Browser")
ON_WINDOWS = (
    "Microsoft/Edge/Application/msedge.exe", "Google/Chrome/Application/chrome.exe",
    "BraveSoftware/Brave-Browser/Application/brave.exe",
)  # fmt: skip
SHOWN = "shown"
"""What ``app.desktop.webview`` prints once its window is there."""
_START_S = 3.0
"""A browser that has not failed for so long will not: it found a display and its profile's folder."""


class Kind(StrEnum):
    """What shows the page."""

    WEBVIEW = "a window of its own"
    APP_MODE = "a window of the browser"
    BROWSER = "a page of the browser"


def open_window(url: str, profile: Path) -> Kind:
    """Show ``url`` and return in what. ``profile``: a folder for the window's cookies and settings."""
    if find_spec("webview") is not None and _in_webview(url, profile / "webview"):
        return Kind.WEBVIEW
    for browser in browsers():
        if _in_app_mode(browser, url, profile):
            return Kind.APP_MODE
    webbrowser.open(url)
    return Kind.BROWSER


def why_no_window() -> str:
    """Return why the page has no window of its own."""
    found = next(browsers(), None)
    if found is None:
        return "No browser with an app mode was found"
    by_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium refuses to run as root
    return f"{Path(found).name} did not open a window{' for root' if by_root else ''}"


def browsers() -> Iterator[str]:
    """Yield the browsers here that have an app mode: Chromium and its relatives."""
    if sys.platform == "darwin":
        for name in ON_MACOS:
            for folder in (Path("/Applications"), Path.home() / "Applications"):
                yield from _there(folder / f"{name}.app" / "Contents" / "MacOS" / name)
    elif sys.platform == "win32":
        for variable in ("PROGRAMFILES(X86)", "PROGRAMFILES", "LOCALAPPDATA"):
            for name in ON_WINDOWS if variable in os.environ else ():
                yield from _there(Path(os.environ[variable]) / name)
    else:
        yield from filter(None, map(shutil.which, NAMES))


def _there(path: Path) -> list[str]:
    return [str(path)] if path.is_file() else []


def _in_app_mode(browser: str, url: str, profile: Path) -> bool:
    """Return whether the browser opened a window without bars. It has a profile of its own: the usual one
    may be in use, and would show its own windows and extensions."""
    if os.path.realpath(browser).startswith("/snap/") or "/snap/" in browser:
        # A browser from a snap may not read hidden folders.
        profile = Path.home() / "snap" / Path(browser).name / "common" / "foretoken"
    command = [
        browser, f"--app={url}", f"--user-data-dir={profile}", "--no-first-run",
        "--no-default-browser-check", "--class=Foretoken", f"--window-size={SIZE[0]},{SIZE[1]}",
    ]  # fmt: skip
    try:
        process = _start(command, subprocess.DEVNULL)
        return process.wait(_START_S) == 0  # it handed the address to one that runs
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False


def _in_webview(url: str, storage: Path) -> bool:
    """Return whether a process with a window came up. It needs a main thread of its own."""
    command = [sys.executable, "-P", "-m", "app.desktop.webview", url, str(storage)]
    with contextlib.suppress(OSError):
        process = _start(command, subprocess.PIPE)
        assert process.stdout is not None
        return any(line.strip() == SHOWN.encode() for line in process.stdout)
    return False


def _start(command: list[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the app
    )


_LIMIT_S = 600.0


def alert(message: str) -> None:
    """Show the message in a box, and return once it is closed; do nothing where there is no box."""
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.user32.MessageBoxW(None, message, "Foretoken", 0x10)
        return
    for command in _commands(message):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if not subprocess.run(
                command, capture_output=True, timeout=_LIMIT_S, check=False
            ).returncode:
                return


def _commands(message: str) -> list[list[str]]:
    if sys.platform == "darwin":
        script = 'on run words\ndisplay alert "Foretoken" message (item 1 of words)\nend run'
        return [["osascript", "-e", script, message]]
    return [
        ["zenity", "--error", "--no-markup", "--title=Foretoken", f"--text={message}"],
        ["kdialog", "--title", "Foretoken", "--error", message],
        ["notify-send", "--urgency=critical", "Foretoken", message],
    ]
