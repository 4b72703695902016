"""The settings page in a real browser, over a fake engine."""

from __future__ import annotations

import json
import os
import stat
import warnings

import pytest
from playwright.sync_api import expect

from engine.backends.native import cache
from tests.app.ui.chatting import ask

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


@pytest.fixture
def page(same_page):
    same_page.get_by_role("link", name="Settings").click()
    same_page.wait_for_selector("[data-place=data] code")
    return same_page


def kept(app) -> dict:
    return json.loads((app.data_dir / "settings.json").read_text())


def part(page, name):
    return page.locator(f"#settings-page [data-part={name}]")


def test_it_has_an_address_and_a_sign_in_the_bar(page):
    assert page.url.endswith("/settings")
    assert page.title() == "Settings · Foretoken"
    gear = page.get_by_role("link", name="Settings")
    assert gear.get_attribute("aria-current") == "page"
    page.go_back()
    page.locator("#chat-page").wait_for()
    assert gear.get_attribute("aria-current") is None


def test_day_and_night_are_chosen_or_left_to_the_system(page):
    def dark() -> bool:
        return page.evaluate("document.body.classList.contains('dark')")

    look = part(page, "theme")
    page.emulate_media(color_scheme="dark")
    assert look.get_by_label("System").is_checked()
    page.wait_for_function("document.body.classList.contains('dark')")
    page.emulate_media(color_scheme="light")
    page.wait_for_function("!document.body.classList.contains('dark')")
    look.get_by_label("Dark").check()
    assert dark()
    page.click(".theme-toggle")
    assert not dark()
    assert look.get_by_label("Light").is_checked()
    look.get_by_label("System").check()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.body.classList.contains('dark')")
    page.emulate_media(color_scheme="light")


def test_what_computes_is_kept_and_the_pair_is_loaded_again_by_it(page, app):
    computing = part(page, "computing")
    again = computing.locator(".reload")
    assert again.is_hidden()
    page.select_option("[data-part=computing] [name=threads]", "1")
    again.filter(has_text="Reload").wait_for()
    assert kept(app)["threads"] == 1
    again.get_by_role("button").click()
    again.wait_for(state="hidden")
    assert app.engine.loaded.request.threads == 1
    page.locator("[data-part=computing] [name=native]").uncheck()
    again.wait_for()
    page.locator("[data-part=computing] [name=native]").check()
    again.wait_for(state="hidden")
    page.select_option("[data-part=computing] [name=threads]", "")
    again.wait_for()
    again.get_by_role("button").click()
    again.wait_for(state="hidden")
    assert app.engine.loaded.request.threads is None
    assert (kept(app)["threads"], kept(app)["native"]) == (None, True)


def test_what_the_app_begins_with_can_be_what_is_loaded_or_was_last(page, app):
    before = app.engine.loaded
    select = page.locator("[data-part=computing] [name=start]")
    assert select.locator("option").first.inner_text().startswith("Pip")
    assert select.input_value() == "last"  # unless people choose
    for chosen in ("pip", "last"):
        with page.expect_response(lambda told: "keep_computing" in (told.request.post_data or "")):
            select.select_option(chosen)
        assert kept(app)["start_with"] == chosen
    app.engine.loaded = before


def test_what_the_command_line_fixed_says_so(page, app):
    runtime = app.runtime
    runtime.fixed = frozenset({"threads"})
    try:
        page.get_by_role("link", name="Chat", exact=True).click()
        page.get_by_role("link", name="Settings").click()
        page.get_by_text("Set by --threads on the command line").wait_for()
        assert page.locator("[data-part=computing] [name=threads]").is_disabled()
        assert page.locator("[data-part=computing] [name=device]").is_enabled()
    finally:
        runtime.fixed = frozenset()


@pytest.mark.skipif(
    os.name != "posix", reason="a file manager of another system cannot be stood in for"
)
def test_a_text_that_is_selected_out_of_a_dialog_does_not_close_it(page):
    page.click("[data-action=add-server]")
    name = page.locator("dialog.tool-form [name=name]")
    name.fill("files")
    box = name.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(20, box["y"] + 10)
    page.mouse.up()
    expect(name).to_have_value("files")
    page.mouse.click(20, box["y"] + 10)
    expect(name).to_be_hidden()


def test_folders_are_opened_copied_and_measured(page, app, tmp_path, monkeypatch):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    monkeypatch.setenv("FORETOKEN_WEIGHT_CACHE_GB", "0.25")
    page.reload()
    hint = page.locator("[data-place=cache] .ft-hint").last
    expect(hint).to_have_text(f"Safe to delete. {cache.bound()}")
    data = page.locator("[data-place=data]")
    assert data.locator("code").inner_text() == str(app.data_dir)
    data.get_by_role("button", name="Copy the path").click()
    assert page.evaluate("navigator.clipboard.readText()") == str(app.data_dir)
    manager = tmp_path / "xdg-open"
    manager.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    manager.chmod(manager.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    warnings.simplefilter("ignore", ResourceWarning)  # nobody waits for a file manager's end
    data.get_by_role("button", name="Open").click()
    opened = tmp_path / "opened"
    while not (opened.is_file() and opened.read_text()):
        page.wait_for_timeout(20)
    assert opened.read_text().strip() == str(app.data_dir)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    data.get_by_role("button", name="Open").click()
    page.locator("#settings-page .ft-error", has_text="No file manager").wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    for path in page.locator(".places code").all():
        assert path.bounding_box()["width"] > 300, "it was a letter wide"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="Manage downloads").click()
    page.locator("#models-page").wait_for()


def test_everything_asked_is_forgotten_after_a_question(page, app):
    page.get_by_role("link", name="Chat", exact=True).click()
    ask(page, "Where is the treasure?")
    page.fill(".composer textarea", "Under the oak?")
    page.get_by_role("link", name="Settings").click()
    forget = part(page, "history")
    forget.get_by_text("1 chat").first.wait_for()
    forget.locator("[data-act=forget]").click()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Enter")
    forget.locator("[data-act=forget]").click()
    forget.get_by_role("button", name="Delete permanently").click()
    forget.get_by_text("Chat history deleted").wait_for()
    forget.get_by_text("0 chats").wait_for()
    forget.get_by_role("button", name="Reload now").click()
    with app.store() as store:
        assert store.chats() == ()
    for file in app.data_dir.glob("chats.db*"):
        assert b"treasure" not in file.read_bytes()
    page.get_by_role("link", name="Chat", exact=True).click()
    page.wait_for_selector(".empty")
    assert page.input_value(".composer textarea") == ""
    assert page.locator(".chat-list li[data-chat]").count() == 0
    assert "oak" not in page.evaluate("JSON.stringify(localStorage)")


def test_diagnostics_are_read_before_they_are_copied(page, app):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    diagnostics = part(page, "diagnostics")
    diagnostics.locator("[data-act=copy-diagnostics]").click()
    diagnostics.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "instructions: " in copied
    assert f"loaded: {app.engine.loaded.name}" in copied
    diagnostics.locator("[data-act=show-diagnostics]").click()
    assert diagnostics.locator(".report").inner_text().startswith("Foretoken")
