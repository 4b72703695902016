"""The Server page in a real browser: calls that run as they are copied, key, origins, and requests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading

import httpx
import pytest

from app.main import Settings, switch_of
from tests.support.recital import REPLIES

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

CHAT = "v1/chat/completions"


@pytest.fixture
def page(same_page, app):
    same_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    same_page.get_by_role("link", name="Server", exact=True).click()
    same_page.get_by_role("switch").wait_for()
    app.switch.set(True)
    reopen(same_page)
    same_page.wait_for_selector("#server-page [role=switch]:checked")
    yield same_page
    if app.switch.api_key:
        app.switch.remove_key()
    app.switch.set(False)


def reopen(page):
    """What was changed behind the page's back is seen when it is looked at again."""
    page.get_by_role("link", name="Chat", exact=True).click()
    page.get_by_role("link", name="Server", exact=True).click()


def ask(app, text: str, **more) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], **more.pop("body", {})}
    return httpx.post(f"{app.url}{CHAT}", json=body, timeout=60, **more)


def test_the_switch_turns_the_endpoint_on_and_off(page, app):
    page.get_by_role("switch").press("Space")
    page.wait_for_selector("#server-page [role=switch]:not(:checked)")
    while app.switch.on:
        page.wait_for_timeout(20)  # the test's own limit ends it
    assert ask(app, "Hi").status_code == 404
    page.get_by_role("switch").click()
    page.wait_for_selector("#server-page [role=switch]:checked")
    while not app.switch.on:
        page.wait_for_timeout(20)
    assert "only this machine can reach the server" in page.inner_text("[data-access=key]")
    app.switch.needs_key = True  # as with --host 0.0.0.0
    try:
        reopen(page)
        page.wait_for_selector("[data-access=key]:has-text('--api-key-file')")
        assert "only this machine" not in page.inner_text("[data-access=key]")
    finally:
        app.switch.needs_key = False


def copied(page, name: str) -> str:
    """What the button of a call copies."""
    page.locator(f"#tab-call-{name}").click()
    page.locator(f"#pane-call-{name} .code-bar button").click()
    page.wait_for_selector(f"#pane-call-{name} .code-bar button:has-text('Copied')")
    return page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n")


def run(page, name: str, text: str) -> str:
    """What a call prints, run as people run it."""
    if name == "javascript" and shutil.which("node") is None:  # in a page, which reaches it too
        code = text.replace("console.log", "return ")
        return page.evaluate(f"(async () => {{ {code} }})()")
    command = {
        "curl": ["bash", "-c", text],
        "python": [sys.executable, "-c", text],
        "javascript": ["node", "--input-type=module", "-e", text],
        "powershell": [shutil.which("pwsh") or "powershell", "-NoProfile", "-Command", text],
    }[name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    if name == "curl":
        return json.loads(done.stdout)["choices"][0]["message"]["content"]
    return done.stdout.strip()


def test_calls_run_as_they_are_copied_with_a_key_and_without(page, app):
    names = ["curl", "python", "javascript"]
    if shutil.which("pwsh") or sys.platform == "win32":
        names.append("powershell")
    page.locator("[data-act=make-key]").click()
    page.wait_for_selector("[data-act=show-key]")
    key = app.switch.api_key
    assert ask(app, "Hi").status_code == 401
    for name in names:
        text = copied(page, name)
        assert key in text
        assert key not in page.inner_text(f"#pane-call-{name} pre")  # until it is asked for
        assert run(page, name, text) == REPLIES["plain"]
    page.locator("[data-act=show-key]").click()
    page.click("#tab-call-curl")
    assert key in page.inner_text("#pane-call-curl pre")
    page.locator("[data-act=show-key]").click()
    page.locator("[data-act=remove-key]").click()
    page.wait_for_selector("[data-access=key]:has-text('Not required')")
    for name in names[:2]:
        assert run(page, name, copied(page, name)) == REPLIES["plain"]
    rows = page.locator(".requests tbody[data-stage=done]")
    page.wait_for_function(
        "(n) => document.querySelectorAll('.requests [data-stage=done]').length >= n",
        arg=len(names) + 2,
    )
    programs = " ".join(rows.locator("[data-cell=from]").all_inner_texts())
    for sign in ("this machine", "curl/", "OpenAI/Python", "node"):
        assert sign in programs or (sign == "node" and shutil.which("node") is None)
    first = rows.first  # the newest: python without a key
    assert first.locator("[data-cell=what]").inner_text().startswith("pip")
    assert first.locator("[data-cell=method]").inner_text() == "Draft model"
    assert re.fullmatch(r"\d+ → [1-9]\d*", first.locator("[data-cell=tokens]").inner_text())
    assert re.search(r"[1-9]", first.locator("[data-cell=speed]").inner_text())
    assert "%" in first.locator("[data-cell=accepted]").inner_text()


def test_quotes_of_each_shell_hold_whatever_a_key_has(page):
    """The copied curl once failed for "Pip + Pip's draft"."""
    given = {"base": "http://127.0.0.1:1/v1", "model": "it's a $model", "key": "k'$(date)`\"\\"}
    found = page.evaluate(
        """async (given) =>
          (await import(document.querySelector("script[src$='/app.js']").src)).calls(given)""",
        given,
    )
    body = {
        "model": given["model"],
        "messages": [{"role": "user", "content": "What is speculative decoding?"}],
    }
    said = subprocess.run(
        ["bash", "-c", f"curl() {{ printf '%s\\0' \"$@\"; }}\n{found['curl']}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")[:-1]
    assert said[:-1] == [
        "http://127.0.0.1:1/v1/chat/completions",
        "-H",
        "Content-Type: application/json",
        "-H",
        f"Authorization: Bearer {given['key']}",
        "-d",
    ]
    assert json.loads(said[-1]) == body
    # PowerShell's rule for single quotes: all stands for itself, and two are one.
    literals = [
        each.replace("''", "'") for each in re.findall(r"'((?:[^']|'')*)'", found["powershell"])
    ]
    assert json.loads(literals[0]) == body
    assert f"Bearer {given['key']}" in literals


def test_a_request_is_seen_as_it_comes_and_can_be_cancelled(page, app):
    app.engine.seconds_a_round = 0.1
    events: list[str] = []

    def follow() -> None:
        body = {"messages": [{"role": "user", "content": "Write 2000 tokens."}], "stream": True}
        with httpx.stream("POST", f"{app.url}{CHAT}", json=body, timeout=60) as reply:
            events.extend(line for line in reply.iter_lines() if line.startswith("data: {"))

    client = threading.Thread(target=follow)
    client.start()
    row = page.locator(".requests tbody[data-stage=running]")
    row.wait_for()
    before = row.locator("[data-cell=tokens]").inner_text()
    page.wait_for_function(
        "(was) => document.querySelector('[data-stage=running] [data-cell=tokens]').innerText !== was",
        arg=before,
    )
    row.locator("[data-act=cancel]").click()
    page.wait_for_selector(".requests thead + tbody[data-stage=cancelled]")
    client.join(30)
    assert not client.is_alive()
    error = json.loads(events[-1].removeprefix("data: "))["error"]
    assert error["code"] == "cancelled"
    assert "on the Server page" in error["message"]
    while app.engine.busy:  # a moment longer than its client was told
        page.wait_for_timeout(20)


def test_the_model_is_the_one_that_is_loaded_now(page, app):
    before = app.engine.loaded
    app.runtime.loader.unload()
    page.evaluate("Foretoken.refresh()")
    page.wait_for_selector(".api-switch:has-text('No model is loaded')")
    app.engine.loaded = before
    page.evaluate("Foretoken.refresh()")
    page.wait_for_selector(".api-switch dd code:text-is('pip')")


def test_what_is_refused_is_told_with_the_reason(page, app):
    assert ask(app, "Hi", body={"model": "gpt-17"}).status_code == 404
    page.wait_for_selector(".requests tbody[data-stage=refused] .why:has-text('gpt-17')")
    strange = {"origin": "https://elsewhere.example"}
    assert ask(app, "Hi", headers=strange).status_code == 403
    page.wait_for_selector(".requests .why:has-text('elsewhere.example')")


def test_an_origin_is_allowed_until_it_is_removed(page, app):
    origin = {"origin": "https://pages.example"}
    page.fill("[data-form=origin] input", "not an origin")
    page.click("[data-form=origin] button")
    page.wait_for_selector(".ft-panel:has-text('Access') .ft-error:has-text('is not an origin')")
    page.fill("[data-form=origin] input", "https://Pages.example/some/page")
    page.click("[data-form=origin] button")
    page.wait_for_selector(".origins code:text-is('https://pages.example')")
    reply = ask(app, "Hi", headers=origin)
    assert reply.headers["access-control-allow-origin"] == origin["origin"]
    asked = {**origin, "access-control-request-method": "POST"}
    assert httpx.options(f"{app.url}{CHAT}", headers=asked, timeout=60).status_code == 200
    page.fill("[data-form=key] input", "a key of mine")
    page.click("[data-form=key] button")
    page.wait_for_selector("#server-page .ft-error:has-text('must be one word')")
    page.fill("[data-form=key] input", "a-key-of-mine")
    page.click("[data-form=key] button")
    page.wait_for_selector("[data-act=remove-key]")
    again, _ = switch_of(Settings(), app.data_dir)  # as at the next start
    assert (again.on, again.api_key, again.origins) == (
        True,
        "a-key-of-mine",
        ("https://pages.example",),
    )
    page.click("[data-act=forbid]")
    page.locator(".origins li").wait_for(state="detached")
    key = {"authorization": "Bearer a-key-of-mine"}
    assert ask(app, "Hi", headers={**origin, **key}).status_code == 403
    assert ask(app, "Hi", headers=key).status_code == 200
