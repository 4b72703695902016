"""Takes README's screenshots of every page from the running app: ``python -m tools.screenshots``.

Starts the app on a free port with a data folder of its own, uses each page as a person would, and
writes docs/images/. With ``--all OUT`` it is every page at five sizes by day and by night instead, for
looking at and not for the repository. Needs the test extra (playwright) and Chromium.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.running import ARGUMENTS, ROOT, UI, app, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 800
SIZES = ((390, 844), (800, 600), (1280, 800), (1920, 1080), (3840, 2160))
RACED = (
    "Change the name Mara to Jonas in this note: Mara promised to bring the lamp to the harbour. On "
    "Friday Mara will visit the market. Please tell Mara that the shop is closed."
)
QUESTIONS = ("What is speculative decoding?", "Tell me a short tale about a fox and a lantern.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="pip", help="what the app is started with")
    parser.add_argument("--url", help="an app that already runs; none is started then")
    parser.add_argument(
        "--all", type=Path, metavar="OUT", help="every page at five sizes, into OUT"
    )
    parser.add_argument(
        "--race", action="store_true", help="the race alone, which shows more with a larger --pair"
    )
    arguments = parser.parse_args()
    everything, out = arguments.all is not None, arguments.all or IMAGES
    out.mkdir(parents=True, exist_ok=True)

    def use(url: str) -> None:
        if everything:
            take_all(url, out)
        else:
            take(url, race=arguments.race)

    if arguments.url:
        use(arguments.url)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        app(*UI, pair=arguments.pair, folder=folder) as running,
    ):
        use(running.url)


def take(url: str, *, race: bool = False) -> None:
    """Use the pages and keep a picture of each, by day and by night; of the ``race`` alone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = opened(browser, url)
        for part in (_take_race,) if race else (_take_chat, _take_race, _take_others):
            part(page)
        browser.close()


def _take_chat(page: Page) -> None:
    keep(page, "welcome")
    for number, question in enumerate(QUESTIONS):
        page.fill(".composer textarea", question)
        page.keyboard.press("Enter")
        page.locator(".msg.assistant:not(.running)").nth(number).wait_for()
    page.get_by_role("tab", name="Settings").click()
    page.get_by_label("Highlight drafted text").check()
    keep(page, "settings")
    page.click(".badge")
    page.wait_for_selector(".model-list li")
    keep(page, "pair")
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Rounds").click()
    page.click("[data-action=words]")
    # The controller may have drafted nothing that was rejected.
    rejected = page.locator(".lane .chip.rejected")
    (rejected if rejected.count() else page.locator(".lane .chip")).last.hover()
    keep(page, "chat")


def _take_race(page: Page) -> None:
    _go(page, "race")
    page.locator(".race-form textarea").first.fill(RACED)
    page.locator("[name=rival-method]").select_option("best")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".race-words[data-identical]")
    page.locator(".race-result").evaluate("(node) => node.scrollIntoView()")
    page.wait_for_timeout(5_000)  # the replay begins with empty boxes
    keep(page, "race")


def _take_others(page: Page) -> None:
    page.get_by_role("link", name="Models", exact=True).click()
    page.wait_for_selector("tr.model-row")
    keep(page, "models")
    _go(page, "train")
    page.wait_for_selector("#train-page [data-act=start]")
    keep(page, "train")
    page.get_by_role("link", name="Server", exact=True).click()
    page.get_by_role("switch").click()
    page.wait_for_selector("#server-page [role=switch]:checked")
    keep(page, "server")
    page.get_by_role("switch").click()
    page.wait_for_selector("#server-page [role=switch]:not(:checked)")


def opened(browser: Browser, url: str) -> Page:
    """The chat with its model loaded."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.set_default_timeout(120_000)
    page.goto(f"{url}?__theme=light")
    page.wait_for_selector(".badge:not(.opening):not(.off)")
    page.wait_for_selector("body[data-controls=ready]")
    page.wait_for_timeout(800)
    return page


def take_all(url: str, out: Path) -> None:
    """Every page, brought into each of its states once, at all sizes and in both themes."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = opened(browser, url)
        for name, visit in STATES.items():
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            visit(page)
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                if name in EACH_SIZE:
                    visit(page)
                keep(page, f"{name}-{width}", out)
        browser.close()


def _ask(page: Page) -> None:
    for number, question in enumerate(QUESTIONS):
        page.fill(".composer textarea", question)
        page.keyboard.press("Enter")
        page.locator(".msg.assistant:not(.running)").nth(number).wait_for()
    page.click("[data-action=words]")


def _open_drawer(tab: str) -> Callable[[Page], None]:
    def visit(page: Page) -> None:
        page.keyboard.press("Escape")
        if page.locator(".drawer").is_hidden():
            page.click("[data-toggle=drawer]")
        page.get_by_role("tab", name=tab).click()

    return visit


def _replay(page: Page) -> None:
    page.keyboard.press("Escape")
    if page.locator(".drawer").is_hidden():
        page.click("[data-toggle=drawer]")
    if page.locator(".replay-drawer:not([open])").count():
        page.click(".replay-drawer summary")


def _open_pair(page: Page) -> None:
    page.click(".badge")
    page.wait_for_selector(".model-list li")


def _race(page: Page) -> None:
    _go(page, "race")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".race-words[data-identical]")


def _race_result(page: Page) -> None:
    page.locator(".race-result").evaluate("(node) => node.scrollIntoView()")


def _models(page: Page) -> None:
    _go(page, "models")
    page.wait_for_selector("tr.model-row")
    page.get_by_role("button", name="Details of").first.click()
    page.wait_for_selector("tr.under .card")


def _plan(page: Page) -> None:
    _go(page, "plan")
    page.get_by_role("button", name="Make plan").click()
    page.wait_for_selector("#plan-page .plan-result .ft-panel")


def _settings_below(page: Page) -> None:
    if page.locator("[data-part=diagnostics] details:not([open])").count():
        page.locator("[data-part=diagnostics] summary").click()
    page.wait_for_selector(".report:has-text('Machine')")
    page.locator("[data-part=folders]").evaluate("(node) => node.scrollIntoView()")


def _page(name: str, seen: str) -> Callable[[Page], None]:
    def visit(page: Page) -> None:
        _go(page, name)
        page.wait_for_selector(seen)

    return visit


def _go(page: Page, name: str) -> None:
    page.keyboard.press("Escape")
    link = page.locator(f"a[data-page={name}]")
    if not link.is_visible():
        page.click("a[data-group=lab]")
    link.click()


STATES: dict[str, Callable[[Page], None]] = {
    "chat-empty": lambda page: None,
    "chat": _ask,
    "chat-settings": _open_drawer("Settings"),
    "chat-rounds": _open_drawer("Rounds"),
    "chat-replay": _replay,
    "pair": _open_pair,
    "race": _race,
    "race-result": _race_result,
    "tune": _page("tune", "#tune-page [data-act=start]"),
    "models": _models,
    "train": _page("train", "#train-page [data-act=start]"),
    "server": _page("server", "#server-page [role=switch]"),
    "plan": _plan,
    "settings": _page("settings", "[data-place=data] code"),
    "settings-below": _settings_below,
}
"""What ``--all`` shows, in this order; each begins where the one before it ended."""
EACH_SIZE = ("chat-settings", "chat-rounds", "chat-replay", "race-result", "settings-below")
"""Of these, what is closed or scrolled away when the window becomes another."""


def keep(page: Page, name: str, out: Path = IMAGES) -> None:
    """One picture by day and one by night."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(250)
        page.screenshot(path=out / f"{name}-{theme}.png")
    page.emulate_media(color_scheme="light")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    main()
