"""Documents, pasted texts and web pages in the message box; forks, edited replies, imported chats."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine.request import Request
from tests.app.test_chat_imports import foxes
from tests.app.ui.chatting import DONE, ask, hold_first
from tests.support import documents as made
from tests.support.fake_engine import Script
from tests.support.recital import REPLIES
from tests.support.seeing import picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OWN_APP = True

BOX = ".composer"


@pytest.fixture
def page(same_page):
    return same_page


@pytest.fixture
def asked(app, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that the engine gets."""
    requests: list[Request] = []
    script = app.engine.script

    def recorded(request: Request) -> Script:
        requests.append(request)
        return script(request)

    monkeypatch.setattr(app.engine, "script", recorded)
    return requests


def attach(page, name: str, content: bytes) -> None:
    page.set_input_files(
        f"{BOX} input[type=file]",
        [{"name": name, "mimeType": "application/octet-stream", "buffer": content}],
    )


def test_a_document_says_what_it_takes_and_what_is_left_out_before_and_after(page, asked) -> None:
    attach(page, "report.pdf", made.pdf(["word " * 400] * 12))
    chip = page.locator(f"{BOX} .file")
    chip.get_by_text("Pages 1-7 of 12; 8-12 do not fit the context").wait_for()
    page.locator(f"{BOX} .files").get_by_text("tokens attached").wait_for()
    page.fill(f"{BOX} .page-choice", "2, 4-5")
    page.keyboard.press("Tab")
    chip.get_by_text("Pages 2, 4-5 of 12, without 1, 3, 6-12.").wait_for()
    page.reload()
    page.wait_for_selector("body[data-controls=ready]")
    chip.get_by_text("Pages 2, 4-5 of 12").wait_for()
    ask(page, "Sum it up.")
    sent = page.locator(".msg.user .file")
    sent.get_by_text("Pages 2, 4-5 of 12").wait_for()
    sent.locator("summary").click()
    sent.get_by_text("[Page 12]").wait_for()
    given = asked[-1].messages[-1].content
    assert "[Page 4]" in given and "[Page 1]" not in given
    page.hover(".msg.user")
    page.click(".msg.user [data-action=edit]")
    page.locator(".editing .file").get_by_text("report.pdf").wait_for()
    page.locator(".editing [aria-label='Remove report.pdf']").click()
    page.get_by_role("button", name="Save and send").click()
    page.locator(DONE).wait_for()
    assert page.locator(".msg.user .file").count() == 0
    page.locator(".msg.user [data-branch=before]").click()
    page.locator(".msg.user .file").wait_for()


def test_what_cannot_be_read_is_said_at_the_box_and_the_text_stays(page) -> None:
    page.fill(f"{BOX} textarea", "About this:")
    attach(page, "scan.pdf", made.pdf(["", ""]))
    page.get_by_text("scan.pdf has no text: its pages are blank, or pictures").wait_for()
    assert page.input_value(f"{BOX} textarea") == "About this:"
    assert page.locator(f"{BOX} .attached").count() == 0


def test_files_chosen_together_are_all_there_or_named_with_why_not(page) -> None:
    """An answer on the first files, which came while the next was drawn, threw that one out."""
    page.evaluate(
        "[window.frame, window.requestAnimationFrame] ="
        " [requestAnimationFrame, (draw) => setTimeout(draw, 200)]"
    )
    scans = {f"scan{n}.pdf": made.pdf([""]) for n in range(2)}
    files = {**{f"{n}.txt": b"one two" for n in range(8)}, **scans}
    page.set_input_files(
        f"{BOX} input[type=file]",
        [{"name": name, "mimeType": "", "buffer": content} for name, content in files.items()],
    )
    page.get_by_text("scan1.pdf has no text").wait_for()
    assert "scan0.pdf has no text" in page.inner_text(".notice .ft-error")
    page.locator(f"{BOX} .files").get_by_text("tokens attached").wait_for()
    assert page.locator(f"{BOX} .file-name").all_inner_texts() == [*files][:8]
    page.evaluate("() => { window.requestAnimationFrame = window.frame; }")
    for _ in range(8):
        page.locator(f"{BOX} .attached > button").first.click()


def test_nothing_is_sent_before_all_its_files_are_read(page) -> None:
    """The end of one upload counted for all, so a message went without a file; an edit never waited."""
    ask(page, "Hi")
    page.hover(".msg.user")
    page.click(".msg.user [data-action=edit]")
    held = []

    def hold(route) -> None:
        held.append(route)

    page.route("**/attachments?name=late*", hold)
    for place in (BOX, ".editing"):
        page.fill(f"{place} textarea", "About these:")
        for name in ("late.txt", "early.txt"):
            file = {"name": name, "mimeType": "text/plain", "buffer": b"one two"}
            page.set_input_files(f"{place} input[type=file]", [file])
        page.locator(f"{place} .file").get_by_text("early.txt").wait_for()
        page.focus(f"{place} textarea")
        page.keyboard.press("Enter")
        page.get_by_text("Wait until the files are read.").wait_for()
        assert page.locator(".msg").count() == 2
        held.pop().continue_()
        page.locator(f"{place} .file").get_by_text("late.txt").wait_for()
        page.wait_for_selector(f"{BOX} :text('Reading')", state="detached")
    page.unroute("**/attachments?name=late*")
    page.keyboard.press("Enter")
    page.locator(".msg.user .branches").get_by_text("2/2").wait_for()
    assert page.locator(".msg.user .file-name").all_inner_texts() == ["early.txt", "late.txt"]
    page.locator(DONE).wait_for()
    assert page.locator(f"{BOX} .attached").count() == 2
    for _ in range(2):
        page.locator(f"{BOX} .attached > button").first.click()


DROP = """([selector, how, name, text]) => {
  const data = new DataTransfer();
  const bytes = typeof text === "string" ? text : new Uint8Array(text);
  if (name) data.items.add(new File([bytes], name));
  else data.setData("text/plain", text);
  const given = how === "paste" ? { clipboardData: data } : { dataTransfer: data };
  const kind = how === "paste" ? ClipboardEvent : DragEvent;
  document.querySelector(selector).dispatchEvent(
    new kind(how, { ...given, bubbles: true, cancelable: true }));
}"""


def test_files_are_dropped_and_pasted_and_a_long_text_becomes_an_attachment(page) -> None:
    page.evaluate(DROP, [f"{BOX} textarea", "drop", "a.txt", "one two"])
    page.locator(f"{BOX} .file").get_by_text("a.txt").wait_for()
    page.evaluate(DROP, [f"{BOX} textarea", "paste", "b.md", "three"])
    page.locator(f"{BOX} .file").get_by_text("b.md").wait_for()
    page.evaluate(DROP, [f"{BOX} textarea", "paste", "", "short"])
    page.evaluate(DROP, [f"{BOX} textarea", "paste", "", "long text " * 500])
    page.locator(f"{BOX} .file").get_by_text("Pasted text.txt").wait_for()
    assert page.locator(f"{BOX} .attached").count() == 3
    for _ in range(3):
        page.locator(f"{BOX} .attached > button").first.click()
    assert page.locator(f"{BOX} .attached").count() == 0


def test_a_picture_goes_to_a_model_that_sees_and_comes_back_with_retry_and_edit(
    page, app, asked, monkeypatch
) -> None:
    page.evaluate(DROP, [f"{BOX} textarea", "paste", "spots.png", list(picture())])
    box = page.locator(f"{BOX} .attached .picture img")
    box.wait_for()
    page.locator(BOX).get_by_text("load a model that sees images").wait_for()
    ask_in_vain(page, "What is it?")
    loaded = app.engine.loaded
    sees = replace(loaded.capabilities, images=True)
    monkeypatch.setattr(app.engine, "loaded", replace(loaded, capabilities=sees))
    page.evaluate("window.Foretoken.refresh()")
    page.locator(BOX).get_by_text("load a model that sees images").wait_for(state="hidden")
    ask(page, "What is it?")
    assert page.locator(".msg.user .picture img").evaluate("each => each.naturalWidth") == 70
    page.hover(".msg.assistant")
    page.click(".msg.assistant [data-action=retry]")
    page.locator(f"{DONE} .branches").get_by_text("2/2").wait_for()
    page.hover(".msg.user")
    page.click(".msg.user [data-action=edit]")
    page.locator(".editing .picture img").wait_for()
    page.fill(".editing textarea", "And what colour?")
    page.get_by_role("button", name="Save and send").click()
    page.locator(".msg.user").get_by_text("And what colour?").wait_for()
    page.locator(DONE).wait_for()
    assert [[len(each.images) for each in request.messages] for request in asked] == [[1]] * 3


def ask_in_vain(page, text: str) -> None:
    """Send what is refused: text and picture stay in the box."""
    page.fill(f"{BOX} textarea", text)
    page.keyboard.press("Enter")
    page.locator(".ft-chat .ft-error:visible").first.wait_for()
    assert page.input_value(f"{BOX} textarea") == text
    assert page.locator(f"{BOX} .attached").count() == 1
    assert page.locator(".msg").count() == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    text = f"<title>Foxes</title><nav>Home</nav><main>{'They are red. ' * 40}</main>"
    (folder / "fox.html").write_text(text)
    handler = partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_web_page_is_added_by_its_address_with_its_source(page, site: str) -> None:
    held = hold_first(page, "add_page")
    dialog = page.locator("dialog[open]")
    page.click(f"{BOX} .attach")
    page.get_by_text("Add a web page").first.click()
    with page.expect_request(lambda asked: "add_page" in (asked.post_data or "")):
        page.keyboard.type(f"{site}/fox.html")
        page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Cancel").click()
    with page.expect_response(lambda answer: "add_page" in (answer.request.post_data or "")):
        held[0].continue_()  # what was cancelled is not added
    page.click(f"{BOX} .attach")
    page.get_by_text("Add a web page").first.click()
    dialog.get_by_role("button", name="Add").wait_for()
    dialog.locator("input").fill(f"{site}/none.html")
    page.keyboard.press("Enter")
    dialog.get_by_text("the server answered 404").wait_for()
    dialog.locator("input").fill(f"{site}/fox.html")
    page.keyboard.press("Enter")
    chip = page.locator(f"{BOX} .file")
    chip.get_by_text("Foxes").wait_for()
    assert (chip.count(), dialog.count()) == (1, 0)
    chip.locator("summary").click()
    assert chip.locator("a").get_attribute("href") == f"{site}/fox.html"
    chip.get_by_text("They are red.").wait_for()
    page.locator(f"{BOX} .attached > button").first.click()


def test_a_chat_is_forked_from_a_message(page) -> None:
    ask(page, "Hi")
    ask(page, "More")
    page.hover(".msg.assistant >> nth=0")
    page.locator(".msg.assistant [data-action=fork]").first.click()
    page.get_by_text("This is the fork.").wait_for()
    assert page.locator(".msg").count() == 2
    page.locator(".chat-list .current").get_by_text("Hi (fork)").wait_for()
    page.go_back()
    page.locator(".msg >> nth=3").wait_for()


def test_a_fork_that_ends_with_a_question_is_answered(page) -> None:
    """Nothing but editing the question brought a reply."""
    ask(page, "Hi")
    page.locator(".msg.user").first.hover()
    page.locator(".msg.user [data-action=fork]").first.click()
    page.get_by_text("This is the fork.").wait_for()
    assert page.locator(".msg.assistant").count() == 0
    page.get_by_role("button", name="Answer", exact=True).click()
    page.locator(".msg.assistant[data-status=done]").wait_for()
    assert page.locator("[data-action=answer]").count() == 0


def test_a_reply_is_edited_and_says_so_and_the_model_continues_it(page) -> None:
    ask(page, "Hi")
    page.hover(".msg.assistant")
    page.click(".msg.assistant [data-action=edit]")
    editor = page.locator(".msg.assistant textarea")
    assert editor.input_value() == REPLIES["plain"]
    editor.fill("A fox is blue.")
    page.click("[data-act=save-reply]")
    page.get_by_text("Edited by you.").wait_for()
    page.locator(".msg.assistant .body").get_by_text("A fox is blue.").wait_for()
    page.locator(".msg.assistant .branches").get_by_text("2/2").wait_for()
    page.hover(".msg.assistant")
    page.click(".msg.assistant [data-action=edit]")
    editor.fill(REPLIES["plain"].split(" ")[0])
    page.click("[data-act=continue-reply]")
    page.locator(DONE).get_by_text(REPLIES["plain"][-30:].strip()).wait_for()
    page.get_by_text("Edited by you.").wait_for()


def test_chats_of_others_are_imported_with_a_summary(page, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([foxes(), foxes(), {"title": "Odd", "mapping": {}}]))
    page.set_input_files(".side input[type=file]", file)
    summary = page.locator("dialog.imported[open]")
    summary.get_by_text("Imported 2 chats from ChatGPT, 12 messages.").wait_for()
    summary.get_by_text("Odd: it has no messages").wait_for()
    page.keyboard.press("Escape")
    page.locator(".msg.user").get_by_text("Picture left out").wait_for()
    page.locator(".chat-list").get_by_text("ChatGPT").first.wait_for()
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    page.set_input_files(".side input[type=file]", broken)
    summary.get_by_text("No chat could be imported from broken.json").wait_for()
    page.keyboard.press("Escape")
