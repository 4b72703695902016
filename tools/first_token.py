"""``python -m tools.first_token [TIMES]``: how long a fresh app and page take to the first token.

Starts the app with Pip and a data folder of its own, opens the page as soon as it answers, and sends a
message as soon as there is a box for it. Reports, in seconds from the start of the app's process, when it
answered, and from the opening of the page on: when the document came, when its scripts had drawn the box,
when the box had taken a text (``usable``), when the pair was loaded, and when the first word of the reply
was there; with the machine's load, since all of it depends on that. Needs the test extra (playwright) and
Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import Any

from tools.running import ARGUMENTS, UI, app, chromium

ICON = "favicon.ico"

MARKS = """() => {
  const seen = (name, selector, when = () => true) => {
    const look = () => {
      const node = document.querySelector(selector);
      if (!node || !when(node)) return false;
      window.firstSeen[name] = performance.now() / 1000;
      return true;
    };
    if (look()) return;
    const watch = new MutationObserver(() => look() && watch.disconnect());
    watch.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
  };
  window.firstSeen = {};
  seen("box", ".composer textarea");
  seen("pair", ".badge:not(.opening):not(.off)");
  seen("settings", "body[data-controls=ready]");
  document.addEventListener("input", () => (window.firstSeen.usable ??= performance.now() / 1000), true);
  seen("word", ".msg.assistant .body", (node) => node.textContent.trim() !== "");
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("times", nargs="?", type=int, default=3)
    parser.add_argument("--pair", default="pip", help="what the app is started with")
    arguments = parser.parse_args()
    for _ in range(arguments.times):
        print(json.dumps(once(arguments.pair)), flush=True)


def once(pair: str) -> dict[str, Any]:
    """One start of everything."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        # For the document itself the browser is to be the first to ask.
        with app(*UI, pair=pair, folder=folder, ready=ICON) as running:
            answered = time.monotonic() - begun
            load = round(os.getloadavg()[0], 1)
            return {"load": load, "app_answers": round(answered, 2), **look(running.url)}


def look(url: str) -> dict[str, float]:
    """A browser that was never there before; seconds from the opening of the page on."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        page.add_init_script(f"({MARKS})()")
        page.goto(url, wait_until="commit")
        page.fill(".composer textarea", "What is speculative decoding?")
        page.keyboard.press("Enter")
        page.wait_for_function("'word' in window.firstSeen")
        seen = page.evaluate("window.firstSeen")
        timing = page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd") / 1000
        count, last = page.evaluate(
            """(() => {
              const all = performance.getEntriesByType('resource');
              const got = all.filter((e) => new URL(e.name).pathname.endsWith('.js'));
              return [got.length, Math.max(...got.map((e) => e.responseEnd)) / 1000];
            })()"""
        )
        browser.close()
    found = {"document": timing, "scripts": last, **seen}
    return {
        "script_files": count,
        **{name: round(value, 2) for name, value in sorted(found.items(), key=lambda it: it[1])},
    }


if __name__ == "__main__":
    main()
