"""What tests do in the chat page, and where its traces lie."""

from __future__ import annotations

import json
import time

from app.settings.settings_file import SettingsFile
from app.ui.controls.stored_settings import FILE, SETTINGS

DONE = ".msg.assistant[data-status=done]"


def go(page, name: str) -> None:
    """Open a page as a user does: Lab's pages have a row of their own."""
    link = page.locator(f"a[data-page={name}]")
    if not link.is_visible():
        page.click("a[data-group=lab]")
    link.click()
    page.locator(f"#{name}-page").wait_for()


def send(page, text: str) -> None:
    page.fill(".composer textarea", text)
    page.keyboard.press("Enter")


def send_endless(page, app, text: str = "Write 1000 tokens.", stands: int = 5) -> None:
    """Send, and have the reply stand still in front of that round until it is stopped."""
    mine = app.engine.replies
    app.engine.held = lambda reply, number: (reply, number) == (mine, stands)
    send(page, text)


def ask(page, text: str, status: str = "done") -> None:
    """Send and wait for the end of the reply. It is stored by then: the page shows the end before."""
    before = page.locator(".msg.assistant").count()
    send(page, text)
    page.wait_for_function(
        "([n, status]) => document.querySelectorAll('.msg.assistant').length > n &&"
        " [...document.querySelectorAll('.msg.assistant')].at(-1).dataset.status === status &&"
        " !document.querySelector('.composer .stop')",
        arg=[before, status],
    )


def hold_first(page, endpoint: str) -> list:
    """Hold back the first question to an endpoint from now on. Return a list that gets its route."""
    held: list = []

    def hold(route) -> None:
        if not held and f'"{endpoint}"' in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/*", hold)
    return held


def last_trace(app) -> list[dict]:
    """The kept trace of the newest reply."""
    with app.store() as store:
        chat = store.chats()[0]
        while (message := store.messages(chat.id)[-1]).status == "running":  # a page saw its end
            time.sleep(0.01)
        return [json.loads(line) for line in store.trace(message.id)]


def stored_settings(app) -> dict:
    """The chat's stored settings."""
    return SettingsFile(app.data_dir / FILE).read()[SETTINGS]


def open_settings(page) -> None:
    """The drawer's tab with all of them unfolded."""
    page.get_by_role("tab", name="Settings").click()
    if page.locator("#settings .advanced details:not([open])").count():
        page.locator("#settings .advanced summary").click()


def forget_settings(page) -> None:
    """Back to the defaults, which are there when it returns."""
    open_settings(page)
    page.fill("#max-tokens input", "77")
    page.click("#defaults")
    page.wait_for_function("document.querySelector('#max-tokens input').value === ''")
    page.get_by_role("tab", name="Rounds").click()


def open_pair(page, tab: str = "models"):
    """What is behind the chip above the chat."""
    if page.locator("#pair-popover").count() == 0:
        page.click(".badge")
    page.click(f"#pair-popover [data-tab={tab}]")
    page.wait_for_selector("#pair-popover [role=tabpanel] :is(.model-list li, .methods, .ft-hint)")
    return page.locator("#pair-popover")


def open_methods(page):
    """All methods, unfolded."""
    popover = open_pair(page, "method")
    if popover.locator("details:not([open])").count():
        popover.locator("summary").click()
    return popover


def show_by(page, theme: str) -> None:
    """Have the system, and so the page, by "light" or "dark"."""
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(
        "(dark) => document.body.classList.contains('dark') === dark", arg=theme == "dark"
    )


def load_options(page, model: str):
    """The load options of a model in the list."""
    row = open_pair(page).locator(f"[data-model='{model}']")
    if row.locator(".load-options").count() == 0:
        row.get_by_role("button", name="Load options").click()
    row.locator("#load-pair").wait_for()
    return row


def choose_method(page, name: str) -> None:
    """Another way to draft; it is kept when it returns."""
    with page.expect_response(lambda answer: "keep_settings" in (answer.request.post_data or "")):
        open_methods(page).locator(f"[data-method={name}] input").check()
    page.keyboard.press("Escape")
