"""``python -m tools.chat_endurance [MESSAGES]``: a long chat in the running app, and the memory it takes.

Starts the app with Pip and a data folder of its own, chats in one chat in Chromium, and reports the
memory of the app's process, of the page's process and scripts and its nodes along the way; a full
context leaves out the oldest turns, as people would. The page chats by itself, and nobody is attached to
Chromium meanwhile: who looks at it through its developer tools has it keep what it receives. At the first
and the last look what is unused is collected before: only these two can be compared. In the end
keys are pressed while a reply is written, and it is told how long each takes to be shown. Needs the test
extra (playwright) and Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from app.storage.store import Store
from tools.running import ARGUMENTS, UI, app, chromium, free_port, wait_for

STEP = 50
"""Messages between two measurements."""

WATCH_KEYS = """() => {
  window.shownAfter = [];
  addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => {
    const drawn = new MessageChannel(); // told behind the frame
    drawn.port1.onmessage = () => window.shownAfter.push(performance.now() - timeStamp);
    drawn.port2.postMessage(null);
  }), true);
}"""
"""From the key to the end of the frame that comes next. Chromium's own account of it counts until
something of the window changes on the screen, which without one may be seconds."""

CHAT = """(times) => {
  const wait = (done) => new Promise((over) => {
    const timer = setInterval(() => done() && (clearInterval(timer), over()), 50);
  });
  const find = (selector) => document.querySelector(selector);
  const ended = () => document.querySelectorAll(".msg.assistant:not(.running)").length;
  window.chatted = (async () => {
    for (let i = 0; i < times; i += 1) {
      const before = ended();
      const box = find(".composer textarea");
      box.value = `${before + 1}. What is a draft?`;
      box.dispatchEvent(new Event("input", { bubbles: true }));
      box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      await wait(() => ended() > before || find("dialog.fitting[open]"));
      if (ended() > before) continue;
      find("[data-act=oldest]").click();
      await wait(() => ended() > before);
    }
  })();
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=500)
    parser.add_argument("--pair", default="pip", help="what the app is started with")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        app(*UI, pair=arguments.pair, folder=folder) as running,
        chromium_at(running.url, Path(folder) / "browser") as browser,
    ):
        endure(browser, Path(folder), running.pid, arguments.messages)


@dataclass(frozen=True)
class Browser:
    """A Chromium that shows one page, to which anybody may attach at ``address``."""

    pid: int
    address: str

    @contextlib.contextmanager
    def attached(self) -> Iterator[Any]:
        """Its page, as long as it is looked at."""
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.connect_over_cdp(self.address)
            page = browser.contexts[0].pages[0]
            page.set_default_timeout(400_000)
            yield page
            browser.close()  # only the connection


@contextlib.contextmanager
def chromium_at(url: str, folder: Path) -> Iterator[Browser]:
    port = free_port()
    options = ["--headless=new", f"--remote-debugging-port={port}", f"--user-data-dir={folder}"]
    options += ["--window-size=1280,800", "--disable-background-timer-throttling"]
    process = subprocess.Popen([chromium(), *ARGUMENTS, *options, url], stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/json/version")
        yield Browser(process.pid, address)
    finally:
        process.terminate()
        process.wait(timeout=30)


def endure(browser: Browser, folder: Path, app: int, messages: int) -> None:
    with browser.attached() as page:
        page.wait_for_selector(".badge:not(.opening):not(.off)")
        page.wait_for_selector("body[data-controls=ready]")
        page.get_by_role("tab", name="Settings").click()
        page.fill("#max-tokens input", "64")
        page.get_by_role("tab", name="Rounds").click()
        page.evaluate(CHAT, STEP // 2)
    until_stored(folder, STEP)
    with browser.attached() as page:
        page.evaluate("window.chatted")
        measured = [{"messages": STEP, **scripts(page), **processes(browser.pid, app)}]
        page.evaluate(CHAT, (messages - STEP) // 2)
    print(measured[-1], flush=True)
    for count in range(2 * STEP, messages + 1, STEP):
        until_stored(folder, count)
        measured.append({"messages": count, **processes(browser.pid, app)})
        print(measured[-1], flush=True)
    with browser.attached() as page:
        page.evaluate("window.chatted")
        measured.append({"messages": messages, **scripts(page), **processes(browser.pid, app)})
        print(measured[-1], flush=True)
        page.get_by_role("tab", name="Settings").click()
        page.fill("#max-tokens input", "1000")
        print(json.dumps({"measured": measured, "keys_ms": keys(page)}))


def until_stored(folder: Path, messages: int) -> None:
    """Waits until so many messages are stored and written to their ends."""
    with contextlib.closing(Store(folder, alone=False)) as store:
        while True:
            found = [each for chat in store.chats() for each in store.messages(chat.id)]
            if len(found) >= messages and found[messages - 1].status != "running":
                return
            time.sleep(1)


def processes(browser: int, app: int) -> dict[str, float]:
    """Resident memory of the app and of the page's process, in MB; ``own``: what of the page's is no
    file and shared with nobody."""
    children = psutil.Process(browser).children(recursive=True)
    renderers = [each.pid for each in children if "--type=renderer" in each.cmdline()]
    page = max(renderers, key=resident)
    own = sum(line.private_dirty for line in psutil.Process(page).memory_maps()) / 2**20
    return {"app_mb": resident(app), "page_mb": resident(page), "own_mb": round(own, 1)}


def scripts(page: Any) -> dict[str, float]:
    """What the page's scripts hold once what is unused is gone, in MB, and its nodes. Whoever attaches
    leaves something of his own behind, so it is asked twice only."""
    session = page.context.new_cdp_session(page)
    for _ in range(3):  # what only what was collected had held is found by the next one
        session.send("HeapProfiler.collectGarbage")
        time.sleep(0.5)
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    nodes = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    return {"heap_mb": round(heap / 2**20, 2), "nodes": nodes}


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def keys(page: Any) -> dict[str, float]:
    """How long the keys of a text took to be drawn while a reply was written, in ms."""
    page.evaluate(WATCH_KEYS)
    page.fill(".composer textarea", "Tell me a long tale about a fox and a lantern.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".msg.assistant.running, dialog.fitting[open]")
    if page.locator("dialog.fitting[open]").count():
        page.click("[data-act=oldest]")
        page.focus(".composer textarea")
        page.wait_for_selector(".msg.assistant.running")
    pressed = 0
    while page.locator(".msg.assistant.running").count() and pressed < 200:
        page.keyboard.type("a quick fox ", delay=25)
        pressed += 12
    page.wait_for_timeout(500)
    times = sorted(page.evaluate("window.shownAfter")) or [0.0]
    middle, longest = times[len(times) // 2], times[-1]
    return {"pressed": pressed, "median": round(middle, 1), "longest": round(longest, 1)}


if __name__ == "__main__":
    main()
