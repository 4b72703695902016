"""What tests do in the chat page, and where its traces lie."""

from __future__ import annotations

import json

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
