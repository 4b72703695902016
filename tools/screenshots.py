"""Takes README's screenshots of every page from the running app: ``python -m tools.screenshots``.

Starts the app on a free port with a data folder of its own, uses each page as a person would, and
writes docs/images/. Needs the test extra (playwright) and Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 800
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
QUESTIONS = ("What is speculative decoding?", "Tell me a short tale about a fox and a lantern.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="pip", help="what the app is started with")
    parser.add_argument("--url", help="an app that already runs; none is started then")
    arguments = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    if arguments.url:
        take(arguments.url)
        return
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [sys.executable, "-m", "app", "ui", "--no-browser", "--port", str(port)]
        command += ["--data-dir", folder, "--pair", arguments.pair]
        app = subprocess.Popen(command, cwd=ROOT)
        try:
            take(wait_for(f"http://127.0.0.1:{port}/"))
        finally:
            app.terminate()
            app.wait(timeout=30)


def take(url: str) -> None:
    """Use the pages and keep a picture of each, by day and by night."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(120_000)
        page.goto(f"{url}?__theme=light")
        page.wait_for_selector(".badge:not(.opening):not(.off)")
        page.wait_for_selector("body[data-controls=ready]")
        page.wait_for_timeout(800)
        keep(page, "welcome")
        for number, question in enumerate(QUESTIONS):
            page.fill(".composer textarea", question)
            page.keyboard.press("Enter")
            page.locator(".msg.assistant:not(.running)").nth(number).wait_for()
        page.get_by_role("tab", name="Settings").click()
        page.get_by_label("Mark origins in the message").check()
        keep(page, "settings")
        page.click(".badge")
        page.wait_for_selector("#target select option", state="attached")
        keep(page, "pair")
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Rounds").click()
        page.click("[data-action=words]")
        # The controller may have drafted nothing that was rejected.
        rejected = page.locator(".lane .chip.rejected")
        (rejected if rejected.count() else page.locator(".lane .chip")).last.hover()
        keep(page, "chat")
        page.get_by_role("tab", name="Race").click()
        page.click(".race-form [data-act=start]")
        page.wait_for_selector(".race-words[data-identical]")
        page.locator(".race-result").evaluate("(node) => node.scrollIntoView()")
        keep(page, "race")
        page.get_by_role("tab", name="Models").click()
        page.wait_for_selector("tr.model-row")
        keep(page, "models")
        page.get_by_role("tab", name="Train").click()
        page.wait_for_selector("#train-page [data-act=start]")
        keep(page, "train")
        page.get_by_role("tab", name="Server").click()
        page.get_by_role("switch").click()
        page.wait_for_selector(".api-state.on")
        keep(page, "server")
        page.get_by_role("switch").click()
        page.wait_for_selector(".api-state.off")
        browser.close()


def keep(page: Page, name: str) -> None:
    """One picture by day and one by night."""
    for theme in ("light", "dark"):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", theme == "dark")
        page.wait_for_timeout(250)
        page.screenshot(path=IMAGES / f"{name}-{theme}.png")
    page.evaluate("document.body.classList.remove('dark')")


def chromium() -> str:
    for name in ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    raise SystemExit("Chromium is needed for the screenshots. Install it (apt install chromium).")


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str) -> str:
    """The address once it answers."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return url
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"The app did not come up at {url}.")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    main()
