"""Make a folder that runs without any installation, and a zip of it: ``python -m tools.portable OUT``.

It holds a Python of its own, the wheel with all that it needs (PyTorch's CPU build), and a program to
start. Each system's zip is made on that system. The build needs uv.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

import launcher

NAME = "Foretoken"
VERSION = "3.12"
CONSTRAINTS = launcher.ROOT / ".ci" / "constraints.txt"
NOT_NEEDED = (
    "**/__pycache__", "**/test", "**/tests", "**/idlelib", "**/turtledemo", "**/ensurepip", "**/*.a",
    "**/torch/include", "include", "share", "**/tkinter", "lib/libpython3*[0-9].so",
    "**/libbitsandbytes_*[0-9].*", "**/EXTERNALLY-MANAGED", "Doc", "tcl",
)  # fmt: skip
"""Parts of Python and packages that only developers use, and libraries for GPUs. Compiled Python would be
a fifth of the folder; it is made again at the first start."""
ON_POSIX = """#!/bin/sh
# Starts Foretoken in its own window; with arguments, the command of that name: ./foretoken chat "Hi"
here="$(cd "$(dirname "$(readlink -f "$0")")" && pwd)"
[ $# -eq 0 ] && set -- app
exec "$here/python/bin/python3" -P -m app "$@"
"""
ON_WINDOWS = """@echo off
rem Starts Foretoken in its own window; with arguments, the command of that name: foretoken chat "Hi"
if not "%~1"=="" ("%~dp0python\\python.exe" -P -m app %*) & exit /b
start "" "%~dp0python\\pythonw.exe" -P -m app app
"""


def main(
    out: Annotated[Path, typer.Argument(help="The folder for the zip.")],
    python: Annotated[
        Path | None,
        typer.Option(help="A relocatable Python to put in. Default: uv downloads one."),
    ] = None,
) -> None:
    """Build the zip for this system."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        folder = Path(scratch) / NAME
        take_python(python, folder / "python", Path(scratch))
        install(folder / "python", Path(scratch))
        trim(folder / "python")
        write_starter(folder)
        name = out / f"{NAME}-{platform.system()}-{platform.machine()}".lower()
        made = Path(shutil.make_archive(str(name), "zip", scratch, NAME))
        unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    took = time.monotonic() - started
    print(
        f"{made}: {made.stat().st_size / 1e6:.0f} MB, {unpacked / 1e6:.0f} MB unpacked; {took:.0f} s"
    )


def run(*words: str | Path, **variables: str) -> None:
    """Run a program; raise CalledProcessError if it fails."""
    environment = {**os.environ, **variables}
    subprocess.run([str(word) for word in words], env=environment, cwd=launcher.ROOT, check=True)


def uv() -> Path:
    """Return uv: of this environment, or of the system. Raises SystemExit if there is none."""
    own = Path(sys.executable).with_name("uv.exe" if sys.platform == "win32" else "uv")
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        sys.exit("This needs uv, which gets a Python and installs into it: pip install uv")
    return Path(found)


def take_python(given: Path | None, to: Path, scratch: Path) -> None:
    """Copy a Python to ``to``, without packages."""
    if given is None:
        run(uv(), "python", "install", VERSION, "--install-dir", scratch / "pythons")
        (given,) = (scratch / "pythons").glob("cpython-*-*-*")
    skipped = shutil.ignore_patterns("site-packages", "__pycache__", "*.a", "test")
    shutil.copytree(given, to, ignore=skipped)


def program(python: Path) -> Path:
    """Return the interpreter in a Python's folder."""
    return python / "python.exe" if sys.platform == "win32" else python / "bin" / "python3"


def install(python: Path, scratch: Path) -> None:
    """Install the wheel, as tested, with PyTorch's CPU build where its index can be reached."""
    run(uv(), "build", "--wheel", "--out-dir", scratch, launcher.ROOT)
    (wheel,) = scratch.glob("*.whl")
    command: list[str | Path] = [
        uv(), "pip", "install", "--python", program(python), "--break-system-packages",
        "--link-mode", "copy", "--index-strategy", "unsafe-best-match", "-c", CONSTRAINTS,
        f"{wheel}[window]",
    ]  # fmt: skip
    settings = launcher.settings_of_pip(Path(sys.executable))
    try:
        run(*command, "--torch-backend", "cpu", **settings)
    except subprocess.CalledProcessError:
        print("PyTorch's own index could not be used; taking what the configured ones have.")
        run(*command, **settings)


def trim(python: Path) -> None:
    """Delete what nobody who chats needs."""
    for pattern in NOT_NEEDED:
        for path in list(python.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def write_starter(folder: Path) -> None:
    """Write what a double click starts."""
    if sys.platform == "win32":
        (folder / "foretoken.cmd").write_text(ON_WINDOWS, encoding="ascii", newline="\r\n")
        return
    name = "Foretoken.command" if sys.platform == "darwin" else "foretoken"
    (folder / name).write_text(ON_POSIX, encoding="ascii")
    (folder / name).chmod(0o755)


if __name__ == "__main__":
    typer.run(main)
