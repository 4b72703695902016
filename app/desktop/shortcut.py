"""The app's icon in the start menu or dock: install it for this user, and remove it again."""

from __future__ import annotations

import contextlib
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from app import paths
from engine.errors import ForetokenError, what_failed

SIZES = (16, 32, 48, 64, 128, 192, 256, 512)
"""Pixels of the icons that ship."""
NAME = "Foretoken"
COMMENT = "Chat with language models on this machine"
_LIMIT_S = 60


def command() -> list[str]:
    """Return the command of the icon: this installation's, whatever the current folder is."""
    python = Path(sys.executable)
    silent = python.with_name("pythonw.exe")  # without a console
    return [str(silent if silent.is_file() else python), "-P", "-m", "app", "app"]


def install() -> list[Path]:
    """Install the icon and return the files. Raises ForetokenError."""
    with _doing("installed"):
        if sys.platform == "win32":
            return _install_on_windows(command())
        if sys.platform == "darwin":
            return _install_on_macos(command())
        return _install_on_linux(command())


def remove() -> list[Path]:
    """Remove the icon and return the files that were there. Raises ForetokenError."""
    with _doing("removed"):
        if sys.platform == "win32":
            return _gone([_link()])
        if sys.platform == "darwin":
            return _gone([_bundle()])
        removed = _gone([_entry(), *_linux_icons()])
        _tell_desktop()
        return removed


@contextlib.contextmanager
def _doing(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        place = getattr(error, "filename", None) or "the folder of icons"
        raise ForetokenError(
            f"The icon could not be {what}: {what_failed(error)}. Check the permissions of {place}."
        ) from error


def _icon(name: str) -> Path:
    return paths.assets() / "icons" / name


def _gone(files: list[Path]) -> list[Path]:
    there = [file for file in files if file.exists()]
    for file in there:
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    return there


# ---- Linux: the desktop entry specification, in the user's XDG folders


def _install_on_linux(words: list[str]) -> list[Path]:
    icons = _linux_icons()
    for target, source in icons.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    entry = _entry()
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(desktop_entry(words), encoding="utf-8")
    _tell_desktop()
    return [entry, *icons]


def _data_home() -> Path:
    named = os.environ.get("XDG_DATA_HOME", "")
    # The specification has relative paths ignored.
    return Path(named) if os.path.isabs(named) else Path.home() / ".local" / "share"


def _entry() -> Path:
    return _data_home() / "applications" / "foretoken.desktop"


def _linux_icons() -> dict[Path, Path]:
    theme = _data_home() / "icons" / "hicolor"
    drawn = {
        theme / f"{size}x{size}" / "apps" / "foretoken.png": _icon(f"foretoken-{size}.png")
        for size in SIZES
    }
    return {theme / "scalable" / "apps" / "foretoken.svg": _icon("foretoken.svg"), **drawn}


def desktop_entry(words: list[str]) -> str:
    """Return the entry that runs ``words``, with a second action that ends the app."""
    start = " ".join(map(_quoted, words))
    return f"""[Desktop Entry]
Type=Application
Version=1.1
Name={NAME}
GenericName=Chat with local models
Comment={COMMENT}
Exec={start}
Icon=foretoken
Terminal=false
StartupNotify=true
StartupWMClass={NAME}
Categories=Network;Chat;
Keywords=AI;LLM;chat;model;GGUF;
Actions=quit;

[Desktop Action quit]
Name=Quit {NAME}
Exec={start} --quit
"""


def _quoted(word: str) -> str:
    """Return a word of an ``Exec`` line: quoted, percent signs doubled, then escaped as a value."""
    quoted = "".join(f"\\{sign}" if sign in '"`$\\' else sign for sign in word)
    return f'"{quoted}"'.replace("%", "%%").replace("\\", "\\\\")


def _tell_desktop() -> None:
    """Have menus read the folders again where a tool for it is there; others look by themselves."""
    for words in (
        ["update-desktop-database", str(_entry().parent)],
        ["gtk-update-icon-cache", "-qtf", str(_data_home() / "icons" / "hicolor")],
    ):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(words, capture_output=True, timeout=_LIMIT_S, check=False)


# ---- macOS: a bundle whose program is a shell script


def _bundle() -> Path:
    return Path.home() / "Applications" / f"{NAME}.app"


def _install_on_macos(words: list[str]) -> list[Path]:
    contents = _bundle() / "Contents"
    for name in ("MacOS", "Resources"):
        (contents / name).mkdir(parents=True, exist_ok=True)
    about = {
        "CFBundleName": NAME,
        "CFBundleDisplayName": NAME,
        "CFBundleIdentifier": "local.foretoken",
        "CFBundleExecutable": "foretoken",
        "CFBundleIconFile": "foretoken.icns",
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": "1",
        "NSHighResolutionCapable": True,
    }
    (contents / "Info.plist").write_bytes(plistlib.dumps(about))
    shutil.copyfile(_icon("foretoken.icns"), contents / "Resources" / "foretoken.icns")
    program = contents / "MacOS" / "foretoken"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
    program.chmod(0o755)
    return [_bundle()]


# ---- Windows: a link in the start menu, which only a COM object can write


def _link() -> Path:
    start_menu = Path(os.environ.get("APPDATA", Path.home() / "AppData" / "Roaming"))
    return start_menu / "Microsoft" / "Windows" / "Start Menu" / "Programs" / f"{NAME}.lnk"


def _install_on_windows(words: list[str]) -> list[Path]:
    script = windows_script(words, _link(), _icon("foretoken.ico"))
    powershell = ["powershell", "-NoProfile", "-NonInteractive", "-Command", script]
    done = subprocess.run(
        powershell,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    if done.returncode:
        raise OSError(done.stderr.strip()[:500] or "PowerShell failed")
    return [_link()]


def windows_script(words: list[str], link: Path, icon: Path) -> str:
    """Return PowerShell's commands that write the link."""
    values = {
        "TargetPath": words[0],
        "Arguments": subprocess.list2cmdline(words[1:]),
        "IconLocation": str(icon),
        "WorkingDirectory": str(Path.home()),
        "Description": COMMENT,
    }
    lines = [f"$link.{name} = {_in_powershell(value)}" for name, value in values.items()]
    opened = f"(New-Object -ComObject WScript.Shell).CreateShortcut({_in_powershell(str(link))})"
    return "; ".join(
        ["$ErrorActionPreference = 'Stop'", f"$link = {opened}", *lines, "$link.Save()"]
    )


def _in_powershell(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
