"""The tune page in a real browser: a heat map that fills, and a winner that is kept and exported."""

from __future__ import annotations

import json
import re

import pytest

from app.settings.defaults import Defaults
from tests.app.ui.chatting import ask

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


@pytest.fixture
def page(same_page):
    same_page.get_by_role("link", name="Tune", exact=True).click()
    same_page.wait_for_selector(".ft-tune [data-act=start]:enabled")
    return same_page


def only(page, method: str, depth: int) -> None:
    if page.locator(".ft-tune form details:not([open])").count():
        page.click(".ft-tune form summary")
    for box in page.locator(".ft-tune input[type=checkbox]").all():
        wanted = box.get_attribute("value") in (method, str(depth), "set")
        if box.is_enabled() and box.is_checked() != wanted:
            box.set_checked(wanted)


def test_a_sweep_is_mapped_kept_exported_and_outlives_a_reload(page, app):
    app.engine.seconds_a_round = 0.0005
    only(page, "draft", 4)
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".tune-now:has-text('replies')")
    page.wait_for_selector(".heatmap [data-kind=chat]")
    page.wait_for_selector(".ft-tune [data-act=use]:visible")
    assert page.locator(".heatmap tbody tr").count() == 2
    assert page.locator(".heatmap .best").count() >= 5
    use = page.locator(".ft-tune [data-act=use]")
    assert ("primary" in use.get_attribute("class")) == ("depth 4" in use.inner_text())
    assert re.fullmatch(
        r"Use draft, (auto|depth 4): about \d\.\d×", page.inner_text(".ft-tune [data-act=use]")
    )
    assert "times as fast as plain (5 of 5 runs)." in page.inner_text(".tune-verdict")
    page.click(".ft-tune [data-act=use]")
    page.wait_for_selector(".tune-kept:has-text('Kept: draft')")
    kept = Defaults(app.data_dir).of(app.engine.loaded)
    assert kept is not None and kept.winner.proposer == "draft"
    with page.expect_download() as downloading:
        page.click(".ft-tune [data-act=export]")
    value = json.loads(downloading.value.path().read_text())
    assert value["winners"]["all"]["proposer"] == "draft"
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    page.get_by_role("link", name="Tune", exact=True).click()
    page.wait_for_selector(".ft-tune [data-act=use]:visible")
    assert page.locator(".heatmap tbody tr").count() == 2
    assert "The default of this pair is draft" in page.inner_text(".ft-tune form")
    page.click(".ft-tune [data-act=forget]")
    page.wait_for_selector(".ft-tune form:has-text('no measured default any more')")
    assert Defaults(app.data_dir).of(app.engine.loaded) is None


def test_how_long_it_takes_is_said_before_the_start_once_a_reply_told_the_speed(page):
    page.get_by_role("link", name="Chat", exact=True).click()
    ask(page, "100 tokens")
    page.get_by_role("link", name="Tune", exact=True).click()
    start = page.locator(".ft-tune [data-act=start]:has-text('Find the fastest (about')")
    start.wait_for()
    quick = start.inner_text()
    if page.locator(".ft-tune form details:not([open])").count():
        page.click(".ft-tune form summary")
    page.locator(".ft-tune [value=thorough]").check()
    page.wait_for_function(
        "told => document.querySelector('.ft-tune [data-act=start]').textContent !== told",
        arg=quick,
    )


def test_it_can_be_stopped_and_mistakes_are_told_there(page, app):
    app.engine.seconds_a_round = 0.02
    only(page, "draft", 4)
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".tune-now:has-text('replies')")
    page.get_by_role("link", name="Race", exact=True).click()
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".ft-race .ft-error:has-text('being measured already')")
    page.get_by_role("link", name="Tune", exact=True).click()
    page.click(".ft-tune [data-act=stop]")
    page.wait_for_selector(".ft-tune .ft-error:has-text('Stopped before the first prompt')")
    page.locator(".ft-tune [name=method][value=draft]").uncheck()
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".ft-tune .ft-error:has-text('at least one method')")
