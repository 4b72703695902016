"""The pages over a fake engine on a real socket, and Chromium to look at them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.browsers import PATIENCE, take_turn, turn
from tests.support.fake_engine import FakeEngine

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

# What Gradio's own client says of its stream when a page is reloaded during a reply; and what Chromium
# says when the pages' policy holds back what a hostile reply would run.
EXPECTED = ("AbortError", "Connection errored out", "Executing inline event handler violates")
VIEWPORT = {"width": 1280, "height": 800}
HERE = Path(__file__).parent
SHARED: list[tuple[object, list[str]]] = []
"""The page of all files and its scripts' complaints, while there is one."""


@dataclass(frozen=True)
class App:
    """A running app: its address and what stands behind it."""

    url: str
    engine: object
    switch: object
    data_dir: Path
    runtime: object
    open_pages: object

    @contextmanager
    def store(self):
        """What the app has stored, beside the app that goes on writing."""
        from app.storage.store import Store

        with closing(Store(self.data_dir, alone=False)) as store:
            yield store


def awaited(coroutine):
    """What it returns, run in a thread of its own: in this one Playwright's event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def serving(data_dir: Path, engine: FakeEngine) -> Iterator[App]:
    """The app over ``engine``, on a free port; its API is switched off."""
    from tests.support.serving import fake_runtime, served

    with served(fake_runtime(data_dir, engine), pages=True, api=False) as running:
        yield App(
            f"{running.url}/",
            engine,
            running.switch,
            data_dir,
            running.runtime,
            running.app.state.pages,
        )


@pytest.fixture(scope="session")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One app for all files that need no data folder of their own: to build one takes seconds."""
    from tests.support.recital import reciting_engine

    with serving(tmp_path_factory.mktemp("data"), reciting_engine(0.01)) as running:
        yield running


@pytest.fixture(scope="session")
def shared_page(shared_app: App, browser: object) -> Iterator[tuple[object, list[str]]]:
    """Its page, for the same files, and what its scripts complained about."""
    with open_page(shared_app, browser) as found:
        SHARED.append(found)
        yield found
        SHARED.clear()
        take_turn()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The shared page is left before other folders' tests: it would take a tenth of a processor."""
    if SHARED and nextitem is not None and HERE not in nextitem.path.parents:
        ((page, errors),) = SHARED
        with turn():
            page.goto("about:blank")
        errors.clear()


@pytest.fixture(scope="module")
def app(request: pytest.FixtureRequest) -> App:
    """One for all files; a file whose tests change what is kept says ``OWN_APP = True``."""
    return request.getfixturevalue("own_app" if has_own_app(request) else "shared_app")


def has_own_app(request: pytest.FixtureRequest) -> bool:
    return getattr(request.module, "OWN_APP", False)


@pytest.fixture(scope="module")
def own_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """An app of one file's own."""
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
def only_page(
    app: App, browser: object, request: pytest.FixtureRequest
) -> Iterator[tuple[object, list[str]]]:
    """One page for all tests of a file, or of all files with one app, and what its scripts complained
    about."""
    if not has_own_app(request):
        yield request.getfixturevalue("shared_page")
        return
    with open_page(app, browser) as found:
        yield found


@pytest.fixture(autouse=True)
def _nothing_held(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that failed may have left replies waiting."""
    yield
    engine = getattr(request.node.funcargs.get("app"), "engine", None)
    if isinstance(engine, FakeEngine):
        engine.held = lambda reply, number: False


@pytest.fixture
def same_page(app: App, only_page: tuple[object, list[str]]) -> Iterator[object]:
    """That page, an empty chat and the rounds in it, for tests that leave its settings as they were.

    To load a page takes seconds of the processor: most of what such a test takes.
    """
    page, errors = only_page
    app.engine.seconds_a_round = 0.01
    if page.url == "about:blank":
        load(page, app)
    page.set_viewport_size(VIEWPORT)
    page.get_by_role("link", name="Chat", exact=True).click()
    page.fill(".composer textarea", "")
    page.click("[data-action=new]")
    page.wait_for_selector(".empty")
    if not page.locator("#tab-drawer-rounds").is_visible():
        page.click("[data-toggle=drawer]")
    page.click("#tab-drawer-rounds")
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
            if message.type == "error" and not any(sign in message.text for sign in EXPECTED)
            else None
        ),
    )
    app.engine.seconds_a_round = 0.01
    load(page, app)
    yield page, errors
    context.close()
    assert not errors


def load(page: object, app: App) -> None:
    """The app's page, until it can be used."""
    page.goto(app.url)
    page.wait_for_selector(".composer textarea")
    page.wait_for_selector(".empty")
    page.wait_for_selector("body[data-controls=ready]")
