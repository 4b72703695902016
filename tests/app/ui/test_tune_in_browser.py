"""The tune page in a real browser: a heat map that fills, and a winner that is kept and exported."""

from __future__ import annotations

import json
import re

import pytest

from app.settings.defaults import Defaults
from tests.app.ui.chatting import ask, go

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


@pytest.fixture
def page(same_page):
    go(same_page, "tune")
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
    first = app.engine.replies
    app.engine.held = lambda reply, number: reply > first  # until it was seen
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".ft-tune .under-way:has-text('replies')")
    app.engine.held = lambda reply, number: False
    page.wait_for_selector(".heatmap [data-kind=chat]")
    leads = page.inner_text(".tune-result")
    assert "so far" not in leads or not re.search(r"\dx", leads), "a figure before the verdict"
    page.wait_for_selector(".ft-tune [data-act=use]")
    over_all = page.locator(".heatmap [data-kind=all]").all_inner_texts()
    assert over_all == sorted(over_all, key=lambda told: -float(told.split("x")[0]))
    assert page.locator(".heatmap tbody tr").count() == 2
    assert page.locator(".heatmap .best").count() >= 5
    assert re.search(r"\dx – \d", page.inner_text(".heatmap [data-kind=all]")), "its spread"
    verdict = page.inner_text(".tune-result .verdict")
    won = re.fullmatch(
        r"Draft model, (auto|depth 4) is about [\d.]+x as fast as no drafting \(5 of 5 runs\)\.",
        verdict,
    )
    assert won is not None
    use = page.locator(".ft-tune [data-act=use]")  # the present default is auto
    assert ("primary" in use.get_attribute("class")) == (won[1] == "depth 4")
    use.click()
    page.wait_for_selector(".tune-told:text-is('Saved as the default.')")
    kept = Defaults(app.data_dir).of(app.engine.loaded)
    assert kept is not None and kept.winner.proposer == "draft"
    with page.expect_download() as downloading:
        page.click(".ft-tune [data-act=export]")
    value = json.loads(downloading.value.path().read_text())
    assert value["winners"]["all"]["proposer"] == "draft"
    page.reload()
    go(page, "tune")
    page.wait_for_selector(".ft-tune [data-act=use]")
    assert page.locator(".heatmap tbody tr").count() == 2
    assert "Default for this model: Draft model" in page.inner_text(".ft-tune form")
    page.click(".ft-tune [data-act=forget]")
    page.wait_for_selector(".ft-tune form:has-text('has no measured default')")
    assert Defaults(app.data_dir).of(app.engine.loaded) is None


def test_how_long_it_takes_is_said_before_the_start_once_a_reply_told_the_speed(page):
    page.get_by_role("link", name="Chat", exact=True).click()
    ask(page, "100 tokens")
    go(page, "tune")
    start = page.locator(".ft-tune [data-act=start]:has-text('Find the fastest · about')")
    start.wait_for()
    quick = start.inner_text()
    if page.locator(".ft-tune form details:not([open])").count():
        page.click(".ft-tune form summary")
    page.locator(".ft-tune [name=effort]").select_option("thorough")
    page.wait_for_function(
        "told => document.querySelector('.ft-tune [data-act=start]').textContent !== told",
        arg=quick,
    )


def test_it_can_be_stopped_and_mistakes_are_told_there(page, app):
    first = app.engine.replies
    app.engine.held = lambda reply, number: reply > first  # until it is stopped
    only(page, "draft", 4)
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".ft-tune .under-way:has-text('replies')")
    go(page, "race")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".ft-race .ft-error:has-text('Another measurement is running')")
    go(page, "tune")
    page.click(".ft-tune [data-act=stop]")
    page.wait_for_selector(".ft-tune .ft-error:has-text('Stopped before any result')")
    app.engine.held = lambda reply, number: False
    page.locator(".ft-tune input[value=draft]").uncheck()
    page.click(".ft-tune [data-act=start]")
    page.wait_for_selector(".ft-tune .ft-error:has-text('at least one method')")
