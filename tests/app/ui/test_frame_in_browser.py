"""Addresses, the drawer, loading, and an app that goes away and comes back, in a real browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from engine.loading.progress import LoadProgress, Stage
from engine.loading.request import LoadRequest
from tests.app.ui.chatting import DONE, ask, go, load_options, open_pair, send, send_endless

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


PHONE = {"width": 390, "height": 844}


@pytest.fixture
def page(same_page):
    return same_page


def path(page) -> str:
    return page.evaluate("location.pathname")


def test_every_page_and_chat_has_an_address(page, app):
    ask(page, "First?")
    first = path(page)
    assert re.fullmatch(r"/chat/\d+", first)
    page.click("[data-action=new]")
    assert path(page) == "/chat"
    ask(page, "Second?")
    second = path(page)
    page.get_by_role("link", name="Models", exact=True).click()
    page.locator("#models-page").wait_for()
    assert (path(page), page.title()) == ("/models", "Models · Foretoken")
    page.go_back()
    assert path(page) == second
    assert page.locator(".msg.user .body").inner_text() == "Second?"
    page.click(f".chat-list a[href='{first}']")
    page.wait_for_selector(".msg.user .body:has-text('First?')")
    page.go_back()
    page.wait_for_selector(".msg.user .body:has-text('Second?')")
    page.go_forward()
    page.wait_for_selector(".msg.user .body:has-text('First?')")
    page.reload()
    page.wait_for_selector(".msg.user .body:has-text('First?')")
    assert path(page) == first
    page.wait_for_selector("body[data-controls=ready]")
    for address in (
        app.url,
        f"{app.url}race",
        f"{app.url}?page=server",  # Gradio's own query
    ):  # the pages are built by scripts, which takes seconds
        assert "Loading Foretoken" in page.request.get(address).text()
    assert page.evaluate("getComputedStyle(document.body, '::after').content") == "none"


def test_an_address_opens_its_page_and_an_unknown_chat_says_so(page, app):
    for name in ("race", "models"):
        page.goto(f"{app.url}{name}")
        page.locator(f"#{name}-page").wait_for()
        assert page.inner_text(".pages [aria-current=page]").lower() == name
        assert page.locator("#chat-page").is_hidden()
        assert page.locator(".skip").text_content() == "Skip the menu"
    page.goto(f"{app.url}chat/98765")
    page.wait_for_selector(".notice:has-text('no longer exists')")
    assert path(page) == "/chat"
    page.wait_for_selector("body[data-controls=ready]")
    the_message_box_is_two_keys_away(page)


def the_message_box_is_two_keys_away(page):
    """In a page just loaded."""
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.matches('.composer textarea')")
    page.get_by_role("button", name="Skip to the message box").focus()
    for _ in range(11):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.ft-chat') !== null")


def test_a_question_mark_lists_the_shortcuts_and_is_written_in_the_message_box(page):
    page.focus(".composer textarea")
    page.keyboard.type("?")
    assert page.input_value(".composer textarea") == "?"
    assert page.locator("dialog.shortcuts").is_hidden()
    page.locator(".messages").focus()
    page.keyboard.press("?")
    page.get_by_text("start a new line").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog.shortcuts").wait_for(state="hidden")
    page.evaluate(  # Alt+M, where M is elsewhere: on a French keyboard
        """document.body.dispatchEvent(new KeyboardEvent("keydown",
          { key: "m", code: "Semicolon", altKey: true, bubbles: true }))"""
    )
    page.locator("#pair-popover").wait_for()
    page.keyboard.press("Escape")


def test_on_a_phone_one_pane_at_a_time_lies_over_the_chat(page):
    page.set_viewport_size(PHONE)
    drawer, side = page.locator(".drawer"), page.locator(".side")
    drawer.wait_for(state="hidden")
    heading = page.locator(".empty h1")
    box = heading.bounding_box()
    assert box and box["y"] > page.locator(".conversation > .bar").bounding_box()["y"] + 20
    page.click("[data-toggle=drawer]")
    drawer.wait_for()
    assert page.locator(".rounds").is_visible() and page.locator("#settings").is_hidden()
    page.get_by_role("tab", name="Settings").click()
    assert page.locator(".rounds").is_hidden() and page.locator("#settings").is_visible()
    page.keyboard.press("Escape")
    drawer.wait_for(state="hidden")
    page.click("[data-toggle=side]")
    side.wait_for()
    assert drawer.is_hidden()
    page.click(".side-close")
    side.wait_for(state="hidden")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_message_sent_during_a_reply_is_sent_after_it(page, app):
    """It was refused. Two that wait become one, and go back into the box when that is asked for."""
    send_endless(page, app)
    page.wait_for_selector(".msg.assistant.running")
    queued = page.locator(".queued")
    for text in ("And then?", "And after that?"):
        send(page, text)
        queued.get_by_text(text).wait_for()
    assert page.input_value(".composer textarea") == ""
    queued.get_by_role("button", name="Cancel").click()
    queued.wait_for(state="detached")
    assert page.input_value(".composer textarea") == "And then?\n\nAnd after that?"
    send(page, "What is it?")
    page.reload()
    queued.get_by_text("What is it?").wait_for()
    page.click(".stop")
    page.locator(DONE).wait_for()
    assert page.locator(".msg.user .body").all_inner_texts() == [
        "Write 1000 tokens.",
        "What is it?",
    ]
    page.wait_for_selector("body[data-controls=ready]")


def test_on_a_phone_the_pages_stand_in_a_menu(page):
    page.set_viewport_size(PHONE)
    page.click(".pages-menu")
    page.get_by_role("link", name="Plan", exact=True).click()
    page.locator("#plan-page").wait_for()
    assert page.locator(".pages-menu").inner_text().startswith("Plan")
    assert page.get_by_role("link", name="Plan", exact=True).is_hidden()
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        page.wait_for_function("width => innerWidth === width", arg=width)
        right = page.evaluate(
            "Math.max(...[...document.querySelectorAll('#brand > *:not(.skip)')]"
            ".map((n) => n.getBoundingClientRect().right))"
        )
        assert right <= width
    page.click(".pages-menu")
    page.get_by_role("link", name="Chat", exact=True).click()


def test_the_tour_is_offered_until_it_was_answered_and_is_behind_the_question_mark(page):
    page.click(".invitation [data-act=tour]")
    steps = []
    while page.locator(".tour").is_visible():
        steps.append(page.locator(".tour h2").inner_text())
        box = page.locator(".tour").bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0 and box["y"] + box["height"] <= 800
        page.click("[data-act=tour-next]")
    assert len(steps) == len(set(steps)) == 5
    page.reload()
    page.wait_for_selector(".empty .examples")
    assert page.locator(".invitation").count() == 0
    page.wait_for_selector("body[data-controls=ready]")
    page.click(".help")
    page.click("dialog [data-act=tour]")
    page.wait_for_selector(".tour")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tour", state="hidden")
    page.wait_for_function("document.querySelector('.tour-target') === null")


def test_chats_stand_by_days_and_in_folders(page, app):
    ask(page, "A chat of today")
    assert page.locator(".day h3").first.inner_text() == "Today"
    page.click("[data-action=new-folder]")
    page.keyboard.type("Work")
    page.keyboard.press("Enter")
    folder = page.locator(".chat-folder:has-text('Work')")
    folder.wait_for()
    chat = page.locator(".chat-list li.current")
    chat.drag_to(folder)
    folder.locator("li.current").wait_for()
    folder.locator(".fold").click()
    page.wait_for_selector(".fold[aria-expanded=false]")
    page.reload()
    page.wait_for_selector(".fold[aria-expanded=false]")
    page.wait_for_selector("body[data-controls=ready]")
    page.fill(".chat-search", "chat of today")
    folder.locator("li.current").wait_for()  # what is found is not hidden
    page.fill(".chat-search", "")
    folder.locator(".fold").click()
    folder.locator("li.current").hover()
    folder.locator("li.current").get_by_title("More").click()
    folder.get_by_label("Move to").select_option(label="No folder")
    page.wait_for_selector(".day li.current")
    folder.locator(".folder-head").hover()
    folder.get_by_title("Delete folder, keep chats").click()
    folder.wait_for(state="detached")
    assert page.locator(".day li.current").count() == 1


@contextmanager
def held_load(app) -> Iterator[threading.Event]:
    """A load stays where it is until this is set."""
    go_on = threading.Event()

    def stages() -> Iterator[LoadProgress]:
        yield LoadProgress(Stage.TARGET, 1, 4)
        assert go_on.wait(60)
        yield LoadProgress(Stage.TARGET, 4, 4)

    app.engine.stages = stages()
    try:
        yield go_on
    finally:
        go_on.set()
        app.engine.stages = ()


def load_again(page) -> None:
    load_options(page, "pip").locator("#load-pair").click()
    page.wait_for_selector("#pair-popover .loading progress")
    page.keyboard.press("Escape")
    page.wait_for_selector(".badge.opening")


def test_a_message_waits_for_the_model_is_sent_then_and_can_be_taken_back(page, app):
    with held_load(app) as go_on:
        load_again(page)
        page.wait_for_selector(".empty .loading")
        assert page.locator(".examples").count() == 0  # they are the model's that is there no more
        send(page, "Taken back")
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        page.click(".told button")
        assert page.input_value(".composer textarea") == "Taken back"
        send(page, "What is it?")
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        assert page.locator(".msg").count() == 0
        go_on.set()
        page.wait_for_selector(DONE)
    assert page.locator(".msg.user .body").inner_text() == "What is it?"


def test_a_message_that_waits_for_the_model_outlives_a_reload(page, app):
    with held_load(app) as go_on:
        load_again(page)
        send(page, "What is it?")
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        page.fill(".composer textarea", "And then?")
        page.reload()
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        assert page.input_value(".composer textarea") == "And then?"
        go_on.set()
        page.wait_for_selector(DONE)
    assert page.locator(".msg.user .body").all_inner_texts() == ["What is it?"]
    assert page.input_value(".composer textarea") == "And then?"
    page.fill(".composer textarea", "")
    page.wait_for_selector("body[data-controls=ready]")


def test_a_message_that_waits_for_the_model_is_not_in_the_box_of_its_chat_too(page, app):
    """Back in its chat the message was in the box as well, and a second Enter sent it twice."""
    ask(page, "Hi")
    chat = path(page)
    with held_load(app) as go_on:
        load_again(page)
        send(page, "What is it?")
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        page.fill(".composer textarea", "And then?")
        page.keyboard.press("Alt+n")
        page.wait_for_selector(".empty")
        send(page, "Elsewhere")  # it was joined to the message of the other chat
        page.wait_for_selector(".notice:has-text('message of another chat is waiting')")
        page.click(f".chat-list a[href='{chat}']")
        page.wait_for_selector(DONE)
        assert page.input_value(".composer textarea") == "And then?"
        page.keyboard.press("Alt+n")
        page.wait_for_selector(".empty")
        with page.expect_response(lambda answer: '"act"' in (answer.request.post_data or "")):
            go_on.set()
    page.click(f".chat-list a[href='{chat}']")
    page.locator(DONE).nth(1).wait_for()
    assert page.locator(".msg.user .body").all_inner_texts() == ["Hi", "What is it?"]
    assert page.input_value(".composer textarea") == "And then?"
    page.fill(".composer textarea", "")
    page.keyboard.press("Alt+n")
    page.wait_for_selector(".empty")
    assert page.input_value(".composer textarea") == "Elsewhere"


def test_a_message_too_long_for_its_chat_is_not_sent_in_another(page, app):
    """The dialog opened over the chat that was shown by then, and sent the message there."""
    ask(page, "First? " + "word " * 2100)
    chat = path(page)
    with held_load(app) as go_on:
        load_again(page)
        send(page, "Too long " + "word " * 2100)
        page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
        page.keyboard.press("Alt+n")
        page.wait_for_selector(".empty")
        page.fill(".composer textarea", "Half a thought")
        go_on.set()
        page.wait_for_selector(".notice:has-text('The message is in the box of its chat')")
    assert page.locator("dialog.fitting[open]").count() == 0
    assert page.input_value(".composer textarea") == "Half a thought"
    page.click(f".chat-list a[href='{chat}']")
    page.wait_for_selector(DONE)
    assert page.input_value(".composer textarea").startswith("Too long word")
    page.focus(".composer textarea")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog.fitting[open]")
    page.keyboard.press("Alt+n")
    page.wait_for_selector(".empty")
    assert page.locator("dialog.fitting[open]").count() == 0
    assert page.input_value(".composer textarea") == "Half a thought"
    page.fill(".composer textarea", "")


def test_a_message_is_given_back_when_the_model_that_it_waited_for_fails(page, app):
    loaded, app.engine.loaded = app.engine.loaded, None
    app.engine.load_error = OSError("the disk is gone")
    try:
        with held_load(app) as go_on:
            load_again(page)
            send(page, "What is it?")
            page.locator(".told").get_by_text("Queued until the model has loaded").wait_for()
            go_on.set()
            page.wait_for_selector(".notice:has-text('the disk is gone')")
            assert page.input_value(".composer textarea") == "What is it?"
    finally:
        app.engine.load_error, app.engine.loaded = None, loaded
        page.evaluate("window.Foretoken.refresh()")


def test_a_switch_of_the_pair_during_a_reply_says_that_it_waits_and_can_be_cancelled(page, app):
    send_endless(page, app)
    page.wait_for_selector(".msg.assistant.running")
    open_pair(page).locator("[data-model=smollm2-360m] .model").click()
    page.wait_for_selector(".badge.opening:has-text('Waiting for the reply')")
    page.click("#pair-popover [data-action=cancel-loading]")
    page.wait_for_selector(".badge:not(.opening):has-text('Pip')")
    assert page.locator(".msg.assistant.running").count() == 1
    page.keyboard.press("Escape")
    page.click(".stop")
    page.wait_for_selector(".msg.assistant[data-status=cancelled]")
    ask(page, "What is it?")
    assert app.engine.loaded.target_id == "pip"


def test_the_page_goes_on_when_the_app_is_back_which_knows_that_it_is_open(app, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(app.url)
    page.wait_for_selector("body[data-controls=ready]")
    ask(page, "What is it?")
    context.set_offline(True)
    send(page, "Are you there?")
    page.wait_for_selector(".away:visible")
    expect(page.locator(".composer textarea")).to_have_value("Are you there?")
    context.set_offline(False)
    page.wait_for_selector(".away", state="hidden")
    page.wait_for_selector(".notice [role=alert]", state="hidden")
    page.keyboard.press("Enter")
    page.locator(DONE).nth(1).wait_for()
    known = app.open_pages.names
    page.reload()  # to the app, another page
    page.wait_for_selector("body[data-controls=ready]")
    while len(again := app.open_pages.names) != len(known) or again == known:
        page.wait_for_timeout(20)  # the test's own limit ends it
    page.goto("about:blank")
    while app.open_pages.names != known & again:
        page.wait_for_timeout(20)
    context.close()


TWICE = """
window.twice = new Set();
new MutationObserver(() => {
  const ids = [...document.querySelectorAll(".ft-page[id]")].map(({ id }) => id).filter(Boolean);
  ids.filter((id, place) => ids.indexOf(id) < place).forEach((id) => window.twice.add(id));
}).observe(document, { subtree: true, childList: true, attributeFilter: ["id"] });
"""
"""Collects the ids that two pages had at any time."""


FRAMES = """
const ask = window.requestAnimationFrame;
window.frames_asked = 0;
window.requestAnimationFrame = (act) => (window.frames_asked += 1, ask(act));
"""
RESTS = """() => {
  const asked = window.frames_asked - (window.frames_before ?? -1000);
  window.frames_before = window.frames_asked;
  return asked < 10;
}"""


@pytest.mark.parametrize(("system", "chosen"), [("dark", "light"), ("light", "dark")])
def test_a_chosen_theme_is_not_the_systems_once_gradio_is_there(app, browser, system, chosen):
    """A second after the page Gradio sets the class by the system's theme."""
    context = browser.new_context(color_scheme=system)
    page = context.new_page()
    page.add_init_script(f"localStorage.setItem('foretoken.theme', '{chosen}')")
    page.goto(app.url)
    page.wait_for_selector("#settings-view", state="attached")
    assert page.evaluate("document.body.classList.contains('dark')") is (chosen == "dark")
    context.close()


def test_a_page_that_is_shown_does_not_wait_for_gradio(app, browser):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(TWICE)
    page.add_init_script(FRAMES)
    held, themes, holding = [], [], True

    def hold(route) -> None:
        if holding:
            held.append(route)
        else:
            route.continue_()

    def hold_theme(route) -> None:
        themes.append(route)

    page.route("**/assets/Index-*", hold)
    page.route("**/theme.css*", hold_theme)
    page.goto(app.url, wait_until="commit")
    ask(page, "What is it?")
    go(page, "plan")
    page.wait_for_selector("#plan-page form")
    assert held and page.locator("#plan-view").count() == 0
    holding = False
    for route in held:
        route.continue_()
    loading = page.locator("[data-testid=status-tracker]").first  # it lay over the page's text
    loading.wait_for(state="attached")
    assert loading.is_hidden()
    page.unroute("**/theme.css*")
    for route in themes:
        route.continue_()
    page.wait_for_selector("#settings-view", state="attached")
    assert page.title() == "Plan · Foretoken", "Gradio sets one of its own"
    page.wait_for_function(RESTS, polling=1_000)  # a page that rests draws nothing
    go(page, "settings")
    page.wait_for_selector("#settings-page h1")
    go(page, "chat")
    assert page.locator(DONE).is_visible()
    for name in ("chat", "plan", "settings"):
        assert page.locator(f"#{name}-page").count() == 1
    assert page.evaluate("[...window.twice]") == []
    context.close()


def test_a_browser_may_install_the_page_and_is_told_when_the_app_cannot_be_reached(app, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(app.url)
    page.wait_for_function("navigator.serviceWorker.ready.then(() => true)")
    devtools = context.new_cdp_session(page)
    errors = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert {error["errorId"] for error in errors} <= {"in-incognito"}
    manifest = devtools.send("Page.getAppManifest")
    assert manifest["url"] == f"{app.url}app.webmanifest"
    assert manifest["errors"] == []
    page.reload()  # from here on the worker answers
    context.set_offline(True)
    page.goto(f"{app.url}race")
    page.get_by_role("heading", name="Foretoken cannot be reached").wait_for()
    context.set_offline(False)
    page.get_by_role("link", name="Try again").click()
    page.wait_for_selector("#race-page")
    assert page.evaluate("caches.keys()") == []
    context.close()


def test_a_code_model_is_greeted_by_its_name_with_code(page, app):
    before = app.engine.loaded
    app.engine.load(LoadRequest(target="pip"))
    object.__setattr__(app.engine.loaded, "name", "qwen2.5-coder-1.5b-instruct-q4_k_m")
    object.__setattr__(app.engine.loaded, "target_name", "qwen2.5-coder-1.5b-instruct-q4_k_m")
    object.__setattr__(app.engine.loaded, "target_id", "/models/qwen.gguf")
    page.evaluate("window.Foretoken.refresh()")
    page.wait_for_selector(".empty h1:has-text('Qwen2.5 Coder 1.5B is ready.')")
    assert "Python" in page.inner_text(".examples")
    app.engine.loaded = before
    page.evaluate("window.Foretoken.refresh()")
    page.wait_for_selector(".empty h1:has-text('I am Pip')")


def test_chats_are_found_exported_and_imported(page, tmp_path):
    ask(page, "markdown about foxes")
    title = page.locator(".chat-list li.current")
    places = [page.locator(part) for part in (".side", ".conversation", ".drawer", ".composer")]
    before = [place.bounding_box() for place in places]
    page.keyboard.press("Alt+k")  # its scrim once took a cell of the grid
    page.wait_for_function("document.activeElement.matches('.side .chat-search')")
    assert [place.bounding_box() for place in places] == before
    page.keyboard.type("no such words")
    page.get_by_text("No matches").wait_for()
    page.fill(".chat-search", "foxes")
    title.wait_for()
    title.hover()
    title.get_by_title("More").click()
    with page.expect_download() as download:
        title.locator("[data-export=json]").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "markdown-about-foxes.json"
    page.fill(".chat-search", "")
    before = path(page)
    page.set_input_files(".side input[type=file]", file)
    page.wait_for_function("(before) => location.pathname !== before", arg=before)
    page.wait_for_selector(DONE)
    page.locator(".lanes-empty", has_text="was imported").wait_for()
    assert page.locator(".msg.assistant h1").inner_text() == "A round, step by step"
