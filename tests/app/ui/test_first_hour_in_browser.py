"""What a newcomer meets in the first hour of the chat page, in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from engine.api import NO_TEMPLATE
from engine.loading.request import LoadRequest
from tests.app.ui.chatting import DONE, ask, open_settings, send, stored_settings
from tests.support.fake_engine import Script
from tests.support.fake_rounds import split
from tests.support.recital import recite

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True
LAST = ".msg.assistant:last-child"
THOUGHT = "It asks for **blue** light."
TABLE = "| Algorithm | Stable |\n|---|---|\n| Mergesort | yes |\n\nمرحبا بالعالم\n\n- אחת\n\nEnd."


@pytest.fixture
def page(same_page, app):
    yield same_page
    app.engine.script = recite
    app.engine.load(LoadRequest(target="pip"))


def says(app, text: str) -> None:
    app.engine.script = lambda request: Script(split(text))


def limit(page, tokens: str) -> None:
    open_settings(page)
    with page.expect_response(lambda answer: "keep_settings" in (answer.request.post_data or "")):
        page.fill("#max-tokens input", tokens)
        page.keyboard.press("Tab")
    page.get_by_role("tab", name="Rounds").click()


def test_a_thought_is_folded_counted_and_no_part_of_the_answer(page, app):
    says(app, f"<think>\n{THOUGHT}\n</think>\n\nBlue.")
    ask(page, "Why?")
    head = page.locator(f"{LAST} .thought summary")
    expect(head).to_have_text(re.compile(r"^Thought for [\d.,]+ m?s, \d+ tokens$"))
    assert page.locator(f"{LAST} .thought-text").is_hidden()
    assert page.locator(f"{LAST} .body > .block").all_inner_texts() == ["Blue."]
    head.click()
    expect(page.locator(f"{LAST} .thought-text strong")).to_have_text("blue")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click(f"{LAST} [data-action=copy]")
    assert page.evaluate("navigator.clipboard.readText()") == "Blue."
    page.reload()
    expect(head).to_have_text(re.compile(r"^Thought for [\d.,]+ m?s, \d+ tokens$"))


def test_how_much_to_think_is_chosen_beside_the_message(page, app):
    expect(page.locator(".composer .thinking")).to_be_hidden()
    before = app.engine.capabilities
    app.engine.capabilities = replace(before, thinking=("off", "on"), thinking_budget=True)
    app.engine.load(LoadRequest(target="pip"))
    page.reload()
    asked = []
    app.engine.script = lambda request: (asked.append(request), Script(split("Blue.")))[1]
    switch = page.get_by_label("Thinking", exact=True)
    expect(switch).to_be_visible()
    with page.expect_response(lambda answer: "keep_settings" in (answer.request.post_data or "")):
        switch.select_option("off")
    open_settings(page)
    with page.expect_response(lambda answer: "keep_settings" in (answer.request.post_data or "")):
        page.fill("#thinking-budget input", "40")
        page.keyboard.press("Tab")
    page.get_by_role("tab", name="Rounds").click()
    ask(page, "Why?")
    assert (asked[-1].thinking, asked[-1].thinking_budget) == ("off", 40)
    says(app, "<think>\nIt asks.")
    ask(page, "Why?")
    said = "The reply ended while thinking. Retry, or turn Thinking off."
    expect(page.locator(f"{LAST} .state")).to_have_text(said, use_inner_text=True)
    app.engine.script = lambda request: (asked.append(request), Script(split("Blue.")))[1]
    page.reload()
    expect(switch).to_have_value("off")
    app.engine.capabilities = before
    app.engine.load(LoadRequest(target="pip"))
    page.reload()
    expect(switch).to_be_hidden()
    expect(page.locator(".msg.assistant")).to_have_count(2)
    ask(page, "Why?")
    assert (asked[-1].thinking, asked[-1].thinking_budget) == ("", None)


def test_a_reply_that_ends_while_it_thinks_says_that_and_what_to_do(page, app):
    """It ended with "Thought for 400 ms, 106 tokens", and nothing below."""
    says(app, f"<think>\n{THOUGHT}")
    ask(page, "Why?")
    state = page.locator(f"{LAST} .state")
    expect(page.locator(f"{LAST} .thought summary")).to_contain_text("tokens, cut off")
    said = "The reply ended while thinking. Retry."
    expect(state).to_have_text(said, use_inner_text=True)
    page.reload()
    expect(state).to_have_text(said, use_inner_text=True)
    limit(page, "4")
    ask(page, "Why?", status="length")
    expect(state).to_contain_text("The token limit was reached while thinking.")
    limit(page, "")


def test_a_thought_can_be_read_while_it_is_written_and_its_marks_are_the_texts(page, app):
    says(app, f"<think>\n{THOUGHT} {'And so on. ' * 30}\n</think>\n\nBlue it is.")
    app.engine.held = lambda reply, number: number == 12  # until it was read
    send(page, "Why?")
    head = page.locator(f"{LAST} .thought summary")
    expect(head).to_contain_text("Thinking")
    head.click()
    expect(page.locator(f"{LAST} .thought-text")).to_contain_text("And so on.")
    app.engine.held = lambda reply, number: False
    page.wait_for_selector(DONE)
    page.hover(f"{LAST} .body > .block >> text=Blue")
    marks = page.locator(f"{LAST} .body > .block .mark")
    assert "".join(marks.all_inner_texts()).strip() == "Blue it is."
    page.hover(f"{LAST} .thought-text .block >> text=asks")
    marks = page.locator(f"{LAST} .thought-text .block >> nth=0").locator(".mark")
    assert "".join(marks.all_inner_texts()).startswith("It asks for blue light.")


def test_tables_keep_their_words_whole_and_paragraphs_have_their_own_direction(page, app):
    says(app, TABLE)
    ask(page, "Sort")
    page.set_viewport_size({"width": 390, "height": 844})
    cell = page.locator(f"{LAST} th", has_text="Algorithm")
    assert cell.evaluate("(node) => node.getClientRects()[0].height") < 45, "one line"
    sides = "(node) => getComputedStyle(node).direction"
    assert page.locator(f"{LAST} p", has_text="مرحبا").evaluate(sides) == "rtl"
    assert page.locator(f"{LAST} ul").evaluate(sides) == "rtl"
    assert page.locator(f"{LAST} p", has_text="End.").evaluate(sides) == "ltr"


def test_a_reply_that_met_a_limit_goes_on_in_its_place(page, app):
    limit(page, "7")
    ask(page, "What is it?", status="length")
    expect(page.locator(f"{LAST} .state span")).to_have_text("Stopped at the 7-token limit")
    app.engine.load(LoadRequest(target="smollm2-360m"))
    page.evaluate("window.Foretoken.refresh()")
    expect(page.locator(f"{LAST} [data-action=continue]")).to_be_hidden()  # it could only refuse
    app.engine.load(LoadRequest(target="pip"))
    page.evaluate("window.Foretoken.refresh()")
    expect(page.locator(f"{LAST} [data-action=continue]")).to_be_visible()
    limit(page, "")
    page.click(f"{LAST} [data-action=continue]")
    page.wait_for_selector(DONE)
    assert page.locator(".msg.assistant").count() == 1
    expect(page.locator(f"{LAST} .body")).to_contain_text("only sooner.")
    assert page.locator(f"{LAST} [data-action=continue]").is_hidden()
    rounds = page.get_attribute(".lanes", "data-rounds")
    page.reload()
    page.wait_for_selector(f'.lanes[data-rounds="{rounds}"]')


def test_a_reply_that_fills_the_context_alone_says_what_to_do_instead_of_going_on(page, app):
    """Continue could only refuse."""
    loaded = app.engine.loaded
    try:
        app.engine.loaded = replace(loaded, context=60)
        page.evaluate("window.Foretoken.refresh()")
        ask(page, "Write 200 tokens.", status="length")
        state = page.locator(f"{LAST} .state")
        expect(state).to_have_text(
            re.compile("full. Load a model with a longer context, or start a new")
        )
        assert state.locator("[data-action=continue]").count() == 0
    finally:
        app.engine.loaded = loaded
    page.evaluate("window.Foretoken.refresh()")
    expect(state.locator("[data-action=continue]")).to_be_visible()  # its context is longer


def test_a_reply_of_which_nothing_was_reused_does_not_say_so(page, app):
    ask(page, "Which?")
    for accepted, told in ((5, 1), (0, 0)):
        with app.store() as store:
            reply = store.messages(store.chats()[0].id)[-1]
            counts = {**reply.statistics, "predicted": {"drafted": 23, "accepted": accepted}}
            store.save_reply(
                reply.id, text=reply.text, marks=reply.marks, status="done", statistics=counts
            )
        page.reload()
        expect(page.locator(f"{LAST} .body")).to_contain_text("Speculative")
        expect(page.locator(f"{LAST} .saved:has-text('of 23 tokens')")).to_have_count(told)


def test_a_copy_of_the_reply_before_and_a_short_reply_have_no_times_plain(page):
    ask(page, "Write 60 tokens.")
    page.click(f"{LAST} [data-action=retry]")
    page.wait_for_selector(f"{LAST}[data-status=done] .branches")
    figures = page.evaluate(
        """async () => {
          const { Figures, h, render } = await import(document.querySelector("script[src$='/app.js']").src);
          const root = document.createElement("div");
          const stats = { tokens_per_s: 90, plain_tokens_per_s: 9, speedup: 10, drafted: 50, rounds: 5, completion_tokens: 95 };
          const named = (stats) => (render(h(Figures, { stats }), root), root.textContent);
          const quick = { tokens_per_s: 430, plain_tokens_per_s: 537, speedup: 0.8, completion_tokens: 114 };
          const others = [{ predicted: { drafted: 50, accepted: 50 } }, { completion_tokens: 85 }, quick];
          return [{}, ...others].map((more) => named({ ...stats, ...more }));
        }"""  # noqa: E501
    )
    assert figures[0] == "90.0 tokens/s10x"
    assert figures[1:] == ["90.0 tokens/s", "90.0 tokens/s", "430 tokens/s"]


def test_a_system_prompt_that_is_typed_outlives_a_reload_and_back_to_defaults(page, app):
    open_settings(page)
    page.click("#system-prompt textarea")
    page.keyboard.type("You are a pirate.")
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    box = page.locator("#system-prompt textarea")
    open_settings(page)
    expect(box).to_have_value("You are a pirate.")
    page.click("#defaults")
    expect(box).to_have_value("")
    expect(page.locator("#defaults")).to_have_text("Undo reset")
    page.click("#defaults")
    expect(box).to_have_value("You are a pirate.")
    assert stored_settings(app)["system"] == "You are a pirate."
    page.click("#defaults")
    expect(box).to_have_value("")
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")


def test_what_was_typed_before_back_to_defaults_stays_gone_after_a_reload(page, app):
    open_settings(page)
    box = page.locator("#max-tokens input")
    box.press_sequentially("7")
    page.click("#defaults")
    expect(box).to_have_value("")
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    expect(box).to_have_value("")
    assert stored_settings(app) == {}


def test_an_old_chat_offers_the_model_that_wrote_it(page, app):
    ask(page, "Hi")
    app.engine.load(LoadRequest(target="smollm2-360m"))
    page.evaluate("window.Foretoken.refresh()")
    advice = page.locator(".advice")
    expect(advice).to_contain_text("This chat used Pip.")
    advice.get_by_role("button", name="Load Pip").click()
    expect(advice).to_be_hidden()
    assert app.engine.loaded.target_id == "pip"
    app.engine.load(LoadRequest(target="smollm2-360m"))
    page.evaluate("window.Foretoken.refresh()")
    expect(advice).to_be_visible()
    ask(page, "Go on all the same")
    expect(advice).to_be_hidden()


def test_a_base_model_is_named_as_one_where_people_write(page, app):
    from dataclasses import replace

    app.engine.loaded = replace(app.engine.loaded, notes=(NO_TEMPLATE,))
    page.evaluate("window.Foretoken.refresh()")
    expect(page.locator(".advice")).to_contain_text("is a base model")
    expect(page.locator(".advice button")).to_be_hidden()


def test_another_tab_shows_what_was_said_in_this_one(page):
    ask(page, "Hi")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector(DONE)
    ask(page, "And then?")
    other.evaluate("window.Foretoken.refresh()")
    expect(other.locator(".msg.user")).to_have_count(2)
    other.close()


def test_the_legend_has_the_rows_own_signs_and_goes_where_there_are_none(page, app):
    assert page.locator(".legend").is_hidden()
    ask(page, "Hi")
    for sign in ("cell-kept", "cell-own.correction", "cell-own.bonus"):
        assert page.locator(f".legend .{sign}").count() == 1
        assert page.locator(f".lanes .{sign}").count() > 0
