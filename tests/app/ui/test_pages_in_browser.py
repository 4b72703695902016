"""Models and Plan in a real browser, over a fake engine."""

from __future__ import annotations

import pytest

from tests.app.ui.chatting import go, load_options
from tests.support.checkpoints import write_random
from tests.support.folders import write_model
from tests.support.gguf_files import write_gguf

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


def test_a_launch_plan_is_made_and_what_does_not_fit_is_told(page):
    go(page, "plan")
    plan = page.locator("#plan-page")
    plan.locator("[name=engine]").select_option("trtllm")
    plan.get_by_role("button", name="Make plan").click()
    config = plan.locator("[data-file='extra-llm-api-config.yml']")
    config.wait_for()
    assert "decoding_type: Eagle3" in config.inner_text()
    assert "--engine trtllm" in plan.locator(".ft-copyable").last.inner_text()
    plan.locator("[name=target]").fill("llama-3.1-405b")
    plan.locator("[name=method]").select_option("none")
    plan.get_by_role("button", name="Make plan").click()
    plan.locator("[role=alert]:has-text('What would fit')").wait_for()
    assert plan.locator(".ft-copyable").count() == 0


def test_the_catalog_gives_reasons_for_drafts_that_do_not_fit(fresh_page):
    fresh_page.get_by_role("link", name="Models", exact=True).click()
    row = fresh_page.locator("tr.model-row[data-target='llama-3.1-8b']")
    row.wait_for()
    assert fresh_page.locator("tr.model-row").count() >= 20
    refusing = True

    def refuse(route):
        if refusing and "why_not" in (route.request.post_data or ""):
            return route.fulfill(json={"refused": "It failed, this once."})
        return route.continue_()

    fresh_page.route("**/component_server/", refuse)
    row.get_by_role("button", name="Details of").click()
    fresh_page.wait_for_selector(".ft-models .ft-error:has-text('It failed, this once.')")
    refusing = False
    again = fresh_page.locator("tr.model-row[data-target='qwen3-8b']")
    again.get_by_role("button", name="Details of").click()
    card = fresh_page.locator("tr.under[data-target='qwen3-8b'] .card")
    card.locator(".others summary").click()
    card.locator("li.no").first.wait_for()
    assert "ifferent vocabular" in card.locator(".others").inner_text()


def test_a_folder_without_a_model_is_refused_with_the_reason(page, tmp_path):
    page.get_by_role("link", name="Models", exact=True).click()
    page.click("#tab-models-open")
    page.fill(".folder [name=folder]", str(tmp_path))
    page.click(".folder button[type=submit]")
    page.wait_for_selector(".ft-models .ft-error:visible")
    told = page.inner_text(".ft-models .ft-error:visible")
    assert str(tmp_path) in told
    assert "Traceback" not in told


def test_a_local_folder_is_opened(page, app, tmp_path):
    folder = write_model(tmp_path / "little")
    before = app.engine.loaded
    page.get_by_role("link", name="Models", exact=True).click()
    page.click("#tab-models-open")
    page.fill(".folder [name=folder]", str(folder))
    page.click(".folder [type=submit]")
    page.wait_for_selector(".now-name:has-text('little')")
    page.get_by_role("link", name="Chat", exact=True).click()
    page.wait_for_selector(".badge:has-text('little')")
    page.wait_for_selector(".empty:has-text('little is ready')")
    app.engine.loaded = before


def test_weights_are_offered_as_the_file_stores_them_while_the_target_is_a_gguf_file(
    page, app, tmp_path
):
    """Whoever changes the target: a page that opens a file, or a hand."""
    stored = "#quantization option[value=stored]"
    write_random(tmp_path / "folder")
    file = write_gguf(tmp_path / "folder", tmp_path / "little.gguf")
    before = app.engine.loaded
    load_options(page, "pip")
    assert page.locator(stored).count() == 0
    page.locator("nav").get_by_role("link", name="Models", exact=True).click()
    page.click("#tab-models-open")
    page.fill(".folder [name=folder]", str(file))
    page.click(".folder [type=submit]")
    page.wait_for_selector(".now-name:has-text('little')")
    page.get_by_role("link", name="Chat", exact=True).click()
    load_options(page, str(file))
    page.locator(stored).wait_for(state="attached")
    page.select_option("#quantization select", "stored")
    load_options(page, "pip")
    page.locator(stored).wait_for(state="detached")
    assert page.locator("#quantization select").input_value() == "auto"
    page.keyboard.press("Escape")
    app.engine.loaded = before


def test_the_tabs_work_by_keyboard(page):
    page.get_by_role("link", name="Chat", exact=True).focus()
    for _ in ("Models", "Server", "Lab"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lab [aria-current=page]")  # where Lab was left
