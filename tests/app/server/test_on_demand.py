"""Models that are loaded because a request names them, over an engine that computes nothing."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.web.switch import Serving
from engine.api import LoadProgress, LoadRequest, Stage
from engine.errors import OutOfMemory
from tests.support.fake_engine import FakeEngine
from tests.support.places import beside
from tests.support.serving import fake_runtime, served

IDLE_MINUTES = 0.02


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Of a server without a loaded model, on whose disk are Pip and one model more."""
    with opened(tmp_path, Serving(True)) as http:
        yield http


class opened:  # noqa: N801  # reads as a function
    """A server that treats models as ``serving`` says; its client has ``engine`` and ``runtime``."""

    def __init__(self, folder: Path, serving: Serving) -> None:
        self.engine = FakeEngine()
        self.engine.seconds_to_load = 0.05
        self.runtime = runtime = fake_runtime(folder, self.engine)
        runtime.serving = serving
        runtime.found.remember(beside("stories260K"))
        self._server = served(runtime)

    def __enter__(self) -> httpx.Client:
        self._client = self._server.__enter__().client()
        self._client.engine = self.engine  # type: ignore[attr-defined]
        self._client.runtime = self.runtime  # type: ignore[attr-defined]
        return self._client

    def __exit__(self, *reason: object) -> None:
        self._client.close()
        self._server.__exit__(None, None, None)


def models(client: httpx.Client) -> dict[str, bool]:
    """Ids, and whether they are loaded, once the disk was searched."""
    while client.runtime.found.scanning:  # type: ignore[attr-defined]
        time.sleep(0.02)
    told = client.get("/v1/models").json()["data"]
    return {one["id"]: one["loaded"] for one in told}


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


def choose(client: httpx.Client, pair: str) -> None:
    """Load a pair as a page or ``--pair`` does."""
    loader = client.runtime.loader  # type: ignore[attr-defined]
    loader.start(LoadRequest(target=pair)).join(60)


def test_who_names_no_model_gets_the_one_that_was_chosen_whatever_others_name(
    client: httpx.Client,
) -> None:
    """After a request for pip-draft, those without a name got it too, and no draft with it."""
    models(client)
    choose(client, "pip")
    for name in (None, "", "default", "pip"):
        assert ask(client, "pip-draft").json()["model"] == "pip-draft"
        assert ask(client, name).json()["model"] == "pip"
        loaded = client.engine.loaded  # type: ignore[attr-defined]
        assert loaded.request == LoadRequest(target="pip")


def test_a_model_has_one_id_loaded_or_not(client: httpx.Client) -> None:
    """The listed pip-draft was pips-draft once it was loaded."""
    found = models(client)
    for name in found:
        assert ask(client, name).json()["model"] == name
        assert models(client) == {each: each == name for each in found}
    assert ask(client, "pips-draft").json()["model"] == "pip-draft"  # as it was called


def test_two_models_of_one_name_have_two_ids(client: httpx.Client, tmp_path: Path) -> None:
    """The second one could not be reached."""
    again = tmp_path / "again" / "stories260K"
    shutil.copytree(beside("stories260K"), again)
    client.runtime.found.remember(again)  # type: ignore[attr-defined]
    found = models(client)
    assert found.keys() == {"pip", "pip-draft", "stories260k", "stories260k-safetensors"}
    for name in ("stories260k-safetensors", "stories260k"):
        assert ask(client, name).status_code == 200
        assert [each for each, loaded in models(client).items() if loaded] == [name]


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
        choose(client, "pip")
        assert ask(client, "stories260k").status_code == 200
        end = time.monotonic() + 60
        while client.engine.loaded is not None:  # type: ignore[attr-defined]
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(client, "default").json()["model"] == "pip"


def test_without_it_only_what_is_loaded_is_there(tmp_path: Path) -> None:
    with opened(tmp_path, Serving()) as client:
        assert client.get("/v1/models").json()["data"] == []
        assert ask(client, "pip").status_code == 503


@pytest.mark.parametrize("on_demand", [False, True])
def test_what_is_being_loaded_is_listed_and_waited_for(tmp_path: Path, on_demand: bool) -> None:
    """It was not, wherever no search of the disk had found it: a client saw no model to choose."""
    folder = tmp_path / "elsewhere" / "my-model"
    shutil.copytree(beside("stories260K"), folder)
    opens = threading.Event()

    def stages() -> Iterator[LoadProgress]:
        assert opens.wait(60)
        yield LoadProgress(Stage.FINISHING)

    with opened(tmp_path, Serving(on_demand)) as client, ThreadPoolExecutor(1) as pool:
        client.engine.stages = stages()  # type: ignore[attr-defined]
        client.runtime.loader.start(LoadRequest(target=str(folder)))  # type: ignore[attr-defined]
        for loaded in (False, True):
            told = client.get("/v1/models").json()
            (one,) = (one for one in told["data"] if one["id"] == "my-model")
            assert (one["object"], one["owned_by"], one["loaded"]) == ("model", "foretoken", loaded)
            assert "my-model" in (told["first_id"], told["last_id"])
            assert client.get("/v1/models/my-model").json()["loaded"] == loaded
            tags = client.get("/api/tags").json()["models"]
            assert [each["size"] > 0 for each in tags if each["model"] == "my-model"] == [True]
            if not loaded:
                waiting = pool.submit(ask, client, "my-model")
                opens.set()
                assert waiting.result(60).json()["model"] == "my-model"
        client.runtime.loader.unload()  # type: ignore[attr-defined]
        assert not client.get("/v1/models/my-model").json()["loaded"]
        assert ask(client, "my-model").json()["model"] == "my-model"


def test_a_model_that_is_kept_very_long_is_listed_with_a_time(tmp_path: Path) -> None:
    """Its time was beyond what datetime holds: a 500 for every client that asked."""
    with opened(tmp_path, Serving(True)) as client:
        choose(client, "pip")
        body = '{"model": "pip", "messages": [], "keep_alive": %s}'
        assert client.post("/api/chat", content=body % "1e12").status_code == 200
        (running,) = client.get("/api/ps").json()["models"]
        assert int(running["expires_at"][:4]) == time.gmtime(time.time() + 2**63 / 1e9).tm_year
        assert client.post("/api/chat", content=body % "1e999").status_code == 400


def test_a_model_that_is_unloaded_comes_back_with_the_next_request(tmp_path: Path) -> None:
    """Also where requests load no other: people chat with it."""
    with opened(tmp_path, Serving()) as client:
        choose(client, "pip")
        assert client.post("/v1/models/unload", json={"model": "gpt-9"}).status_code == 404
        assert client.post("/v1/models/unload", json={}).json()["unloaded"] == "pip"
        assert client.engine.loaded is None  # type: ignore[attr-defined]
        assert client.post("/v1/models/unload", json={}).json() == {"unloaded": None, "models": []}
        assert ask(client, None).json()["model"] == "pip"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asked", [True, False])
def test_keep_alive_of_nothing_unloads_as_ollama_does(
    client: httpx.Client, asked: bool, stream: bool
) -> None:
    """It was left out in silence."""
    models(client)
    choose(client, "pip")
    engine = client.engine  # type: ignore[attr-defined]
    messages = [{"role": "user", "content": "Hello"}] if asked else []
    body = {"model": "stories260k", "messages": messages, "stream": stream}
    for kept in ("5m", -1, 30, "1h30m"):
        assert client.post("/api/chat", json={**body, "keep_alive": kept}).status_code == 200
        assert engine.loaded.id == "stories260k"
    for nothing in (0, "0", "0s", "0m0s"):
        assert ask(client, "stories260k").status_code == 200
        answer = client.post("/api/chat", json={**body, "keep_alive": nothing})
        last = json.loads(answer.text.splitlines()[-1])
        assert last["done_reason"] == ("stop" if asked else "unload")
        end = time.monotonic() + 20
        while engine.loaded is not None:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert ask(client, None).json()["model"] == "pip"  # what the app was started with is back
    other = client.post("/api/chat", json={"model": "gpt-9", "messages": [], "keep_alive": 0})
    assert other.status_code == 404
    assert engine.loaded.id == "pip"
