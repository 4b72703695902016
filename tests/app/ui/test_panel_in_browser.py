"""The chosen proposer's own options, in a real browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fake import CAPABILITIES
from engine.loading.request import LoadRequest
from tests.app.ui.chatting import ask, last_trace

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


def choose(page, name: str) -> None:
    page.locator("#proposer input").click()
    page.get_by_role("option", name=name).click()


def test_options_are_drawn_for_the_chosen_proposer_kept_and_sent(page, app):
    choose(page, "ngram")
    shortest = page.get_by_label("prompt lookup min")
    assert shortest.input_value() == "2"
    shortest.fill("3")
    page.get_by_label("remember").check()
    ask(page, "Hi")
    with app.store() as store:
        kept = store.setting("chat")["options"]["ngram"]
    assert kept == {"prompt_lookup_min": 3, "remember": True}
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    page.wait_for_function(
        "() => document.querySelector('[aria-label=\"prompt lookup min\"]')?.value === '3'"
    )
    assert page.get_by_label("remember").is_checked()
    choose(page, "none")
    shortest.wait_for(state="detached")
    choose(page, "ngram")
    page.get_by_label("prompt lookup max").wait_for()
    assert page.get_by_label("prompt lookup min").input_value() == "3"
    page.click("#defaults")
    shortest.wait_for(state="detached")
    choose(page, "ngram")
    page.get_by_label("prompt lookup max").wait_for()
    assert page.get_by_label("prompt lookup min").input_value() == "2"


def test_a_chosen_proposer_outlives_a_pair_that_lacks_it(page, app):
    def opened(pair: str, proposer: str) -> None:
        app.engine.load(LoadRequest(target=pair))
        page.evaluate("window.Foretoken.refresh()")
        page.wait_for_function(
            "(name) => document.querySelector('#proposer input').value.startsWith(name)",
            arg=proposer,
        )

    poorer, richer = replace(CAPABILITIES, preferred="none"), app.engine.capabilities
    poorer = replace(poorer, proposers=tuple(p for p in poorer.proposers if p.name == "none"))
    choose(page, "ngram")
    page.get_by_label("prompt lookup min").wait_for()
    app.engine.capabilities = poorer
    opened("smollm2-360m", "none")
    page.get_by_text("ngram was chosen, which this pair does not have").wait_for()
    ask(page, "Hi")
    app.engine.capabilities = richer
    opened("pip", "ngram")
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "ngram"
    page.click("#defaults")
    page.get_by_label("prompt lookup min").wait_for(state="detached")


def test_while_nothing_is_loaded_the_panel_says_so_and_fills_once_something_is(page, app):
    loaded, app.engine.loaded = app.engine.loaded, None
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    page.get_by_text("what it offers stands here").wait_for()
    assert page.locator("#proposer input").is_disabled()
    page.get_by_role("tab", name="Race").click()
    page.click("#race-start")
    page.wait_for_selector(".ft-race .ft-error:has-text('No model is loaded')")
    app.engine.loaded = loaded
    page.evaluate("window.Foretoken.refresh()")
    page.wait_for_selector("#race-proposer input:enabled")
    assert page.locator("#race-proposer input").input_value() == "draft"
    page.click("#race-start")
    page.wait_for_selector("[data-speedup]")
