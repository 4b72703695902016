"""Long chats in a real browser: what is far from the view is text alone; nothing moves or is lost."""

from __future__ import annotations

import pytest

from app.storage.rows import StoredMessage
from tests.app.ui.chatting import DONE, ask

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

REPLY = "Reply **{n}** guesses, checks and keeps.\n\n- a first `thing`\n- a second one\n\n" + (
    "It goes on for a few more words. " * 6
)


@pytest.fixture
def page(same_page):
    return same_page


def long_chat(app, turns: int) -> int:
    """A chat of so many turns, stored as if it had been held."""
    messages = []
    for n in range(turns):
        text = REPLY.format(n=n)
        marks = " ".join(["a4 a3 c5"] * (len(text) // 12))
        number = {"id": 2 * n + 1, "parent": 2 * n or None}
        messages.append(StoredMessage(chat=0, role="user", text=f"Question {n}?", **number))
        number = {"id": 2 * n + 2, "parent": 2 * n + 1}
        messages.append(StoredMessage(chat=0, role="assistant", text=text, marks=marks, **number))
    with app.store() as store:
        return store.take_chat(f"A chat of {turns} turns", messages)


def show(page, app, chat: int, turns: int) -> None:
    page.goto(f"{app.url}chat/{chat}")
    page.wait_for_selector("body[data-controls=ready]")
    page.wait_for_function("n => document.querySelectorAll('.msg').length === 2 * n", arg=turns)
    page.locator(".msg.assistant").last.locator("strong").wait_for()


def nodes(page) -> int:
    """Nodes that the page has, once what is unused is gone."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    count = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    return count


def settle(page) -> None:
    """Two frames, in which a scroll is seen and drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def top_of(page, n: int) -> float:
    return page.evaluate(
        "n => document.querySelectorAll('.msg.assistant')[n].getBoundingClientRect().top", n
    )


def scroll(page, by: float) -> float:
    """Scrolls the conversation; by how far it went."""
    went = page.evaluate(
        """(by) => {
          const log = document.querySelector('.messages');
          const before = log.scrollTop;
          log.scrollTop += by;
          return log.scrollTop - before;
        }""",
        by,
    )
    settle(page)
    return went


def test_a_chat_of_hundreds_of_messages_takes_hardly_more_than_a_short_one(page, app):
    show(page, app, long_chat(app, 20), 20)
    few = nodes(page)
    show(page, app, long_chat(app, 250), 250)
    many = nodes(page)
    # An article and its text for each of 460 more, and that twice for what is let go of only later.
    assert many - few < 460 * 8
    drawn = page.locator(".msg:not(.far)").count()
    assert 2 < drawn < 60
    text = page.locator(".stack").text_content()
    assert all(f"Question {n}?" in text for n in range(250))
    assert REPLY.format(n=3) in text  # as it was written: it is not drawn


def test_what_is_read_stands_still_while_what_is_near_is_drawn(page, app):
    show(page, app, long_chat(app, 120), 120)
    last = 119
    for _ in range(12):
        seen = page.evaluate(
            """() => [...document.querySelectorAll('.msg.assistant')].findIndex(
              (node) => node.getBoundingClientRect().bottom > 200)"""
        )
        assert page.locator(".msg.assistant").nth(seen).locator("strong").count() == 1
        before = top_of(page, seen)
        went = scroll(page, -700)
        assert top_of(page, seen) - before == pytest.approx(-went, abs=2)
        assert seen <= last
        last = seen
    assert page.locator(".msg.assistant").last.evaluate("node => node.classList.contains('far')")
    scroll(page, -1_000_000)
    assert page.locator(".msg.assistant").first.locator("li").count() == 2
    scroll(page, 1_000_000)
    assert page.locator(".msg.assistant").last.locator("li").count() == 2


def test_what_people_hold_is_not_let_go_of(page, app):
    show(page, app, long_chat(app, 60), 60)
    page.evaluate(
        """() => {
          const text = [...document.querySelectorAll('.msg.assistant strong')].at(-1).firstChild;
          getSelection().setBaseAndExtent(text, 0, text, text.length);
        }"""
    )
    page.locator(".msg.user").last.hover()
    page.locator(".msg.user").last.locator("[data-action=edit]").click()
    page.fill(".editor", "Half an edit")
    page.evaluate("document.activeElement.blur()")
    scroll(page, -1_000_000)
    assert page.locator(".editor").input_value() == "Half an edit"
    assert page.locator(".msg.assistant").first.locator("strong").count() == 1
    assert page.locator(".msg.user").nth(40).evaluate("node => node.classList.contains('far')")
    page.focus(".composer textarea")  # the last question is far, and is edited by a key
    page.keyboard.press("Escape")
    page.locator(".editing").get_by_role("button", name="Cancel").click()
    scroll(page, -1_000_000)
    page.focus(".composer textarea")
    page.keyboard.press("ArrowUp")
    assert page.locator(".editor").input_value() == "Question 59?"
    page.keyboard.press("Escape")


def test_a_branch_in_the_middle_is_shown_in_its_place(page, app):
    show(page, app, long_chat(app, 40), 40)
    scroll(page, -2500)
    seen = page.evaluate(
        """() => [...document.querySelectorAll('.msg.assistant')].findIndex(
          (node) => node.getBoundingClientRect().top > 150)"""
    )
    message = page.locator(".msg.assistant").nth(seen)
    message.hover()
    message.locator("[data-action=retry]").click()
    page.wait_for_function(
        "n => document.querySelectorAll('.msg.assistant').length === n", arg=seen + 1
    )
    page.locator(f"{DONE} .branches").last.wait_for()
    message.locator("[data-branch=before]").click()
    page.wait_for_function("document.querySelectorAll('.msg.assistant').length === 40")
    settle(page)
    assert 0 < top_of(page, seen) < 800
    assert message.locator("strong").inner_text() == str(seen)


def test_marks_are_drawn_where_somebody_points(page):
    ask(page, "What is it?")
    assert page.locator(".msg.assistant .mark").count() == 0
    page.locator(".msg.assistant .body p").hover()
    page.wait_for_selector(".msg.assistant .mark")
