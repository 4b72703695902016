"""Run the app for a tool, find Chromium, and make a command line of a function."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import socket

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
"""Chromium's, for all that use it."""
UI = ("ui", "--no-browser")
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class App:
    """The app's address, which ends in a slash, and its process."""

    url: str
    pid: int


def run_command(function: Callable[..., None]) -> None:
    """Run ``function`` as this program's command line, with errors shown as ``foretoken`` shows them."""
    import typer

    from app.cli import run

    cli = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    cli.command()(function)
    run(cli)


@contextlib.contextmanager
def app(*words: str, pair: str, folder: str, ready: str = "") -> Iterator[App]:
    """``foretoken`` with ``words``, on a port of its own and with that data folder, from when the
    path ``ready`` answers on. What it prints is dropped, its mistakes are not."""
    port = free_port()
    options = ["--port", str(port), "--data-dir", folder, "--pair", pair]
    process = subprocess.Popen(
        [sys.executable, "-m", "app", *words, *options], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_for(url + ready)
        yield App(url, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(url: str) -> None:
    """Until the address answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"Nothing came up at {url}.")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    """The program. Ends this one where there is none."""
    for name in ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise SystemExit("Chromium is needed. Install it (apt install chromium).")
