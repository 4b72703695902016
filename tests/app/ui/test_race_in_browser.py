"""The race page in a real browser: pairs, verdicts, replays, and where words part."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.app.ui.chatting import ask, go, hold_first
from tests.support.model_server import Played, playing, said, sse

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


@pytest.fixture
def page(app, same_page):
    app.engine.seconds_a_round = 0.001
    go(same_page, "race")
    same_page.wait_for_selector(".race-form [data-act=start]:enabled")
    if same_page.locator(".race-form details:not([open])").count():
        same_page.click(".race-form summary")
    for side, method in (("base", "none"), ("rival", "draft")):
        choose(same_page, side, method=method, rule="auto", temperature="0")
    return same_page


def choose(page, side: str, **values: str) -> None:
    for part, value in values.items():
        control = page.locator(f"[name={side}-{part}]")
        if part == "temperature":
            control.fill(value)
        else:
            control.select_option(value)


def race(page, prompt: str) -> None:
    page.locator("[name=source]").select_option("prompt")
    page.locator("[name=prompt]").fill(prompt)
    page.click("[data-act=start]")


def statistics(page):
    """What is folded below the verdict."""
    page.wait_for_selector(".race-result summary")
    if page.locator(".race-result details:not([open])").count():
        page.click(".race-result summary")
    return page.locator(".race-result details")


def ended(page) -> None:
    page.wait_for_selector(".under-way", state="detached")


LABELS = """() => {
  window.labels = new Set();
  new MutationObserver(() => {
    const button = document.querySelector(".replays [data-transport=play]");
    if (button) window.labels.add(button.ariaLabel);
  }).observe(document.body, { subtree: true, childList: true, attributes: true });
}"""
"""Collects what the replay's button said at any time."""


def test_five_pairs_give_a_verdict_that_can_be_repeated_and_outlive_a_reload(page, app):
    app.engine.seconds_a_round = 0.004  # a replay that can be seen to play
    first, seen = app.engine.replies, set()
    run_1, run_10 = {"base": first + 2, "rival": first + 3}, first + 2 + 18  # behind two to warm up
    waiting = {*run_1.values(), run_10}
    app.engine.held = lambda reply, number: number == 3 and reply in waiting - seen
    page.evaluate(LABELS)
    race(page, "What is it?")
    page.wait_for_selector(".under-way:has-text('Run 1 of 5')")
    for lane, reply in run_1.items():
        shown = page.locator(f"[data-lane={lane}]")
        expect(shown.locator(".body")).to_contain_text("Speculative decoding")
        expect(shown.locator(".lane-speed")).to_have_text(re.compile(r"[1-9]"))
        seen.add(reply)
    ended(page)
    # The replay comes first, and plays by itself.
    panes = page.locator(".replays .replay-pane")
    assert panes.count() == 2
    page.wait_for_function("window.labels.has('Pause')")
    page.wait_for_function(
        "() => document.querySelectorAll('.replays .replay-pane')[1].dataset.round !== '0'"
    )
    replays, verdict = (page.locator(each).bounding_box()["y"] for each in (".replays", ".verdict"))
    assert replays < verdict
    page.locator(".replays .scrubber").focus()
    page.keyboard.press("End")
    rounds = [int(pane.get_attribute("data-round")) for pane in panes.all()]
    assert rounds[0] > rounds[1] > 1, "without drafting the same text takes more rounds"
    assert all("cheap draft" in text for text in panes.all_inner_texts())
    told = page.inner_text(".verdict")
    assert re.fullmatch(
        r"Draft model, auto is about [\d.]+x as fast as no drafting \(5 of 5 runs\)\.", told
    )
    assert "94\u00a0% confidence" in page.inner_text(".race-result")
    assert page.get_attribute("[data-identical]", "data-identical") == "true"
    assert page.locator(".race-result details:not([open])").count() == 1, "statistics are folded"
    folded = statistics(page)
    assert folded.locator(".dots .dot").count() == 5
    assert folded.locator("tbody tr").count() == 5
    page.reload()
    page.wait_for_selector(".verdict:has-text('runs')")
    assert page.inner_text(".verdict") == told
    page.locator("[name=prompt]").fill("Another, which this result is not about")
    about = page.inner_text(".race-about")
    assert "“What is it?”, up to 128 tokens per reply, seed" in about
    page.click("[data-act=more]")
    page.wait_for_selector(".under-way:has-text('Run 10 of 10')")
    seen.add(run_10)
    ended(page)
    assert "of 10 runs" in page.inner_text(".verdict")
    assert statistics(page).locator(".dots .dot").count() == 10


def test_two_that_are_alike_are_refused_and_a_verdict_stands_once(page):
    choose(page, "rival", method="none")
    assert page.locator("[name=rival-depth]").is_disabled()
    race(page, "What is it?")
    page.wait_for_selector(".ft-race .ft-error:has-text('Both sides are the same')")
    assert page.locator(".under-way").count() == 0
    choose(page, "rival", method="draft")
    race(page, "What are these?")
    page.wait_for_selector(".race-about:has-text('What are these?')")  # not the last race's result
    page.wait_for_selector(".verdict:has-text('runs')")
    ended(page)
    assert page.locator("#race-page").inner_text().count(page.inner_text(".verdict")) == 1
    statistics(page)
    page.set_viewport_size({"width": 390, "height": 844})  # where these words were hidden once
    assert [way.is_visible() for way in page.locator(".dots .way").all()] == [True, True]


def test_where_words_part_both_tokens_and_the_targets_likeliest_are_shown(page, app):
    app.engine.runner_up = (" otherwise", 0.49)
    race(page, "differ please")
    page.wait_for_selector("[data-cause]")
    assert page.get_attribute("[data-cause]", "data-cause") == "numerical tie"
    told = page.inner_text(".parting")
    assert "Token 6" in told and "otherwise" in told and "49\u00a0%" in told and "51\u00a0%" in told
    app.engine.runner_up = (" otherwise", 0.1)
    ended(page)
    race(page, "differ again")
    page.wait_for_selector("[data-cause=bug]")


def test_under_rejection_a_difference_is_expected_and_said(page):
    for side in ("base", "rival"):
        choose(page, side, rule="rejection", temperature="1")
    choose(page, "rival", depth="4")
    race(page, "differ please")
    page.wait_for_selector("[data-identical=false]:has-text('as expected')")
    assert page.locator(".parting").count() == 0
    ended(page)
    choose(page, "rival", depth="auto")
    race(page, "differ please")
    page.wait_for_selector(".race-words.may:has-text('The text is not compared')")
    ended(page)
    texts = statistics(page).locator("tbody td:last-child").all_inner_texts()
    assert texts == ["–"] * 5
    assert page.is_hidden(".ft-race .ft-error")


def test_a_stopped_race_keeps_its_pairs_and_goes_on(page, app):
    choose(page, "rival", method="ngram", depth="3")
    run_2 = app.engine.replies + 4  # behind two to warm up
    app.engine.held = lambda reply, number: reply == run_2  # until it is stopped
    other = page.context.new_page()  # it showed no Stop, and its Start was refused
    other.goto(page.url)
    other.wait_for_selector(".race-form [data-act=start]:enabled")
    race(page, "What is it?")
    page.wait_for_selector(".under-way:has-text('Run 2 of 5')")
    other.click(".race-form [data-act=start]")
    other.wait_for_selector(".under-way [data-act=stop]")
    other.close()
    page.reload()  # its form turned to the chat's settings, whatever ran
    page.wait_for_selector(".under-way:has-text('Run')")
    assert page.input_value("[name=rival-method]") == "ngram"
    assert (page.input_value("[name=rival-depth]"), page.input_value("[name=prompt]")) == (
        "3",
        "What is it?",
    )
    page.click("[data-act=stop]")
    ended(page)
    assert "Too early for a verdict: 1 of at least 5 runs" in page.inner_text(".verdict")
    assert "Stopped; the finished runs are kept." in page.inner_text(".race-result")
    app.engine.seconds_a_round = 1.0
    page.click("[data-act=more]")
    page.wait_for_selector(".under-way:has-text('Run 2 of 6')")
    app.engine.seconds_a_round = 0.001
    ended(page)
    assert statistics(page).locator(".dots .dot").count() == 6
    assert "too busy" in page.inner_text(".verdict")
    assert "changed 1000-fold between equal runs" in page.inner_text(".race-result")
    app.engine.seconds_a_round = 1.0
    race(page, "What is it?")
    page.wait_for_selector(".under-way:has-text('Warming up')")
    page.click("[data-act=stop]")
    ended(page)
    page.wait_for_selector(
        ".ft-race .ft-error:has-text('Stopped before the first run was finished')"
    )
    app.engine.seconds_a_round = 0.001


def test_mistakes_and_failures_are_told_where_the_race_was_started(page, monkeypatch):
    race(page, " ")
    page.wait_for_selector(".ft-race .ft-error:has-text('is empty')")
    race(page, "fail")
    page.wait_for_selector(".ft-race .ft-error:has-text('asked to fail')")
    assert page.is_enabled(".race-form [data-act=start]")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    with playing(Played(key="secret")) as locked:
        page.locator(".race-place [name=place]").select_option("elsewhere")
        page.fill(".race-place [name=address]", locked.url)
        page.keyboard.press("Tab")
        page.click(".race-place .ft-error a:has-text('Models page')")  # where its key is given
        page.wait_for_url("**/models")
    page.go_back()
    page.locator(".race-place [name=place]").select_option("")


def test_own_prompts_are_raced_once_there_are_some(page, app):
    page.reload()  # its form is untouched then, and follows what the chats hold
    page.wait_for_selector(".race-form [value=chats]:disabled", state="attached")
    page.get_by_role("link", name="Chat", exact=True).click()
    ask(page, "What is it?")
    go(page, "race")
    page.wait_for_selector(".race-form [value=chats]:enabled", state="attached")
    page.locator("[name=source]").select_option("chats")
    assert page.is_hidden("[name=prompt]")
    page.click(".race-form [data-act=start]")
    page.wait_for_selector(".verdict:has-text('5 of 5 runs')")


def test_a_server_is_raced_against_what_is_loaded_and_what_is_unknown_is_said(
    page, app, monkeypatch
):
    """Another place than the loaded pair was for the command line alone."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    timings = {"predicted_n": 3, "predicted_ms": 3.0}
    stream = sse(*said("Hello", " there"), {"choices": [], "timings": timings})
    models = ({"id": "qwen", "owned_by": "llamacpp"},)
    with playing(Played(models=models, stream=stream)) as llama:
        page.locator(".race-place [name=place]").select_option("elsewhere")
        page.fill(".race-place [name=address]", llama.url)
        page.keyboard.press("Tab")
        page.wait_for_selector(".race-place .ft-hint:has-text('does not report its rounds')")
        assert page.locator("[name=base-method] option").all_inner_texts() == ["Server default"]
        assert page.is_disabled("[name=base-depth]")
        app.engine.seconds_a_round = 1.0  # until it is stopped
        race(page, "What is it?")
        page.wait_for_selector(".under-way")
        page.reload()
        page.wait_for_selector(".race-place [name=address]")
        assert page.input_value(".race-place [name=address]") == llama.url
        page.wait_for_selector(".race-place .ft-hint:has-text('does not report its rounds')")
        page.click("[data-act=stop]")
        ended(page)
        app.engine.seconds_a_round = 0.001
        race(page, "What is it?")
        page.wait_for_selector("[data-lane=base] h3:has-text('qwen on 127.0.0.1')")
        page.wait_for_selector(".verdict:has-text('(5 of 5 runs)')")
        ended(page)
    assert "qwen on 127.0.0.1" in page.inner_text(".verdict")
    assert "does not report its rounds" in page.inner_text(".race-notes")
    page.wait_for_selector("[data-identical=false]:has-text('as expected')")
    assert page.locator(".replays").count() == 0, "there is nothing to replay"
    assert page.locator(".race-lane").count() == 2 and page.locator(".parting").count() == 0
    page.click("[data-act=more]")  # of a server that is gone
    page.wait_for_selector(".ft-race [role=alert]:has-text('127.0.0.1')")
    assert "(5 of 5 runs)" in page.inner_text(".verdict")
    assert page.locator(".dots .dot").count() == 5 and page.is_enabled("[data-act=more]")
    page.fill(".race-place [name=address]", "http://127.0.0.1:9")
    page.keyboard.press("Tab")
    page.wait_for_selector(".race-place .ft-error:has-text('127.0.0.1:9')")
    page.locator(".race-place [name=place]").select_option("")
    assert page.input_value("[name=base-method]") == "none"
    race(page, "What is it?")
    page.wait_for_selector(".verdict:has-text('as fast as no drafting')")
    assert page.is_hidden(".race-notes")


def test_a_press_of_start_that_leaves_the_address_is_not_lost(page):
    """What is told of the address, as it is left, moved the button away from under the press."""
    page.locator("[name=source]").select_option("prompt")
    page.fill("[name=prompt]", "What is it?")
    page.locator(".race-place [name=place]").select_option("elsewhere")
    start = page.locator(".race-form [data-act=start]")
    start.scroll_into_view_if_needed()
    page.fill(".race-place [name=address]", "http://127.0.0.1:9")
    box = start.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    page.mouse.up()
    page.wait_for_selector(".ft-race [role=alert]:has-text('127.0.0.1:9')")
    assert page.locator(".race-lane").count() == 0, "nothing was written"
    page.wait_for_selector(".race-place .ft-error:has-text('127.0.0.1:9')")
    page.fill(".race-place [name=address]", "")
    assert page.is_hidden(".race-place .ft-error"), "of an address that is no more there"
    page.locator(".race-place [name=place]").select_option("")


def test_an_address_that_fails_late_says_nothing_beside_the_next(page):
    page.locator(".race-place [name=place]").select_option("elsewhere")
    held = hold_first(page, "look")
    page.fill(".race-place [name=address]", "http://127.0.0.1:9")
    page.keyboard.press("Tab")
    page.wait_for_selector(".race-place .ft-hint:has-text('Connecting')")
    page.fill(".race-place [name=address]", "http://127.0.0.1:10")
    page.keyboard.press("Tab")
    page.wait_for_selector(".race-place .ft-error:has-text('127.0.0.1:10')")
    with page.expect_response(lambda answer: "127.0.0.1:9" in (answer.request.post_data or "")):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert "127.0.0.1:10" in page.inner_text(".race-place .ft-error")
    page.unroute("**/*")
    page.locator(".race-place [name=place]").select_option("")


def test_what_is_chosen_outlives_an_answer_that_comes_late(fresh_page):
    """Each look at the page asks what can be raced; the first answer comes last."""
    page = fresh_page
    held = hold_first(page, "offer")
    page.reload()
    go(page, "race")
    while not held:
        page.wait_for_timeout(20)  # the test's own limit ends it
    go(page, "chat")
    go(page, "race")
    page.wait_for_selector(".race-form [data-act=start]:enabled")
    page.click(".race-form summary")
    choose(page, "base", temperature="0.3")
    for route in held:
        with page.expect_response(lambda answer: '"offer"' in (answer.request.post_data or "")):
            route.continue_()
    page.wait_for_timeout(200)
    assert page.input_value("[name=base-temperature]") == "0.3"
