"""Models that are loaded because a request names them, over an engine that computes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.switch import Serving
from engine.errors import OutOfMemory
from engine.fake import FakeEngine
from tests.support.places import beside
from tests.support.serving import fake_runtime, served

IDLE_MINUTES = 0.02


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Of a server without a loaded model, on whose disk are Pip and one model more."""
    with opened(tmp_path, Serving(True)) as http:
        yield http


class opened:  # noqa: N801  # reads as a function
    """A server that treats models as ``serving`` says; its client has the engine as ``engine``."""

    def __init__(self, folder: Path, serving: Serving) -> None:
        self.engine = FakeEngine()
        self.engine.seconds_to_load = 0.05
        runtime = fake_runtime(folder, self.engine)
        runtime.serving = serving
        runtime.found.remember(beside("stories260K"))
        self._server = served(runtime)

    def __enter__(self) -> httpx.Client:
        self._client = self._server.__enter__().client()
        self._client.engine = self.engine  # type: ignore[attr-defined]
        return self._client

    def __exit__(self, *reason: object) -> None:
        self._client.close()
        self._server.__exit__(None, None, None)


def models(client: httpx.Client) -> dict[str, bool]:
    """Ids, and whether they are loaded, once the disk was searched."""
    end = time.monotonic() + 60
    while True:
        told = client.get("/v1/models").json()["data"]
        found = {one["id"]: one["loaded"] for one in told}
        if len(found) > 1 or time.monotonic() > end:
            return found
        time.sleep(0.05)


def ask(client: httpx.Client, model: str | None) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return client.post("/v1/chat/completions", json=body)


def test_what_is_asked_for_by_name_is_loaded_with_its_draft(client: httpx.Client) -> None:
    found = models(client)
    assert found.keys() >= {"pip", "stories260k"} and not any(found.values())
    assert ask(client, None).status_code == 503  # nothing was ever loaded, and nothing is named
    assert ask(client, "stories260k").json()["model"] == "stories260k"
    assert models(client)["stories260k"]
    reply = ask(client, "pip")
    assert reply.json()["choices"][0]["message"]["content"] == "Hello"
    loaded = client.engine.loaded  # type: ignore[attr-defined]
    assert loaded.draft is not None
    after = models(client)
    assert [name for name, there in after.items() if there] == [loaded.id]
    assert ask(client, None).json()["model"] == loaded.id
    wrong = ask(client, "gpt-9")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (404, "model")
    said = wrong.json()["error"]["message"]
    assert "GET /v1/models" in said and "Models page" not in said  # there is none


def test_many_at_once_each_get_the_model_that_they_named(client: httpx.Client) -> None:
    models(client)
    names = ["pip", "stories260k"] * 6
    with ThreadPoolExecutor(len(names)) as pool:
        replies = list(pool.map(lambda name: ask(client, name), names))
    assert [reply.status_code for reply in replies] == [200] * len(names)
    told = [reply.json()["model"] for reply in replies]
    assert all(name in model for name, model in zip(names, told, strict=True))


def test_what_cannot_be_loaded_is_told_and_the_next_can(client: httpx.Client) -> None:
    models(client)
    client.engine.load_error = OutOfMemory("No room.")  # type: ignore[attr-defined]
    failed = ask(client, "pip")
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "model_not_loaded")
    assert "No room." in failed.json()["error"]["message"]
    client.engine.load_error = None  # type: ignore[attr-defined]
    assert ask(client, "pip").status_code == 200


def test_what_nobody_uses_is_unloaded_and_comes_back(tmp_path: Path) -> None:
    with opened(tmp_path, Serving(True, IDLE_MINUTES)) as client:
        models(client)
        model = ask(client, "stories260k").json()["model"]
        end = time.monotonic() + 60
        while client.engine.loaded is not None:  # type: ignore[attr-defined]
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(client, "default").json()["model"] == model


def test_without_it_only_what_is_loaded_is_there(tmp_path: Path) -> None:
    with opened(tmp_path, Serving()) as client:
        assert client.get("/v1/models").json()["data"] == []
        assert ask(client, "pip").status_code == 503
