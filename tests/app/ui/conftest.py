"""The pages over a fake engine on a real socket, and Chromium to look at them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.fake import FakeEngine

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

# What Gradio's own client says of its stream when a page is reloaded during a reply.
RELOADED = ("AbortError", "Connection errored out")
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
PATIENCE = 40_000
"""Milliseconds that something may take to be seen, on a slow and busy machine."""
VIEWPORT = {"width": 1280, "height": 800}


@dataclass(frozen=True)
class App:
    """A running app: its address and what stands behind it."""

    url: str
    engine: object
    switch: object
    data_dir: Path
    runtime: object

    @contextmanager
    def store(self):
        """What the app has stored, beside the app that goes on writing."""
        from app.store import Store

        with closing(Store(self.data_dir, alone=False)) as store:
            yield store


def awaited(coroutine):
    """What it returns, run in a thread of its own: in this one Playwright's event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def chromium() -> str | None:
    """Chromium's path, or None."""
    for name in ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


@pytest.fixture(scope="module")  # while it lives, no event loop runs in this thread; see awaited()
def browser() -> Iterator[object]:
    path = chromium()
    if path is None:
        pytest.skip("Chromium is not installed, so nothing can look at the pages")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


@contextmanager
def serving(data_dir: Path, engine: FakeEngine) -> Iterator[App]:
    """The pages over ``engine``, on a free port."""
    import uvicorn
    from fastapi import FastAPI

    from app.main import mount_pages
    from app.paths import catalog_file
    from app.runtime import Runtime
    from app.switch import ApiSwitch
    from engine.loading.catalog import open_catalog
    from engine.loading.discovery import System

    home = data_dir / "home"  # nothing lies there that a test did not put there
    runtime = Runtime(
        engine,
        open_catalog(catalog_file()),
        data_dir,
        data_dir / "models",
        system=System("linux", home, {}, root=home / "root"),
    )
    engine.catalog = runtime.known  # one catalog, which may grow
    switch = ApiSwitch()

    async def mounted() -> FastAPI:
        return mount_pages(FastAPI(), runtime, switch)

    # Where no event loop runs, Gradio makes one for its locks and never closes it.
    pages = awaited(mounted())
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(pages, log_level="error", timeout_graceful_shutdown=1, ws="none")
    )
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline, "the app did not start"
        time.sleep(0.02)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    yield App(url, engine, switch, data_dir, runtime)
    server.should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    from tests.support.recital import reciting_engine

    with serving(tmp_path_factory.mktemp("data"), reciting_engine(0.01)) as running:
        yield running


@pytest.fixture
def fresh_page(app: App, browser: object) -> Iterator[object]:
    """A page of its own with an empty chat; what its scripts complain about fails the test."""
    with open_page(app, browser) as (page, _):
        yield page


@pytest.fixture
def page(fresh_page: object) -> object:
    """Where tests do not hinder one another, their file puts ``same_page`` in its place."""
    return fresh_page


@pytest.fixture(scope="module")
def only_page(app: App, browser: object) -> Iterator[tuple[object, list[str]]]:
    """One page for all tests of a file, and what its scripts complained about."""
    with open_page(app, browser) as found:
        yield found


@pytest.fixture
def same_page(app: App, only_page: tuple[object, list[str]]) -> Iterator[object]:
    """That page with an empty chat, for tests that leave its settings as they were.

    To load a page takes seconds of the processor: most of what such a test takes.
    """
    page, errors = only_page
    app.engine.seconds_a_round = 0.01
    page.set_viewport_size(VIEWPORT)
    page.get_by_role("tab", name="Chat").click()
    page.fill(".composer textarea", "")
    page.click("[data-action=new]")
    page.wait_for_selector(".empty")
    yield page
    told, errors[:] = errors[:], []
    assert not told


@contextmanager
def open_page(app: App, browser: object) -> Iterator[tuple[object, list[str]]]:
    """A page in a context of its own, and what its scripts complain about: nothing, at the end.

    Nor may it ask another machine for anything, whatever is done in it.
    """
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    own = (app.url, "data:", "blob:")
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(own) else errors.append(f"asked {asked.url}"),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: (
            errors.append(message.text)
            if message.type == "error" and not any(sign in message.text for sign in RELOADED)
            else None
        ),
    )
    app.engine.seconds_a_round = 0.01
    page.goto(app.url)
    page.wait_for_selector(".composer textarea")
    page.wait_for_selector(".empty")
    page.wait_for_selector("body[data-controls=ready]")
    yield page, errors
    context.close()
    assert not errors
