"""What holds for all tests of the app."""

from __future__ import annotations

import pytest

from engine.remote import errors


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is not there is tried again at once: to be sure of that takes 3.5 s."""
    monkeypatch.setattr(errors, "BACKOFF_S", 0.001)
