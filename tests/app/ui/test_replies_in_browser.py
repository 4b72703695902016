"""How a reply is drawn in a real browser: Markdown, JSON, origin marks, and nothing that could run."""

from __future__ import annotations

import pytest

from tests.app.ui.chatting import ask, last_trace, open_settings

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


def test_markdown_code_tables_and_latex_are_drawn(page):
    ask(page, "markdown please")
    body = page.locator(".msg.assistant .body")
    page.wait_for_selector(".msg.assistant .katex-display")
    assert body.locator("table tr").count() == 3
    assert body.locator("pre .hljs-keyword").count() > 0
    assert body.locator("li").count() == 2


def test_lines_of_a_reply_stay_lines_and_bare_json_is_code(page):
    ask(page, "a record please")
    body = page.locator(".msg.assistant .body")
    record = '{\n  "name": "Ada {1}",\n  "tags": ["a", "b"]\n}'
    assert body.locator("pre code").inner_text().rstrip("\n") == record
    assert body.locator("pre .hljs-attr").count() == 2
    assert body.locator("p").inner_text() == "Its lines:\nfirst=1\nsecond=2"
    open_settings(page)
    page.get_by_label("Highlight drafted text").check()
    page.wait_for_function("document.body.classList.contains('show-marks')")
    assert body.locator("pre code").inner_text().rstrip("\n") == record
    assert body.locator("pre .mark").count() > 0
    page.get_by_label("Highlight drafted text").uncheck()
    page.wait_for_function("!document.body.classList.contains('show-marks')")


def test_nothing_in_a_reply_can_run_or_load(page):
    ask(page, "hostile please")
    assert page.evaluate("window.hacked") is None
    body = page.locator(".msg.assistant .body")
    assert body.locator("img, script, [onclick]").count() == 0
    assert body.locator("a[href^=javascript]").count() == 0


def test_origin_marks_switch_on_finished_messages_at_once(page, app):
    ask(page, "What is it?")
    text = page.locator(".msg.assistant .body").inner_text()
    open_settings(page)
    page.get_by_label("Highlight drafted text").check()
    page.wait_for_function("document.body.classList.contains('show-marks')")
    assert page.locator(".msg.assistant .body").inner_text() == text
    tokens = [t for e in last_trace(app) if e["type"] == "emitted" for t in e["tokens"]]
    for origin, kind in (("draft", "accepted"), ("correction", "correction"), ("bonus", "bonus")):
        shown = "".join(page.locator(f".msg.assistant .mark.{kind}").all_text_contents())
        assert shown == "".join(token["text"] for token in tokens if token["origin"] == origin)
