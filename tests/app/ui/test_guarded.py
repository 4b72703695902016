"""The whole app, pages and Gradio's own routes included, behind its guard."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute, Mount, Route

from app.storage.store import Store
from app.ui import endpoints, words
from app.web import guard
from engine.api import LoadRequest
from tests.support.places import ROOT, python_files
from tests.support.recital import reciting_engine
from tests.support.serving import Served, fake_runtime, served

KEY = "secret"
OPEN = {"/login", "/health", "/app.webmanifest", "/worker.js", "/icons/x"}
FIELDS = (
    "chat", "run", "from", "message", "messages", "out", "action", "text", "title", "form", "name",
    "folder", "folded", "deleted", "preset", "drop", "files", "settings", "pair", "chosen", "target",
    "draft", "heads", "quantization", "kv_cache", "context", "path", "size", "key", "id", "address",
    "model", "repository", "token", "value", "on", "origin", "number", "seed", "max_tokens", "sides",
    "place", "source", "prompt", "effort", "methods", "depths", "sources", "gpus", "kind", "prompts",
    "minutes", "attachment", "again", "look", "compare", "first", "undo",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 2**70, 1.5, math.inf, "", "x", "0", "a\0b", "\ud800", [], [[]], [None, {}], {},
    {"x": []}, [{}, {}], {"options": [1]},
)  # fmt: skip
HOSTILE: tuple[Any, ...] = (
    None, [[]], "x", 7, {}, {"path": "x"}, {"folder": ["x"]},
    *({name: value for name in FIELDS} for value in ODD),
)  # fmt: skip


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runtime = fake_runtime(tmp_path_factory.mktemp("data"), reciting_engine())
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime, key=KEY, pages=True) as running:
        yield running


@pytest.fixture
def inside(app: Served) -> Iterator[httpx.Client]:
    """Somebody who has given the key."""
    with app.client() as http:
        assert http.post("/login", data={"key": KEY}).status_code == 303
        yield http


def routes_of(routes: list[BaseRoute], before: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every path that is served, with something in the place of what varies, and its methods."""
    for route in routes:
        path = before + str(getattr(route, "path", ""))
        path = re.sub(r"{\w+(:\w+)?}", "x", path)
        included = getattr(route, "original_router", None)  # FastAPI's, taken in as a whole
        if included is not None:
            yield from routes_of(included.routes, before)
        elif isinstance(route, Mount):
            yield path + "/x", {"GET"}
            yield from routes_of(list(route.routes), path)
        elif isinstance(route, Route):
            yield path, set(route.methods or {"GET"})


def callables(http: httpx.Client) -> Iterator[tuple[int, str]]:
    for part in http.get("/config").json()["components"]:
        for name in part["props"].get("server_fns", []):
            yield part["id"], name


def test_no_route_answers_without_the_key(app: Served) -> None:
    found = dict(routes_of(app.app.routes))
    assert len(found) > 60
    assert "/gradio_api/component_server" in found
    assert "/gradio_api/upload" in found
    with app.client() as http:
        for path, methods in found.items():
            for method in methods:
                if path in OPEN:
                    continue
                reply = http.request(method, path)
                expected = 404 if guard.is_unused(path) else 401
                if path.startswith(("/v1", "/api")) and method == "OPTIONS":
                    continue  # a question about CORS, which cannot send a key
                assert reply.status_code == expected, (method, path, reply.status_code)


def test_the_page_names_one_manifest(inside: httpx.Client) -> None:
    """Gradio's stood beside it."""
    manifests = re.findall(r'<link rel="manifest" href="([^"]+)"', inside.get("/").text)
    assert manifests == ["/app.webmanifest"]


def test_no_callable_of_the_pages_answers_without_the_key(
    app: Served, inside: httpx.Client
) -> None:
    found = list(callables(inside))
    assert len(found) > 20
    with app.client() as http:
        for part, name in found:
            for session in ("", "known"):
                asked = {"component_id": part, "fn_name": name, "session_hash": session, "data": {}}
                assert http.post("/gradio_api/component_server", json=asked).status_code == 401


def test_no_callable_of_the_pages_breaks_by_what_it_is_given(
    inside: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked without a name, or for a folder that is a list, they once logged a traceback."""
    asked_for = 0
    for part, name in callables(inside):
        if name == "follow":  # which waits for what there is to come
            continue
        for data in HOSTILE:
            asked = {"component_id": part, "fn_name": name, "session_hash": "s", "data": data}
            raw = json.dumps(asked).replace("Infinity", "1e400")
            reply = inside.post(
                "/gradio_api/component_server",
                content=raw,
                headers={"content-type": "application/json"},
            )
            assert reply.status_code == 200, (name, data, reply.text)
            assert words.FAILED not in reply.text, (name, data, reply.text)
        asked_for += 1
    assert asked_for > 60
    assert "A page's request failed" not in caplog.text
    assert inside.get("/").status_code == 200


def test_every_field_that_a_callable_reads_has_a_kind_or_is_a_text() -> None:
    """``int(data["x"])`` of a field that may be any text would be a ValueError."""
    converted = re.compile(
        r"(?:int|float|whole\(\"\w+\",|dict|for \w+ in) ?\(?data(?:\[|\.get\()\"(\w+)\""
    )
    found = {
        name
        for path in python_files(ROOT / "app" / "ui")
        for name in converted.findall(path.read_text(encoding="utf-8"))
    }
    assert {"chat", "message", "from", "deleted", "minutes"} <= found
    assert found <= set(endpoints._TYPES)


def test_nothing_can_be_uploaded(inside: httpx.Client) -> None:
    before = set(Path(tempfile.gettempdir()).glob("gradio/*"))
    reply = inside.post("/gradio_api/upload", files={"files": ("x.txt", b"x" * 100_000)})
    assert reply.status_code == 404
    assert set(Path(tempfile.gettempdir()).glob("gradio/*")) == before


@pytest.mark.browser
def test_in_a_browser_the_pages_open_with_the_key_and_run_nothing_that_came_later(
    app: Served, browser: Any
) -> None:
    """By a policy without 'unsafe-inline': each page's own scripts are known by its word."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{app.url}/models")
    page.fill("#key", KEY)
    page.get_by_role("button").click()
    page.wait_for_selector("tr.model-row")
    assert page.url == f"{app.url}/models"
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    assert complaints == []  # all pages are in this one document
    page.evaluate(
        """() => {
          const image = '<img src="data:," onerror="window.hacked = 1">';
          document.body.insertAdjacentHTML('beforeend', image);
          const script = document.createElement('script');
          script.textContent = 'window.hacked = 2';
          document.body.append(script);
        }"""
    )
    while len(complaints) < 2:
        page.wait_for_timeout(20)
    assert all("Content Security Policy" in said for said in complaints)
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://evil.example", "null"])
def test_no_other_origin_may_read_or_send_cookies(inside: httpx.Client, origin: str) -> None:
    """Gradio lets every page of localhost read with credentials."""
    asked = {"origin": origin, "access-control-request-method": "POST"}
    for reply in (
        inside.get("/config", headers={"origin": origin}),
        inside.get("/v1/models", headers={"origin": origin, "authorization": f"Bearer {KEY}"}),
        inside.options("/gradio_api/component_server", headers=asked),
    ):
        assert not [name for name in reply.headers if name.startswith("access-control-")]


def test_when_the_app_ends_its_chats_are_one_file(tmp_path: Path) -> None:
    runtime = fake_runtime(tmp_path, reciting_engine())
    with served(runtime, pages=True) as running, running.client() as http:
        assert http.get("/").status_code == 200
        beside = Store(tmp_path, alone=False)
        beside.begin_turn(beside.new_chat("Hi"), "Hello?", keep=None)
    assert (tmp_path / "chats.db-wal").stat().st_size == 0
    beside.close()


def test_a_second_app_leaves_the_replies_of_the_first_alone(tmp_path: Path) -> None:
    first = Store(tmp_path)
    first.begin_turn(first.new_chat("Hi"), "Hello?", keep=None)
    runtime = fake_runtime(tmp_path, reciting_engine())
    runtime.alone = False
    with served(runtime, pages=True):
        assert [message.status for message in first.messages(1)] == ["done", "running"]
    first.close()
