"""``python -m tools.chat_endurance [MESSAGES]``: a long chat in the running app, and the memory it takes.

Starts the app with Pip and a data folder of its own, chats in one chat through Chromium, and reports the
memory of the app's process, of the page's scripts and its nodes along the way; a full context leaves out
the oldest turns, as people would. In the end keys are pressed while a reply is written, and it is told
how long each takes to be shown. Needs the test extra (playwright) and Chromium.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.screenshots import ARGUMENTS, ROOT, chromium, free_port, wait_for

STEP = 50
"""Messages between two measurements."""

WATCH_KEYS = """() => {
  window.shownAfter = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.name === "keydown" || entry.name === "input") window.shownAfter.push(entry.duration);
    }
  }).observe({ type: "event", durationThreshold: 16 });
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=500)
    parser.add_argument("--pair", default="pip", help="what the app is started with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [sys.executable, "-m", "app", "ui", "--no-browser", "--port", str(port)]
        command += ["--data-dir", folder, "--pair", arguments.pair]
        app = subprocess.Popen(command, cwd=ROOT)
        try:
            endure(wait_for(f"http://127.0.0.1:{port}/"), app.pid, arguments.messages)
        finally:
            app.terminate()
            app.wait(timeout=30)


def endure(url: str, pid: int, messages: int) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(400_000)
        page.goto(url)
        page.wait_for_selector(".badge:not(.opening):not(.off)")
        page.wait_for_selector("body[data-controls=ready]")
        page.get_by_role("tab", name="Settings").click()
        page.locator(".advanced summary").click()
        page.fill("#max-tokens input", "64")
        page.get_by_role("tab", name="Rounds").click()
        measured = []
        for number in range(1, messages // 2 + 1):
            ask(page, f"{number}. What is a draft?")
            if 2 * number % STEP == 0:
                measured.append({"messages": 2 * number, **memory(browser, page, pid)})
                print(measured[-1], flush=True)
        page.get_by_role("tab", name="Settings").click()
        page.fill("#max-tokens input", "1000")
        print(json.dumps({"measured": measured, "keys_ms": keys(page)}))
        browser.close()


def ask(page: Any, text: str) -> None:
    """Sends it; where the context is full, without the oldest turns."""
    before = page.locator(".msg.assistant").count()
    page.fill(".composer textarea", text)
    page.keyboard.press("Enter")
    ended = (
        "(n) => document.querySelector('dialog.fitting[open]') ||"
        " [...document.querySelectorAll('.msg.assistant:not(.running)')].length > n"
    )
    page.wait_for_function(ended, arg=before)
    if page.locator("dialog.fitting[open]").count():
        page.click("[data-act=oldest]")
        page.wait_for_function(ended, arg=before)


def memory(browser: Any, page: Any, pid: int) -> dict[str, float]:
    """In MB: resident memory of the app and of the page's process, and what the page's scripts hold once
    what is unused is gone."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    nodes = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    renderers = [each["id"] for each in processes if each["type"] == "renderer"]
    return {
        "app_mb": resident(pid),
        "page_mb": round(sum(map(resident, renderers)), 1),
        "heap_mb": round(heap / 2**20, 2),
        "nodes": nodes,
    }


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def keys(page: Any) -> dict[str, float]:
    """How long the keys of a text took to be shown while a reply was written, in ms. Chromium tells
    multiples of 8, and none below 16."""
    page.evaluate(WATCH_KEYS)
    page.fill(".composer textarea", "Tell me a long tale about a fox and a lantern.")
    page.keyboard.press("Enter")
    page.wait_for_selector(".msg.assistant.running")
    pressed = 0
    while page.locator(".msg.assistant.running").count() and pressed < 200:
        page.keyboard.type("a quick fox ", delay=25)
        pressed += 12
    page.wait_for_timeout(500)
    slow = sorted(page.evaluate("window.shownAfter"))
    return {"pressed": pressed, "of 16 ms or more": len(slow), "longest": slow[-1] if slow else 0}


if __name__ == "__main__":
    main()
