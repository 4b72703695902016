"""The chat page in a real browser, over a service that recites known replies."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.app.ui.chatting import (
    DONE,
    ask,
    forget_settings,
    go,
    hold_first,
    open_settings,
    send,
    send_endless,
)
from tests.app.ui.conftest import VIEWPORT

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


def test_a_message_is_answered_with_its_statistics_below(page):
    ask(page, "What is it?")
    body = page.locator(".msg.assistant .body")
    assert body.inner_text().startswith("Speculative decoding lets a small")
    assert body.inner_text().strip().endswith("only sooner.")
    stats = page.locator(".msg.assistant .figures")
    stats.get_by_role("button", name="More figures").click()
    for name in (
        "tokens_per_s",
        "acceptance_rate",
        "mean_acceptance_length",
        "time_to_first_token_s",
    ):
        assert re.search(r"\d", stats.locator(f"[data-stat={name}]").text_content())


def test_the_line_below_a_reply_stays_one_line(page):
    """A long name and the speeds filled it, and the icons went below. Each figure behind the "i" began
    with a dot."""
    page.set_viewport_size({"width": 1280, "height": 800})
    ask(page, "Hi")
    foot = page.locator(".msg.assistant .foot")
    name = foot.locator(".writer")
    name.evaluate("each => { each.textContent = 'Qwen2.5 Coder 1.5B + 0.5B '.repeat(9) }")
    assert foot.bounding_box()["height"] < 40
    assert name.evaluate("each => each.scrollWidth > each.clientWidth")
    inside = foot.locator(".actions").bounding_box()
    box = foot.bounding_box()
    assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1
    foot.get_by_role("button", name="More figures").click()
    first = page.locator(".more-figures li").first
    assert first.evaluate("each => getComputedStyle(each, '::before').content") in (
        "none",
        "normal",
    )


def test_stop_ends_the_reply_and_keeps_what_was_written(page, app):
    send_endless(page, app)
    page.wait_for_function("document.querySelector('.lanes').dataset.rounds > 3")
    page.click(".composer .stop")
    page.wait_for_selector(".msg.assistant[data-status=cancelled]")
    assert "Stopped" in page.locator(".msg.assistant .state").inner_text()
    assert page.locator(".msg.assistant .body").inner_text().startswith("word0")
    page.wait_for_selector(".composer .send")


def test_escape_stops_too(page, app):
    send_endless(page, app)
    page.wait_for_function("document.querySelector('.lanes').dataset.rounds > 3")
    page.keyboard.press("Escape")
    page.wait_for_selector(".msg.assistant[data-status=cancelled]")


def test_what_is_written_anew_becomes_a_branch_that_the_keys_reach(page):
    """An edit once deleted every later turn, and a retry the reply."""
    ask(page, "What is it?")
    ask(page, "And a second question?")
    first = page.locator(".msg.assistant").first
    page.locator(".msg.assistant").last.locator("[data-action=retry]").click()
    page.wait_for_selector(".msg.assistant .branches:has-text('2/2')")
    page.wait_for_function(
        "document.querySelectorAll('.msg.assistant[data-status=done]').length === 2"
    )
    page.locator(".msg.user").first.hover()
    page.locator(".msg.user [data-action=edit]").first.click()
    page.fill(".editor", "markdown please")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.msg.user').length === 1")
    page.wait_for_selector(DONE)
    assert first.locator("h1").inner_text() == "A round, step by step"
    assert page.locator(".writer").get_attribute("title") == "Pip · Draft model, auto"
    page.locator(".msg.user .branches [data-branch=before]").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.msg.user').length === 2")
    shown = page.locator(".branches").all_inner_texts()
    assert [each.strip() for each in shown] == ["1/2", "2/2"]
    assert page.evaluate("document.activeElement.dataset.branch") == "after"
    page.reload()
    page.wait_for_function("document.querySelectorAll('.msg.user').length === 2")
    page.locator("[data-branch=after]").first.click()
    page.wait_for_function("document.querySelectorAll('.msg.user').length === 1")
    assert first.locator("h1").inner_text() == "A round, step by step"
    page.wait_for_selector("body[data-controls=ready]")


def test_what_is_deleted_can_be_taken_back(page):
    ask(page, "What is it?")
    ask(page, "And a second question?")
    page.set_viewport_size({"width": 1280, "height": 400})
    # The page learns of its size later: scrolled before that it had nothing to scroll, and told nobody.
    page.wait_for_function("document.querySelector('.messages').scrollTop > 48")
    page.evaluate("document.querySelector('.messages').scrollTop = 0")
    newest = page.locator(".messages-frame .newest")
    newest.wait_for()
    page.click("[data-action=clear]")
    page.wait_for_selector(".empty")
    assert newest.is_hidden()
    page.set_viewport_size(VIEWPORT)
    page.click(".toast button:has-text('Undo')")
    page.wait_for_function("document.querySelectorAll('.msg').length === 4")
    page.locator(".msg.user").last.hover()
    page.locator(".msg.user [data-action=delete]").last.click()
    page.wait_for_selector(".toast:has-text('Deleted this message and 1 after it')")
    page.wait_for_function("document.querySelectorAll('.msg').length === 2")
    current = page.locator(".chat-list li.current")
    current.hover()
    current.get_by_title("Delete").click()
    page.wait_for_selector(".empty")
    page.focus(".composer textarea")
    page.keyboard.type("abc")
    page.keyboard.press("Control+z")  # the browser's own, in a text
    assert page.locator(".msg").count() == 0
    page.fill(".composer textarea", "")
    page.focus(".messages")
    page.keyboard.press("Control+z")
    page.wait_for_function("document.querySelectorAll('.msg').length === 2")
    page.keyboard.press("Control+z")
    page.wait_for_function("document.querySelectorAll('.msg').length === 4")


def test_what_is_written_is_kept_for_each_chat(page):
    ask(page, "What is it?")
    page.fill(".composer textarea", "Half a thought")
    page.set_input_files(
        ".composer input[type=file]",
        [{"name": "notes.md", "mimeType": "text/markdown", "buffer": "# Näht".encode()}],
    )
    page.wait_for_selector(".composer .file:has-text('notes.md')")
    page.click("[data-action=new]")
    page.wait_for_selector(".empty")
    assert page.input_value(".composer textarea") == ""
    page.fill(".composer textarea", "Another one")
    page.go_back()
    page.wait_for_selector(DONE)
    page.reload()
    page.wait_for_selector(DONE)
    assert page.input_value(".composer textarea") == "Half a thought"
    page.wait_for_selector("body[data-controls=ready]")
    page.focus(".composer textarea")
    page.keyboard.press("Enter")
    page.locator(DONE).nth(1).wait_for()
    chip = page.locator(".msg.user .file")
    chip.locator("summary").click()
    assert chip.locator("pre").inner_text() == "# Näht"
    assert page.locator(".composer .file").count() == 0
    page.set_input_files(
        ".composer input[type=file]",
        [{"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG\0"}],
    )
    page.wait_for_selector(".notice [role=alert]:has-text('picture a.png')")
    page.click("[data-action=new]")
    assert page.input_value(".composer textarea") == "Another one"
    page.fill(".composer textarea", "One\ntwo\nthree\nfour\nfive")
    go(page, "plan")
    page.reload()
    go(page, "chat")
    page.wait_for_function("document.querySelector('.composer textarea').value.endsWith('five')")
    scrolled = "(box) => box.scrollHeight - box.clientHeight"
    assert page.locator(".composer textarea").evaluate(scrolled) == 0
    page.fill(".composer textarea", "")


def test_a_full_chat_asks_what_to_leave_out(page):
    for number in range(3):
        ask(page, f"Turn {number} " + "word " * 1100)
    page.wait_for_selector(".context-meter[data-state=nearly]")
    send(page, "Last one " + "word " * 1100)
    page.wait_for_selector("dialog.fitting[open]:has-text('context holds 4,096')")
    assert page.locator(".turns li").count() == 3
    page.keyboard.press("Escape")
    assert page.input_value(".composer textarea").startswith("Last one word")
    page.focus(".composer textarea")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog.fitting[open]")
    page.locator(".turns input").nth(1).check()
    page.click("[data-act=chosen]")
    page.locator(DONE).nth(3).wait_for()
    left_out = page.locator(".msg.user.left-out")
    assert left_out.locator(".body").inner_text().startswith("Turn 1")
    left_out.scroll_into_view_if_needed()  # far from the view it is its text alone
    left_out.locator("[data-action=give]").click()
    left_out.wait_for(state="detached")
    send(page, "One more")
    page.click("[data-act=oldest]")
    page.locator(DONE).nth(4).wait_for()
    assert page.locator(".msg.user.left-out .body").first.inner_text().startswith("Turn 0")


def test_a_second_request_is_told_that_it_waits(page, app, browser):
    send_endless(page, app)
    page.wait_for_function("document.querySelector('.lanes').dataset.rounds > 1")
    other = browser.new_page()
    other.goto(app.url)
    other.wait_for_selector(".composer textarea")
    other.wait_for_selector(".empty")
    send(other, "What is it?")
    other.wait_for_selector("text=1 request ahead")
    page.click(".composer .stop")
    other.wait_for_selector(DONE)
    other.close()


def test_mistakes_are_told_in_the_page_and_the_app_goes_on(page, app):
    page.click(".composer .send")
    assert "message is empty" in page.locator(".notice [role=alert]").inner_text()

    page.fill(".composer textarea", "word " * 5000)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('.notice [role=alert]')?.textContent.includes('tokens')"
    )
    assert "context holds 4,096" in page.locator(".notice [role=alert]").inner_text()
    assert page.locator(".composer textarea").input_value().startswith("word word")

    loaded, app.engine.loaded = app.engine.loaded, None
    send(page, "What is it?")
    page.wait_for_function(
        "document.querySelector('.notice [role=alert]')?.textContent.includes('No model')"
    )
    app.engine.loaded = loaded

    ask(page, "fail please", status="failed")
    assert "asked to fail" in page.locator(".msg.assistant .ft-error").inner_text()
    ask(page, "What is it?")
    assert page.locator(".notice [role=alert]").is_hidden()


def test_the_chat_that_was_chosen_last_is_shown(page):
    """Of two that were chosen soon after each other, the one whose answer came last was."""
    for text in ("The slow one", "The quick one"):
        page.click("[data-action=new]")
        ask(page, text)
    page.click("[data-action=new]")
    held = hold_first(page, "open_chat")
    with page.expect_request(lambda asked: '"open_chat"' in (asked.post_data or "")):
        page.locator(".chat-list .open").nth(1).click()
    page.locator(".chat-list .open").first.click()
    page.locator(".msg.user:has-text('The quick one')").wait_for()
    with page.expect_response(lambda answer: '"open_chat"' in (answer.request.post_data or "")):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done, 100))")  # it would be drawn by then
    assert page.locator(".msg.user .body").all_inner_texts() == ["The quick one"]
    page.unroute_all()


def test_chats_are_listed_renamed_and_deleted(page):
    """Titles were cut at 20 characters, and those from right to left at the wrong end."""
    ask(page, "What is it?")
    page.click("[data-action=new]")
    page.wait_for_selector(".empty")
    ask(page, "A second chat")
    titles = page.locator(".chat-list .open").all_inner_texts()
    assert titles[:2] == ["A second chat", "What is it?"]
    page.locator(".chat-list li").nth(1).hover()
    page.locator(".chat-list li").nth(1).get_by_title("Rename").click()
    page.fill(".rename", "Rename")
    composing = {"key": "Enter", "isComposing": True, "bubbles": True}
    page.dispatch_event(".rename", "keydown", composing)  # an input method's, which takes a word
    page.keyboard.type("d")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chat-list .open:has-text('Renamed')")
    for title, direction in (("Renamed to what takes two lines", "ltr"), ("שלום " * 20, "rtl")):
        page.locator(".chat-list li").nth(1).hover()
        page.locator(".chat-list li").nth(1).get_by_role("button", name="Rename:").click()
        page.fill(".rename", title)
        page.keyboard.press("Enter")
        page.mouse.move(0, 0)
        seen = page.locator(".chat-list .open").nth(1)
        expect(seen).to_have_text(title.strip())
        assert seen.evaluate("(n) => getComputedStyle(n).direction") == direction
        cut = seen.evaluate("(n) => n.scrollHeight > n.clientHeight + 1")
        assert cut == (direction == "rtl"), "the longer one alone is cut, at its end"
    page.locator(".chat-list li.current").hover()
    page.locator(".chat-list li.current").get_by_title("Delete").click()
    page.wait_for_selector(".empty")
    page.click(".chat-list .open:has-text('שלום')")
    page.wait_for_selector(DONE)
    assert page.locator(".msg.user .body").inner_text() == "What is it?"


def test_the_panel_is_kept_and_its_values_reach_the_engine(page, app):
    open_settings(page)
    page.locator("#max-tokens input").fill("7")
    ask(page, "What is it?", status="length")
    assert "7-token limit" in page.locator(".msg.assistant .state").inner_text()
    page.reload()
    page.wait_for_selector(".msg.assistant")
    page.wait_for_function("document.querySelector('#max-tokens input')?.value === '7'")
    forget_settings(page)


def test_no_page_scrolls_sideways(page):
    drawn = {
        "Chat": ".composer .send",
        "Models": "tr.model-row >> nth=0",
        "Server": "#server-page [role=switch]",
    }
    for width in (1280, 800):
        page.set_viewport_size({"width": width, "height": 800})
        for name, part in drawn.items():
            go(page, name.lower())
            page.locator(part).wait_for()
            check_width(page, width)


def check_width(page, width: int) -> None:
    wide = page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll('.ft-page, .ft-page *')]
          .filter((n) => n.scrollWidth > n.clientWidth + 1 && n.clientWidth > 0
            && ['auto', 'scroll'].includes(getComputedStyle(n).overflowX))
          .map((n) => n.id || n.className)"""
    )
    assert wide == []
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.ft-page *')]"
        ".filter((n) => n.offsetParent).map((n) => n.getBoundingClientRect().right))"
    )
    assert right <= width + 1


def test_the_same_mistake_is_told_each_time(page):
    open_settings(page)
    page.locator("#max-tokens input").fill("0")
    for _ in range(2):
        page.fill(".composer textarea", "What is it?")
        page.keyboard.press("Enter")
        page.wait_for_selector(".notice [role=alert]:has-text('max_tokens')")
        assert page.input_value(".composer textarea") == "What is it?"
    forget_settings(page)
    ask(page, "What is it?")
    assert page.locator(".notice [role=alert]").is_hidden()


def test_a_message_sent_before_the_last_chat_is_shown_is_answered(browser, app):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    held = []

    def hold_boot(route) -> None:
        if '"boot"' in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route(lambda url: "component_server" in url, hold_boot)
    page.goto(app.url)
    page.wait_for_selector("body[data-controls=ready]")
    send(page, "What is it?")
    while not held:
        page.wait_for_timeout(20)  # the test's own limit ends it
    (boot,) = held
    with page.expect_response(lambda answer: '"boot"' in (answer.request.post_data or "")):
        boot.continue_()
    page.wait_for_selector(DONE)
    page.wait_for_timeout(200)  # the late answer must not wipe what is there by now
    assert page.locator(".msg.user").count() == 1
    context.close()


@pytest.mark.parametrize("arrives", ["before the reload", "after it", "never"])
def test_a_page_reloaded_while_it_asks_shows_the_one_reply(page, app, arrives):
    """It opened a new chat with the message in its box, though the reply was written in another."""
    asked = []

    def lose_answer(route) -> None:
        if '"act"' in (route.request.post_data or ""):
            asked.append(route)
            if len(asked) == (1 if arrives == "before the reload" else 2) and arrives != "never":
                asked[0].fetch()  # nobody hears the answer
            if len(asked) == 1:
                return
        route.continue_()

    with app.store() as store:
        before = len(store.chats())
    for number, text in enumerate(("What is it?", "And a second question?")):
        asked.clear()
        page.route("**/component_server/", lose_answer)
        page.fill(".composer textarea", text)
        page.keyboard.press("Enter")
        while not asked:
            page.wait_for_timeout(20)  # the test's own limit ends it
        page.reload()
        page.locator(DONE).nth(number).wait_for()
        page.wait_for_selector("body[data-controls=ready]")
        page.unroute("**/component_server/")
        page.wait_for_url("**/chat/*")
        said = page.locator(".msg.user .body").all_inner_texts()
        assert (len(said), said[-1]) == (number + 1, text)
        assert page.input_value(".composer textarea") == ""
        assert len(asked) == (1 if arrives == "before the reload" else 2)
    with app.store() as store:
        assert len(store.chats()) == before + 1


def test_a_second_message_sent_before_the_first_is_answered_stays_in_its_chat(page):
    """It went to a new chat of its own, which nobody saw."""
    held = []

    def hold_first(route) -> None:
        if '"act"' in (route.request.post_data or "") and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/component_server/", hold_first)
    send(page, "First?")
    while not held:
        page.wait_for_timeout(20)  # the test's own limit ends it
    send(page, "Second?")
    held[0].continue_()
    page.locator(DONE).nth(1).wait_for()
    page.unroute("**/component_server/")
    assert page.locator(".msg.user .body").all_inner_texts() == ["First?", "Second?"]


def test_a_page_whose_chat_went_on_in_another_shows_what_was_said_there(page, app):
    """It showed its own messages alone, though the model was given the others too."""
    first, second = page, page.context.new_page()
    ask(first, "First?")
    second.goto(app.url)
    second.wait_for_selector("body[data-controls=ready]")
    second.wait_for_selector(DONE)  # the chat shown last, by what the browser remembers
    ask(second, "Second?")
    send(first, "Third?")
    first.wait_for_function("document.querySelectorAll('.msg.user').length === 3")
    said = first.locator(".msg.user").all_inner_texts()
    assert [text.strip().splitlines()[0] for text in said] == ["First?", "Second?", "Third?"]
    first.locator(DONE).nth(2).wait_for()
    first.fill(".composer textarea", "Half a thought")
    loaded, app.engine.loaded = app.engine.loaded, None  # the other's next status erased the draft
    second.evaluate("window.Foretoken.refresh()")
    second.locator(".badge", has_text="No model").wait_for()
    app.engine.loaded = loaded
    first.reload()
    first.wait_for_selector("body[data-controls=ready]")
    assert first.input_value(".composer textarea") == "Half a thought"
    first.fill(".composer textarea", "")
    second.close()


def scroll_a_little(page) -> None:
    """A window so high that the conversation is 8 px higher than its place, and at its end."""
    spare = page.evaluate(
        """() => {
          const log = document.querySelector(".messages");
          const end = log.querySelector(".msg:last-child").getBoundingClientRect().bottom;
          const padding = parseFloat(getComputedStyle(log).paddingBottom);
          return log.getBoundingClientRect().bottom - end - padding;
        }"""
    )
    page.set_viewport_size({"width": 1280, "height": int(800 - spare - 8)})
    page.wait_for_function("document.querySelector('.messages').scrollTop > 4")


def test_an_edited_message_is_not_lost(page, app):
    """The form closed first; then the edit was refused, or not even asked for."""
    ask(page, "Hi")
    scroll_a_little(page)
    page.hover(".msg.user")
    page.click(".msg.user [data-action=edit]")
    page.wait_for_timeout(100)  # it was scrolled after it was drawn
    top = page.locator(".messages").bounding_box()["y"]
    assert page.locator(".editor").bounding_box()["y"] >= top, "the end was followed past it"
    page.set_viewport_size(VIEWPORT)
    page.fill(".msg.user .editor", "word " * 9000)
    page.click(".editing button[type=submit]")
    page.wait_for_selector(".notice:has-text('context')")
    assert page.input_value(".msg.user .editor").startswith("word word")

    page.fill(".msg.user .editor", "Edited")
    send_endless(page, app)
    page.wait_for_selector(".msg.assistant.running")
    assert page.locator(".msg [data-action=retry]:visible").count() == 0
    page.click(".editing button[type=submit]")
    page.wait_for_selector(".notice:has-text('Stop the current reply first')")
    assert page.input_value(".msg.user .editor") == "Edited"
    page.keyboard.press("Escape")
    page.click(".stop")
    page.wait_for_selector(".msg.assistant[data-status=cancelled]")


def test_a_message_is_sent_though_the_browser_has_no_room_for_its_draft(page):
    """One of some megabytes was never sent, nor was any after it."""
    page.evaluate(
        """() => {
          let full = "";
          for (let n = 2 ** 22; n >= 1; n /= 2)
            try { localStorage.setItem("full", full + "x".repeat(n)); full += "x".repeat(n); } catch {}
          localStorage.setItem("full", full.slice(300));
        }"""
    )
    ask(page, "Is there room? " * 40)
    page.evaluate("localStorage.removeItem('full')")
