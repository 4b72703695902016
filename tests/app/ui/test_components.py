"""What Python answers the scripts of the pages."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from app.ui.components import scripted
from app.ui.words import Words
from engine.errors import InvalidRequest
from tests.app.ui.conftest import awaited

REASON = InvalidRequest("depth", "depth is 99; it must be 15 or less.")


def test_what_a_function_raises_is_a_refusal_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """It was status 500, which the pages called an app that cannot be reached."""

    def mistaken(data: Any) -> Any:
        raise REASON

    async def broken(data: Any) -> Any:
        raise sqlite3.OperationalError("database is locked")

    view = scripted("x", (mistaken, broken))
    assert view.mistaken({}) == {"refused": str(REASON)}
    assert "Traceback" not in caplog.text
    assert awaited(view.broken({})) == {"refused": Words.FAILED}
    assert "database is locked" in caplog.text
