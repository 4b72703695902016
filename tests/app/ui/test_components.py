"""What Python answers the scripts of the pages."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any

import pytest
from anyio import to_thread

from app.ui import words
from app.ui.components import page
from app.ui.endpoints import is_waiting, waits
from app.ui.pages.chat.composer.attachments import Attachments
from app.ui.pages.models.servers import ServersBackend
from app.ui.pages.models.transfers import TransfersBackend
from app.ui.pages.plan.backend import PlanBackend
from engine.errors import InvalidRequest
from tests.app.ui.conftest import awaited

REASON = InvalidRequest("depth", "depth is 99; it must be 15 or less.")


def test_what_a_function_raises_is_a_refusal_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """It was status 500, which the pages called an app that cannot be reached."""

    def mistaken(data: Any) -> Any:
        raise REASON

    async def broken(data: Any) -> Any:
        raise sqlite3.OperationalError("database is locked")

    view = page("test", mistaken, broken)
    assert view.mistaken({}) == {"refused": str(REASON)}
    assert "Traceback" not in caplog.text
    assert awaited(view.broken({})) == {"refused": words.FAILED}
    assert "database is locked" in caplog.text


def test_what_waits_for_others_holds_no_shared_thread_and_few_may_wait() -> None:
    """120 requests for pages of a server that never answers stopped the whole app for a minute."""
    answers = threading.Event()

    @waits
    def fetch(data: Any) -> str:
        answers.wait(20)
        return "read"

    async def attack() -> tuple[int, list[Any]]:
        view = page("test", fetch)
        calls = [asyncio.create_task(view.fetch({})) for _ in range(30)]
        while sum(call.done() for call in calls) < 10:
            await asyncio.sleep(0.01)
        held = to_thread.current_default_thread_limiter().borrowed_tokens
        answers.set()
        return held, await asyncio.gather(*calls)

    held, found = awaited(attack())
    assert held == 0
    assert [each for each in found if each != "read"] == [{"refused": words.TOO_MANY_WAIT}] * 10
    slow = [Attachments.add_page, Attachments.add_private_page, ServersBackend.ask_server]
    slow += [PlanBackend.make]
    assert all(map(is_waiting, (*slow, TransfersBackend.search, TransfersBackend.look_up)))
