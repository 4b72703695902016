"""Requests for several models, all of which stay in memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.inventory.model_folders import add_folder
from app.paths import catalog_file
from app.runtime import Runtime, create_runtime
from app.web.switch import Serving
from engine.api import Loaded, LoadRequest, Watcher
from engine.loading.catalog import Catalog, open_catalog
from engine.loading.discovery.system import System
from engine.request import Request
from engine.switching import SwitchingEngine
from tests.support.checkpoints import write_random
from tests.support.fake_engine import FakeEngine, Script, echo
from tests.support.places import beside
from tests.support.serving import served


def test_two_models_answer_side_by_side(tmp_path: Path) -> None:
    """Each with the words that it says alone, and without loading anything again."""
    runtime = create_runtime(tmp_path, LoadRequest(target="pip"), most=2)
    runtime.serving = Serving(True, None, 2)
    runtime.found.remember(beside("stories260K"))
    with served(runtime, itself=True) as running, running.client() as http:

        def ask(model: str) -> str:
            body = {"model": model, "prompt": "Once upon a", "max_tokens": 24}
            answer = http.post("/v1/completions", json=body)
            assert answer.status_code == 200, answer.text
            text: str = answer.json()["choices"][0]["text"]
            return text

        names = ["pip", "stories260k"]
        alone = [ask(name) for name in names]
        first = {id(pair) for pair in runtime.engine.resident}
        assert len(first) == 2 and alone[0] != alone[1]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, names * 4)) == alone * 4
        assert {id(pair) for pair in runtime.engine.resident} == first
        told = http.get("/v1/models").json()["data"]
        assert sum(one["loaded"] for one in told) == 2
        assert len(http.get("/api/ps").json()["models"]) == 2
        http.post("/v1/models/unload", json={})
        assert runtime.engine.resident == ()


def test_words_stay_the_same_while_models_come_and_go(tmp_path: Path) -> None:
    """Three models, of which two fit: each request loads its own in place of an idle one."""
    runtime = create_runtime(tmp_path, LoadRequest(target="pip"), most=2)
    runtime.serving = Serving(True)
    runtime.found.remember(beside("stories260K"))
    with served(runtime, itself=True) as running, running.client() as http:

        def ask(model: str) -> tuple[str, str]:
            body = {"model": model, "prompt": "Once upon a", "max_tokens": 16}
            answer = http.post("/v1/completions", json=body).json()
            return answer["model"], answer["choices"][0]["text"]

        names = ["pip", "stories260k", "pip-draft"]
        alone = [ask(name) for name in names]
        assert len(set(alone)) == 3
        with ThreadPoolExecutor(5) as pool:
            assert list(pool.map(ask, names * 3)) == alone * 3
        assert len(runtime.engine.resident) == 2


class Gate:
    """Where a load or a reply stops until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(60)


class Fakes:
    """A server whose engines recite, and its client. ``loads``: targets in the order of their loads.

    ``gates`` hold the loads of a target and the replies to a text.
    """

    def __init__(self, client: httpx.Client, runtime: Runtime) -> None:
        self.client, self.runtime = client, runtime
        self.loads: list[str] = []
        self.gates: dict[str, Gate] = {}

    def passing(self, name: str) -> None:
        if name in self.gates:
            self.gates[name]()

    @property
    def here(self) -> set[str]:
        return {one["name"] for one in self.client.get("/api/ps").json()["models"]}

    def ask(self, model: str | None, text: str = "Hello") -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return self.client.post("/v1/chat/completions", json=body)

    def keep(self, model: str, keep_alive: float | str) -> Any:
        body = {"model": model, "keep_alive": keep_alive}
        return self.client.post("/api/generate", json=body).json()["done_reason"]


@pytest.fixture
def fakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Fakes]:
    """Two models may be in memory, or as many as the parameter says; three are on the disk."""

    class Engine(FakeEngine):
        def __init__(self, catalog: Callable[[], Catalog], **_: Any) -> None:
            super().__init__(self.recite, catalog=catalog)

        def recite(self, request: Request) -> Script:
            told.passing(request.messages[-1].content)
            return echo(request)

        def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
            told.loads.append(Path(request.target).name)
            told.passing(told.loads[-1])
            return super().load(request, watcher)

    monkeypatch.setattr("engine.switching.LocalEngine", Engine)
    home = tmp_path / "home"
    engine = SwitchingEngine(lambda: runtime.inventory.catalog, most=getattr(request, "param", 2))
    runtime = Runtime(
        engine,
        open_catalog(catalog_file()),
        tmp_path,
        tmp_path / "models",
        system=System("linux", home, {}, root=home / "root"),
    )
    runtime.serving = Serving(True)
    runtime.found.remember(beside("stories260K"))
    with served(runtime) as running, running.client() as client:
        told = Fakes(client, runtime)
        yield told
        for gate in told.gates.values():
            gate.opened.set()


@pytest.mark.parametrize("named", ["pip", "pip-draft"])
def test_only_the_named_model_is_unloaded(fakes: Fakes, named: str) -> None:
    """The one used last took all others with it; another stayed, though the answer was "unload"."""
    (other,) = {"pip", "pip-draft"} - {named}
    for model in ("pip", "pip-draft"):
        assert fakes.ask(model).status_code == 200
    assert fakes.keep(named, 0) == "unload"
    assert fakes.here == {other}
    assert fakes.ask(named).json()["model"] == named
    answer = fakes.client.post("/v1/models/unload", json={"model": named})
    assert answer.json() == {"unloaded": named, "models": [named]}
    assert fakes.here == {other}
    again = fakes.client.post("/v1/models/unload", json={"model": named})
    assert again.json() == {"unloaded": None, "models": []}
    assert fakes.client.get("/health").status_code == 200
    fakes.ask(named)
    told = fakes.client.post("/v1/models/unload", json={}).json()
    assert set(told["models"]) == {"pip", "pip-draft"} and not fakes.here


def test_each_model_is_kept_as_long_as_its_own_requests_said(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last request's time held for all, and the last model's end was everybody's."""
    unloaded: queue.SimpleQueue[str] = queue.SimpleQueue()
    real = fakes.runtime.loader.unload

    def unload(pair: Loaded | None = None) -> None:
        real(pair)
        unloaded.put("" if pair is None else pair.id)

    monkeypatch.setattr(fakes.runtime.loader, "unload", unload)
    assert fakes.keep("pip", "50ms") == "load"
    assert fakes.keep("pip-draft", "2h") == "load"  # another one is used last
    assert unloaded.get(timeout=60) == "pip"
    assert fakes.keep("pip", -1) == "load" and fakes.keep("pip-draft", "50ms") == "load"
    assert unloaded.get(timeout=60) == "pip-draft"
    assert fakes.here == {"pip"}
    (pip,) = fakes.runtime.engine.resident
    assert fakes.runtime.idle.left_s(pip) is None
    assert (
        fakes.keep("pip", "2h") == "load" and 7000 < (fakes.runtime.idle.left_s(pip) or 0) <= 7200
    )
    real(pip)
    fakes.ask("pip")
    (pip,) = fakes.runtime.engine.resident
    assert fakes.runtime.idle.left_s(pip) is None  # what was unloaded is kept by default again


def test_a_model_in_memory_answers_while_another_one_is_loaded(fakes: Fakes) -> None:
    """It waited for the load, which one lock around every request held."""
    assert fakes.ask("pip").status_code == 200
    gate = fakes.gates["stories260K"] = Gate()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(fakes.ask, "stories260k") for _ in range(3)]
        assert gate.reached.wait(60)
        for name in ("pip", None, "default"):
            assert fakes.ask(name).json()["model"] == "pip"
        assert fakes.keep("pip", "5m") == "load"
        assert not any(one.done() for one in waiting)
        assert fakes.client.post("/v1/models/unload", json={"model": "pip"}).json()["unloaded"]
        gate.opened.set()
        assert [one.result(60).json()["model"] for one in waiting] == ["stories260k"] * 3
    assert fakes.loads.count("stories260K") == 1  # all of them waited for one load


def test_the_idle_model_makes_room_and_not_the_one_that_writes(fakes: Fakes) -> None:
    """The one that was loaded first was waited for and unloaded, whatever it did."""
    assert fakes.ask("pip").status_code == 200
    gate = fakes.gates["Go on"] = Gate()
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(fakes.ask, "pip", "Go on")
        assert gate.reached.wait(60)
        assert fakes.ask("pip-draft").status_code == 200
        assert fakes.ask("stories260k").status_code == 200
        assert fakes.here == {"pip", "stories260k"} and not writing.done()
        gate.opened.set()
        assert writing.result(60).json()["model"] == "pip"
    assert fakes.ask("stories260k").status_code == 200
    assert fakes.ask("pip-draft").status_code == 200
    assert fakes.here == {"stories260k", "pip-draft"}  # all are idle: pip was used least recently


def test_the_pages_unload_frees_the_model_that_they_show(fakes: Fakes) -> None:
    loader = fakes.runtime.loader
    loader.start(LoadRequest(target="pip")).join(60)
    assert fakes.ask("stories260k").status_code == 200
    loader.start(LoadRequest(target="pip")).join(
        60
    )  # chosen again: it is shown, and not read again
    assert fakes.runtime.engine.loaded is fakes.runtime.engine.resident[0]
    loader.unload()
    assert fakes.here == {"stories260k"} and loader.unloaded == loader.chosen
    assert loader.load_again() or fakes.runtime.engine.loaded
    assert fakes.ask(None).json()["model"] == "pip"
    assert fakes.here == {"stories260k", "pip"}


@pytest.mark.parametrize("fakes", [1], indirect=True)
def test_where_one_model_fits_each_waits_for_the_replies_of_the_other(fakes: Fakes) -> None:
    assert fakes.ask("pip").status_code == 200
    gate = fakes.gates["Go on"] = Gate()
    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(fakes.ask, "pip", "Go on")
        assert gate.reached.wait(60)
        other = pool.submit(fakes.ask, "stories260k")
        while not fakes.runtime.loader.working:
            assert not other.done()
        gate.opened.set()
        assert writing.result(60).json()["model"] == "pip"
        assert other.result(60).json()["model"] == "stories260k"
    assert fakes.here == {"stories260k"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
        ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/api/show", {}),
        ("/v1/models/unload", {}),
    ],
)
def test_an_unknown_model_is_not_found_though_nothing_is_loaded(
    fakes: Fakes, path: str, body: dict[str, Any]
) -> None:
    """It was a 503, after which clients try again."""
    answer = fakes.client.post(path, json={**body, "model": "llama3"})
    assert answer.status_code == 404 and "no model 'llama3'" in answer.text
    assert fakes.ask(None).status_code == 503  # nothing was ever chosen


def test_models_that_came_since_the_start_are_listed_and_loaded(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that another process added, and in one that was there: only a restart showed them."""
    monkeypatch.setattr("app.inventory.found_models._OLD_S", 0)
    monkeypatch.setattr("app.inventory.found_models._PATIENCE_S", 60)
    names = {one["id"] for one in fakes.client.get("/v1/models").json()["data"]}
    write_random(tmp_path / "more" / "first")
    add_folder(tmp_path, tmp_path / "more")  # as ``foretoken models add-folder``
    now = {one["id"] for one in fakes.client.get("/v1/models").json()["data"]}
    assert now - names == {"first"}
    write_random(tmp_path / "more" / "second")
    assert fakes.ask("second").json()["model"] == "second"
    assert {one["name"] for one in fakes.client.get("/api/tags").json()["models"]} - now == {
        "second"
    }
