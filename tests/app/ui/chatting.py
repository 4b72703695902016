"""What tests do in the chat page, and where its traces lie."""

from __future__ import annotations

import json

from app.settings.settings_file import SettingsFile
from app.ui.controls.stored_settings import FILE, SETTINGS

DONE = ".msg.assistant[data-status=done]"


def send(page, text: str) -> None:
    page.fill(".composer textarea", text)
    page.keyboard.press("Enter")


def ask(page, text: str, status: str = "done") -> None:
    """Send and wait for the end of the reply."""
    before = page.locator(".msg.assistant").count()
    send(page, text)
    page.wait_for_function(
        "([n, status]) => document.querySelectorAll('.msg.assistant').length > n &&"
        " [...document.querySelectorAll('.msg.assistant')].at(-1).dataset.status === status",
        arg=[before, status],
    )


def last_trace(app) -> list[dict]:
    """The kept trace of the newest reply."""
    with app.store() as store:
        chat = store.chats()[0]
        message = store.messages(chat.id)[-1]
        return [json.loads(line) for line in store.trace(message.id)]


def stored_settings(app) -> dict:
    """The chat's stored settings."""
    return SettingsFile(app.data_dir / FILE).read()[SETTINGS]


def open_settings(page) -> None:
    """The drawer's tab with all of them unfolded."""
    page.get_by_role("tab", name="Settings").click()
    if page.locator(".advanced:not([open])").count():
        page.locator(".advanced summary").click()


def forget_settings(page) -> None:
    """Back to the defaults, which are there when it returns."""
    open_settings(page)
    page.fill("#max-tokens input", "77")
    page.click("#defaults")
    page.wait_for_function("document.querySelector('#max-tokens input').value === ''")
    page.get_by_role("tab", name="Rounds").click()


def open_pair(page):
    """What stands behind the chip above the chat."""
    if page.locator("#pair-popover").is_hidden():
        page.click(".badge")
    page.wait_for_selector("#target select option", state="attached")
    return page.locator("#pair-popover")


def choose_method(page, name: str) -> None:
    """Another way to draft; it is kept when it returns."""
    with page.expect_response(lambda answer: "keep_settings" in (answer.request.post_data or "")):
        open_pair(page).locator(f"[data-method={name}] input").check()
    page.keyboard.press("Escape")
