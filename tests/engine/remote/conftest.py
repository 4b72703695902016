"""Engines connected to servers that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from engine.api import LoadRequest
from engine.remote.engine import RemoteEngine
from tests.support.model_server import Played, playing

Connect = Callable[..., RemoteEngine]


@pytest.fixture(autouse=True)
def _no_keys_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("FORETOKEN_SERVER_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("FORETOKEN_SERVER_KEY", raising=False)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Plays a server, and connects to it."""
    with ExitStack() as stack:

        def connected(played: Played, model: str = "") -> RemoteEngine:
            if not played.url:
                stack.enter_context(playing(played))
            engine = stack.enter_context(closing(RemoteEngine()))
            engine.load(LoadRequest(target=f"{played.url}/v1{f'#{model}' if model else ''}"))
            return engine

        yield connected
