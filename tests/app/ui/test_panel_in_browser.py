"""The chip above the chat and the settings, in a real browser: they follow the pair that is loaded."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from engine.loading.progress import LoadProgress, Stage
from engine.loading.request import LoadRequest
from tests.app.ui.chatting import (
    ask,
    choose_method,
    forget_settings,
    go,
    last_trace,
    load_options,
    open_methods,
    open_pair,
    open_settings,
    stored_settings,
)
from tests.support.fake_engine import CAPABILITIES

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True
LOADING = LoadProgress(Stage.TARGET)


@pytest.fixture
def page(same_page, app):
    app.engine.load(LoadRequest(target="pip"))
    same_page.evaluate("window.Foretoken.refresh()")
    chip_says(same_page, "Pip · Draft model, auto")
    yield same_page
    app.engine.capabilities = CAPABILITIES
    app.engine.load(LoadRequest(target="pip"))
    same_page.evaluate("window.Foretoken.refresh()")
    forget_settings(same_page)
    chip_says(same_page, "Pip · Draft model, auto")


def chip_says(page, text: str) -> None:
    page.wait_for_function(
        "(text) => document.querySelector('.badge-label')?.textContent === text", arg=text
    )


def opened(page, app, request: LoadRequest, says: str) -> None:
    """As when another page has loaded it."""
    app.engine.load(request)
    page.evaluate("window.Foretoken.refresh()")
    chip_says(page, says)


def test_options_are_drawn_for_the_chosen_proposer_kept_and_sent(page, app):
    choose_method(page, "ngram")
    open_settings(page)
    shortest = page.get_by_label("prompt lookup min")
    assert shortest.input_value() == "2"
    shortest.fill("3")
    page.get_by_label("remember").check()
    ask(page, "Hi")
    kept = stored_settings(app)["options"]["ngram"]
    assert kept == {"prompt_lookup_min": 3, "remember": True}
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    open_settings(page)
    page.wait_for_function(
        "document.querySelector('[data-field=prompt_lookup_min] input')?.value === '3'"
    )
    assert page.get_by_label("remember").is_checked()
    choose_method(page, "none")
    shortest.wait_for(state="detached")
    choose_method(page, "ngram")
    assert page.get_by_label("prompt lookup min").input_value() == "3"


def test_what_is_typed_outlives_a_load_and_an_emptied_number_is_not_the_least(page, app):
    open_settings(page)
    page.locator("#system-prompt textarea").press_sequentially("Rhyme")
    with page.expect_response(lambda answer: '"panel"' in (answer.request.post_data or "")):
        opened(page, app, LoadRequest(target="pip", draft=""), "Pip, no draft · N-gram, auto")
    page.locator("#system-prompt textarea").press_sequentially(" always.")
    assert page.input_value("#system-prompt textarea") == "Rhyme always."
    page.locator("#top-p [type=number]").fill("")
    page.locator("#top-p [type=number]").press("Tab")
    page.wait_for_function("document.querySelector('#top-p [type=number]').value === '0.95'")
    while stored_settings(app)["system"] != "Rhyme always.":
        page.wait_for_timeout(20)  # the test's own limit ends it


def test_only_the_fixed_controller_takes_a_depth(page):
    open_settings(page)
    depth = page.locator("#depth")
    assert depth.locator("input[type=range]").is_disabled()
    assert "auto measures the best depth" in depth.inner_text()
    page.select_option("#controller select", "fixed")
    assert depth.locator("input[type=range]").is_enabled()


def test_without_drafting_nothing_of_drafting_can_be_set(page):
    choose_method(page, "none")
    open_settings(page)
    for field, control in (("controller", "select"), ("depth", "input[type=range]")):
        setting = page.locator(f"#{field}")
        assert setting.locator(control).is_disabled()
        assert "Without drafting this has no effect" in setting.inner_text()


def test_a_proposer_follows_the_pair_that_is_loaded(page, app):
    """n-gram once drafted for every pair that was loaded later, and eagle3 refused their messages."""
    eagle = replace(CAPABILITIES.proposers[0], name="eagle3", about="")
    with_head = replace(CAPABILITIES, proposers=(*CAPABILITIES.proposers, eagle), unavailable=())
    app.engine.capabilities = with_head
    opened(page, app, LoadRequest(target="pip"), "Pip · Draft model, auto")
    choose_method(page, "eagle3")
    chip_says(page, "Pip · EAGLE-3 head, auto")
    app.engine.capabilities = CAPABILITIES
    opened(page, app, LoadRequest(target="smollm2-360m"), "SmolLM2 360M + 135M · Draft model, auto")
    told = page.locator(".notice.told")
    told.get_by_text("EAGLE-3 head is unavailable").wait_for()
    assert "head of kind eagle3" in told.inner_text()
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "draft"
    app.engine.capabilities = with_head
    opened(page, app, LoadRequest(target="pip"), "Pip · EAGLE-3 head, auto")
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "eagle3"
    page.reload()
    chip_says(page, "Pip · EAGLE-3 head, auto")


def test_a_model_without_a_draft_answers_and_says_why_draft_is_off(page, app):
    opened(page, app, LoadRequest(target="pip", draft=""), "Pip, no draft · N-gram, auto")
    popover = open_methods(page)
    off = popover.locator("[data-method=draft].off")
    off.get_by_text("needs a draft model").wait_for()
    assert off.locator("input").is_disabled()
    assert popover.locator("[data-method=ngram] input").is_checked()
    popover.get_by_role("link", name="Models").click()  # where there are some
    page.locator("#models-page").wait_for()
    page.go_back()
    popover.wait_for(state="hidden")
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "ngram"


def test_a_page_that_was_not_told_of_the_new_pair_is_answered_and_told(page, app):
    """As a second tab, which asks for what is loaded only when it comes to the front."""
    app.engine.load(LoadRequest(target="pip", draft=""))
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "ngram"
    page.locator(".notice.told").get_by_text("needs a draft model").wait_for()


def test_pickers_show_what_is_loaded_after_every_load(page, app, browser):
    other = page.context.new_page()
    other.goto(app.url)
    other.wait_for_selector("body[data-controls=ready]")
    row = load_options(other, "smollm2-360m")
    assert row.locator("#draft select").input_value() == "smollm2-135m"
    row.locator(".model").click()
    chip_says(other, "SmolLM2 360M + 135M · Draft model, auto")
    other.close()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    chip_says(page, "SmolLM2 360M + 135M · Draft model, auto")
    row = load_options(page, "smollm2-360m")
    row.get_by_text("Loaded").wait_for()
    assert row.locator("#draft select").input_value() == "smollm2-135m"
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    page.keyboard.press("Alt+m")
    page.locator("#pair-popover .loaded[data-model=smollm2-360m]").wait_for()
    page.keyboard.type("qwen3 0.6")
    page.locator("[data-model=smollm2-360m]").wait_for(state="detached")
    assert all("Qwen3" in name for name in page.locator(".model b").all_inner_texts())
    page.keyboard.press("Escape")


def test_the_list_of_models_stays_open_when_another_page_has_loaded_one(page, app):
    seen = threading.Event()
    app.engine.stages = (stage for stage in (LOADING,) if seen.wait(60))
    app.runtime.loader.start(LoadRequest(target="smollm2-360m"))
    page.evaluate("window.Foretoken.refresh()")
    popover = open_pair(page)
    popover.locator(".loading").wait_for()
    seen.set()
    chip_says(page, "SmolLM2 360M + 135M · Draft model, auto")
    popover.locator(".loaded[data-model=smollm2-360m]").wait_for()
    page.keyboard.press("Escape")


def test_a_preset_sets_what_it_says_and_is_sent(page, app):
    open_settings(page)
    page.click("[data-preset=exact]")
    page.wait_for_selector("[data-preset=exact][aria-pressed=true]")
    chip_says(page, "Pip · no drafting")
    ask(page, "Hi")
    assert last_trace(app)[0]["proposer"] == "none"
    open_settings(page)
    page.click("[data-preset=balanced]")
    chip_says(page, "Pip · Draft model, auto")
    page.wait_for_function("document.querySelector('#temperature [type=number]').value === '0.7'")
    ask(page, "Hi")
    assert last_trace(app)[0]["acceptance"] == "coupled"
    page.get_by_label("Top-p").fill("0.5")
    page.wait_for_selector("[data-preset=balanced][aria-pressed=false]")


def test_while_nothing_is_loaded_the_chip_says_so_and_fills_once_something_is(page, app):
    loaded, app.engine.loaded = app.engine.loaded, None
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    go(page, "race")
    page.wait_for_selector(".race-form:has-text('Load one on the Models page')")
    page.get_by_role("link", name="Chat", exact=True).click()
    open_pair(page, "method").get_by_text("Load a model to choose").wait_for()
    page.keyboard.press("Escape")
    app.engine.loaded = loaded
    page.evaluate("window.Foretoken.refresh()")
    go(page, "race")
    page.wait_for_selector(".race-form [data-act=start]:enabled")
    assert page.locator("[name=rival-method]").input_value() == "draft"
    page.get_by_role("link", name="Chat", exact=True).click()


def test_a_system_prompt_has_a_name_and_belongs_to_a_chat(page, app):
    asked = []
    script = app.engine.script
    app.engine.script = lambda request: (asked.append(request), script(request))[1]
    open_settings(page)
    page.fill("#system-prompt textarea", "Rhyme always.")
    page.click("[data-act=name-prompt]")
    page.keyboard.type("Poet")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('[name=chat-system]').value === 'Poet'")
    page.fill("#system-prompt textarea", "")
    ask(page, "Hi")
    page.reload()
    page.wait_for_function("document.querySelector('[name=chat-system]')?.value === 'Poet'")
    page.wait_for_selector("body[data-controls=ready]")
    open_settings(page)
    page.select_option("[name=chat-system]", "")
    ask(page, "Hi")
    page.fill("#system-prompt textarea", "Sing.")
    page.click("[data-act=name-prompt]")
    page.keyboard.type("Bard")
    page.keyboard.press("Enter")  # in a chat that has messages: it was shown as using the default
    page.wait_for_function("document.querySelector('[name=chat-system]').value === 'Bard'")
    page.fill("#system-prompt textarea", "")
    page.click("[data-action=new]")
    page.select_option("[name=chat-system]", "Poet")
    page.click("[data-act=delete-prompt]")
    page.wait_for_selector("[data-act=delete-prompt]", state="hidden")
    app.engine.script = script
    roles = [[message.role for message in request.messages] for request in asked]
    assert roles == [["system", "user"], ["user", "assistant", "user"]]
    assert asked[0].messages[0].content == "Rhyme always."
