"""Shows an error of a start that has no terminal: from the icon, nobody would see what is printed."""

from __future__ import annotations

import contextlib
import subprocess
import sys

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
