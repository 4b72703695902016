"""An app that ends and is started again while its pages are open: they say so, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gradio.context import Context

from engine.api import LoadRequest
from tests.app.ui.chatting import DONE, ask, go, send
from tests.app.ui.conftest import PATIENCE, VIEWPORT
from tests.support.processes import free_port
from tests.support.recital import reciting_engine
from tests.support.serving import Served, fake_runtime, served

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


class Restartable:
    """An app that may end and be started anew, at the same address and with the same data."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._running = ExitStack()
        self.port = free_port()

    def start(self, *, other_version: bool = False) -> Served:
        # As in a new process components are numbered from the beginning; another version has others.
        Context.id = 10_000 if other_version else 0
        runtime = fake_runtime(self._data_dir, reciting_engine(0.01))
        runtime.engine.load(LoadRequest(target="pip"))
        running = self._running.enter_context(served(runtime, pages=True, port=self.port))
        assert running.port == self.port
        return running

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Restartable]:
    app = Restartable(tmp_path)
    yield app
    app.stop()


def test_pages_say_that_the_app_is_away_and_go_on_when_it_is_back(app, browser):
    first = app.start()
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(first.url)
    page.wait_for_selector("body[data-controls=ready]")
    page.evaluate("window.loadedOnce = true")
    ask(page, "What is it?")
    page.fill(".composer textarea", "Half a thought")
    go(page, "plan")
    page.fill("#plan-page [name=users]", "23")
    go(page, "race")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".race-lane .mark, .race-lane p")
    go(page, "settings")
    page.wait_for_selector("[data-place=data] code")
    app.stop()
    bar = page.locator(".away")
    bar.filter(has_text="Lost connection").wait_for()  # though nobody did anything
    box = "document.querySelector('{}').getBoundingClientRect()"
    beneath = f"{box.format('#settings-page')}.top >= {box.format('.away')}.bottom"
    page.wait_for_function(beneath)
    page.select_option("[data-part=computing] [name=threads]", "1")
    page.locator("#settings-page .ft-error", has_text="does not answer").wait_for()
    assert (
        page.locator("[data-part=computing] [name=threads]").input_value() == ""
    )  # it was not kept
    app.start()
    bar.filter(has_text="Connected again").wait_for()
    page.locator("#settings-page .ft-error").wait_for(state="hidden")
    page.select_option("[data-part=computing] [name=threads]", "1")
    page.locator("[data-part=computing] .reload", has_text="to apply").wait_for()
    bar.wait_for(state="hidden")
    go(page, "race")
    page.locator("#race-page .ft-error", has_text="was restarted").wait_for()
    page.wait_for_selector(".race-form [data-act=start]:not(:disabled)")
    go(page, "plan")
    assert page.input_value("#plan-page [name=users]") == "23"
    page.get_by_role("button", name="Make plan").click()
    page.wait_for_selector("#plan-page .plan-result .ft-panel")
    go(page, "server")
    page.get_by_role("switch").click()
    page.wait_for_selector("#server-page [role=switch]:not(:checked)")
    go(page, "chat")
    assert page.input_value(".composer textarea") == "Half a thought"
    send(page, "And then?")
    page.locator(DONE).nth(1).wait_for()
    assert page.evaluate("window.loadedOnce")
    app.stop()
    app.start(other_version=True)
    page.get_by_role("button", name="Reload").click()
    page.wait_for_selector("body[data-controls=ready]")
    page.locator(DONE).nth(1).wait_for()
    assert not page.evaluate("window.loadedOnce")
    context.close()
