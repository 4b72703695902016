"""Tools in a real browser: a server is added by paste, its call approved, and the result answered."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from app.mcp.config import McpFile, ServerConfig
from tests.app.ui.chatting import DONE, go, hold_first, send, show_by
from tests.app.ui.conftest import App, open_page, serving
from tests.app.ui.test_accessibility_in_browser import CONTRAST, found
from tests.app.ui.test_frame_in_browser import held_load, load_again
from tests.support.calling import calling_engine
from tests.support.places import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True
PROGRAM = {
    "command": sys.executable,
    "args": ["-m", "tests.support.tool_server"],
    "env": {"PYTHONPATH": str(ROOT)},
}


@pytest.fixture(scope="module")
def own_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with serving(tmp_path_factory.mktemp("data"), calling_engine()) as running:
        yield running


@pytest.fixture
def page(same_page):
    return same_page


def serious(page, place: str) -> list[str]:
    """What axe finds serious there, by day and by night."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
    page.evaluate(axe.AXE_SCRIPT)
    page.emulate_media(reduced_motion="reduce")  # no colour is caught half way to another
    seen = found(page, place)
    show_by(page, "dark")
    seen += found(page, place, **CONTRAST)
    show_by(page, "light")
    return seen


def add(page, name: str) -> None:
    """Add the server as a user does who has the JSON of another app, and see its tools."""
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Import JSON").click()
    page.get_by_role("textbox", name="JSON").fill(json.dumps({"mcpServers": {name: PROGRAM}}))
    page.get_by_role("dialog").get_by_role("button", name="Import JSON").click()
    server = page.locator(f"[data-server={name}][data-phase=stopped]")
    expect(server.locator(".tool-line")).to_contain_text("tests.support.tool_server")
    page.get_by_role("button", name="Start and list tools").click()
    expect(page.locator(f"[data-server={name}] .tool-phase")).to_have_text("Running, 9 tools")
    page.locator(f"[data-server={name}] summary").click()
    assert not serious(page, ".tools-panel")
    page.get_by_role("button", name="Add server").click()
    assert not serious(page, ".ft-dialog[open]")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()


def test_a_server_is_added_by_paste_and_its_call_approved_and_answered(page, app, browser):
    add(page, "calc")
    page.get_by_role("link", name="Chat", exact=True).click()
    send(page, 'What is add{"a": 19, "b": 23}?')
    call = page.locator(".call[data-call=add]")
    expect(call).to_contain_text("Run add from calc?")
    expect(call.locator("pre").first).to_have_text('{\n  "a": 19,\n  "b": 23\n}')
    expect(page.locator(".msg.assistant .body")).to_have_text("Let me look.")
    assert not serious(page, ".calls")
    page.reload()  # the question survives it, and another tab has it too
    expect(call).to_contain_text("Run add from calc?")
    with open_page(app, browser) as (other, _):
        other.goto(page.url)
        other.get_by_role("button", name="Run once").click()
        expect(other.locator(DONE).last).to_contain_text("They said: 42.")
    expect(page.locator(DONE).last).to_contain_text("They said: 42.")
    expect(call).to_have_attribute("data-state", "done")
    expect(call.locator(".call-brief")).to_have_text("42")
    expect(page.locator(".turn-totals")).to_contain_text("Whole turn")
    expect(page.locator(".msg.assistant")).to_have_count(2)
    expect(page.locator(".msg.assistant .actions")).to_have_count(1)  # those of the turn
    with app.store() as store:
        store.leave_out([each.id for each in store.messages(store.chats()[0].id)])
    page.reload()
    page.locator("[data-action=give]").click()  # it gave back the first of the turn's replies alone
    expect(page.locator(".left-out")).to_have_count(0)
    app.runtime.tools.stop("calc")
    page.get_by_role("link", name="Settings").click()
    expect(page.locator("[data-server=calc] .tool-phase")).to_have_text("Not running")


def test_a_server_is_removed_after_a_question(page, app):
    McpFile(app.data_dir).add((ServerConfig("spare", command="none"),))
    page.get_by_role("link", name="Settings").click()
    spare = page.locator("[data-server=spare]")
    spare.get_by_role("button", name="Remove spare").dblclick()
    spare.get_by_role("button", name="Stop it and delete its keys?").click()
    expect(spare).to_have_count(0)
    assert "spare" not in {each.name for each in McpFile(app.data_dir).servers()}


def test_a_hostile_result_is_text_and_a_refusal_is_told(page):
    """Escape, pressed soon after the click on Refuse, stopped the whole turn."""
    send(page, "injecting{} failing{}")
    refuse = page.locator("[data-call=failing] [data-answer=refusing]")
    refuse.wait_for()
    page.evaluate(  # Escape may come before the click is drawn, or while the focus is elsewhere
        """() => {
          document.querySelector("[data-call=failing] [data-answer=refusing]").click();
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
        }"""
    )
    refuse.click()
    page.keyboard.press("Escape")  # goes back, and stops nothing
    refuse.click()
    expect(page.get_by_placeholder("Reason for the model")).to_be_focused()
    page.keyboard.type("No.")
    page.keyboard.press("Enter")
    page.locator("[data-call=injecting] [data-answer=trust]").click()
    call = page.locator(".call[data-call=injecting][data-state=done]")
    call.locator("summary").click()
    expect(call.locator("pre").last).to_contain_text("<img src=x onerror=alert(1)>")
    assert call.locator("img").count() == 0
    expect(page.locator(".call[data-state=refused]")).to_contain_text("refused")
    expect(page.locator(DONE).last).to_contain_text("The user refused this call. No.")
    page.locator(".tools-button").click()
    menu = page.locator(".tools-menu")
    expect(menu).to_contain_text("Runs without asking in this chat.")
    assert not serious(page, ".tools-menu")
    menu.get_by_role("button", name="Ask again").click()
    expect(menu).not_to_contain_text("Runs without asking")
    menu.get_by_role("switch", name="calc (9 tools)").click()
    page.keyboard.press("Escape")
    send(page, "Which?")
    expect(page.locator(DONE).last).to_contain_text("Tools: none.")
    held = hold_first(page, "chat_tools")
    with page.expect_request(lambda asked: "chat_tools" in (asked.post_data or "")):
        page.click(
            "[data-action=new]"
        )  # its answer comes after that of the chat that is opened then
    page.locator(".chat-list .open").first.click()
    page.locator(".tools-button[aria-label=Tools]").wait_for()
    with page.expect_response(lambda answer: "chat_tools" in (answer.request.post_data or "")):
        held[0].continue_()
    page.locator(".tools-button").click()
    expect(menu.get_by_role("switch", name="calc")).not_to_be_checked()
    page.keyboard.press("Escape")


def test_stop_ends_a_turn_that_waits_and_it_can_be_continued(page):
    send(page, 'slow{"seconds": 60}')
    page.locator("[data-call=slow] [data-answer=once]").click()
    expect(page.locator("[data-call=slow]")).to_have_attribute("data-state", "running")
    page.locator(".stop").click()
    expect(page.locator("[data-call=slow]")).to_have_attribute("data-state", "stopped")
    page.locator("[data-action=continue]").click()
    expect(page.locator(DONE).last).to_contain_text("They said: The user stopped this call.")
    go(page, "models")


def test_a_new_chat_that_waits_for_the_model_keeps_its_prompt_and_tools(page, app):
    """They were read when it was sent: those of the chat that was shown by then."""
    page.locator(".tools-button").click()
    page.locator(".tools-menu").get_by_role("switch", name="calc").click()
    page.keyboard.press("Escape")
    with app.store() as store, held_load(app) as go_on:
        before = store.chats()
        load_again(page)
        send(page, "Which?")
        page.locator(".queued").wait_for()
        page.get_by_role("tab", name="Settings").click()
        page.select_option("[name=chat-system]", "Concise")
        page.locator(".chat-list .open").first.click()
        page.locator(DONE).first.wait_for()
        go_on.set()
        page.locator(".queued").wait_for(state="detached")
        expect(page.locator(".chat-list .open")).to_have_count(len(before) + 1)
        (new,) = {each.id for each in store.chats()} - {each.id for each in before}
        assert store.system_of(new).name == "Concise"
        assert store.tools_of(new).off == {"calc"}
