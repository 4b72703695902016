"""Servers in a real browser: asked, connected to, chatted with, and forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from engine.loading.request import LoadRequest
from engine.remote.engine import RemoteEngine
from tests.app.ui.chatting import ask, hold_first, open_methods, open_settings
from tests.app.ui.conftest import App, serving
from tests.support.model_server import Played, playing, said, sse
from tests.support.processes import free_port
from tests.support.recital import REPLIES, recite
from tests.support.remote import Far, far_away

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True

TIMINGS = {"predicted_n": 3, "predicted_ms": 30.0, "draft_n": 8, "draft_n_accepted": 3}
HALF = sse(*said("Half", reason=None), done=False)
BUSY = {"error": {"message": "Too many requests"}}
WHOLE = sse(*said("Hello", " there"), {"choices": [], "timings": TIMINGS})


@pytest.fixture(scope="module")
def llama() -> Iterator[Played]:
    """One that tells text and counts, and needs a key."""
    models = ({"id": "qwen", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}},)
    with playing(Played(models=models, key="secret", stream=WHOLE)) as played:
        yield played


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    """Another Foretoken, which tells everything."""
    with far_away(tmp_path_factory.mktemp("far"), recite) as found:
        found.load(LoadRequest(target="pip"))
        yield found


@pytest.fixture(scope="module")
def own_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
        patch.setenv("FORETOKEN_SERVER_KEYS", str(folder / "keys"))
        engine = RemoteEngine()
        with serving(folder, engine) as running:  # type: ignore[arg-type]
            yield running
        engine.close()


@pytest.fixture
def page(same_page):
    return same_page


def servers(page):
    """The section of the Models page."""
    page.locator("nav").get_by_role("link", name="Models", exact=True).click()
    page.click("#tab-models-servers")
    return page.locator(".ft-models .servers")


def ask_server(page, address: str, key: str = ""):
    section = servers(page)
    section.locator("input[name=address]").fill(address)
    section.locator("input[name=server-key]").fill(key)
    section.get_by_role("button", name="Find models").click()
    return section


def connect(page, llama: Played) -> None:
    found = ask_server(page, llama.url, "secret").locator(".server-found")
    found.get_by_role("button", name="Connect to qwen").click()
    expect(page.locator(".ft-models .now")).to_contain_text("qwen on 127.0.0.1")


@pytest.fixture
def connected(page, app: App, llama: Played) -> None:
    """The chat with that server's model. It was connected to by a test before, unless that ran in another
    process, or did not run: then the chip would name no model for ever."""
    if app.engine.loaded is None or app.engine.loaded.target != "qwen":
        connect(page, llama)
    to_chat(page, "qwen on 127.0.0.1")


def to_chat(page, title: str) -> None:
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(page.locator(".badge")).to_contain_text(title)


def test_a_server_is_asked_then_chatted_with_and_shows_what_it_counts(page, llama: Played) -> None:
    section = ask_server(page, llama.url)
    expect(section.locator(".ft-error")).to_contain_text("needs a key")
    section = ask_server(page, llama.url, "secret")
    found = section.locator(".server-found")
    expect(found).to_contain_text("llama-server at 127.0.0.1")
    expect(found.locator("[data-model=qwen]")).to_contain_text("4,096 tokens of context")
    connect(page, llama)
    expect(page.locator(".ft-models .now")).not_to_contain_text("no draft")
    expect(section).to_contain_text("the key is stored in")
    expect(section.locator(".known-servers li")).to_contain_text("connected")
    to_chat(page, "qwen on 127.0.0.1")
    ask(page, "Hi")
    reply = page.locator(".msg.assistant").last
    expect(reply.locator(".body")).to_have_text("Hello there")
    expect(reply.locator("[data-stat=tokens_per_s]")).to_contain_text("100")
    reply.get_by_role("button", name="More figures").click()
    expect(reply.locator("[data-stat=acceptance_rate]")).to_contain_text("38 %")
    expect(reply.locator("[data-stat=mean_acceptance_length]")).to_have_count(0)
    expect(page.locator(".lanes-empty")).to_contain_text("does not report rounds")
    assert page.locator(".totals div").count() == 0


def test_a_server_that_cannot_be_chatted_with_is_told_of(page) -> None:
    section = ask_server(page, f"http://127.0.0.1:{free_port()}")
    expect(section.locator(".ft-error")).to_contain_text("Nothing answers at")
    for played, told in (
        (Played(found={"/v1/models": "<html></html>"}), "does not speak OpenAI's protocol"),
        (Played(models=()), "No models found there"),
        (Played(found={"/v1/models": (429, {"Retry-After": "3600"}, BUSY)}), "in 3600 s"),
    ):
        with playing(played):
            expect(ask_server(page, played.url).locator(".ft-error")).to_contain_text(told)
    with playing(Played()) as played:
        found = ask_server(page, f"{played.url}#large").locator(".server-found")
        expect(found.locator(".ft-error")).to_contain_text('No model "large"')
        expect(found.locator("[data-model=small]")).to_be_visible()


def test_a_key_typed_for_another_server_is_not_sent_to_the_one_that_was_found(page) -> None:
    """Connect sent the key that was in the form by then."""
    with playing(Played()) as played:
        section = ask_server(page, played.url)
        button = section.get_by_role("button", name="Connect to small")
        expect(button).to_be_visible()
        section.locator("input[name=server-key]").fill("secret")
        expect(button).to_have_count(0)
        held = hold_first(page, "ask_server")
        ask_server(page, played.url)
        section.locator("input[name=server-key]").fill("secret")  # before the answer
        expect(section).to_contain_text("Connecting")
        held[0].continue_()
        button.click()
        expect(page.locator(".ft-models .now")).to_contain_text("small on 127.0.0.1")
        assert "secret" not in {each.key for each in played.asked}
    page.unroute("**/*")


@pytest.mark.usefixtures("connected")
def test_what_it_cannot_do_cannot_be_chosen(page) -> None:
    open_settings(page)
    expect(page.locator("#depth input[type=number]")).to_be_disabled()
    assert page.locator("#controller option").all_inner_texts() == ["auto"]
    assert page.locator(".segment").count() == 2
    popover = open_methods(page)
    expect(popover.locator(".method")).to_contain_text("as configured on the server")
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Rounds").click()


@pytest.mark.usefixtures("connected")
def test_a_reply_that_breaks_off_stays_in_the_chat(page, llama: Played) -> None:
    reply = page.locator(".msg.assistant").last
    for stream, told in (
        (HALF, "was lost during the reply"),
        ([*HALF, b"data: {oops\n\n"], "does not speak OpenAI's protocol"),
        ([*HALF, None], "was lost during the reply"),
    ):
        llama.stream = stream
        ask(page, "Hi", status="failed")
        expect(reply.locator(".ft-error")).to_contain_text(told)
        expect(reply.locator(".body")).to_have_text("Half")
    llama.stream = WHOLE
    for refusal, told in (
        ((429, {"Retry-After": "3600"}, BUSY), "Try again in 3600 s"),
        ((503, {"Retry-After": "60"}, BUSY), "Try again in 60 s"),
        ((401, {}, BUSY), "rejected the key"),
    ):
        llama.refusals.append(refusal)
        ask(page, "Hi", status="failed")
        expect(reply.locator(".ft-error")).to_contain_text(told)
    reply.locator("[data-action=retry]").click()
    expect(page.locator(".msg.assistant").last.locator(".body")).to_have_text("Hello there")


def test_another_foretokens_rounds_are_seen_as_if_they_were_here(page, far: Far) -> None:
    section = ask_server(page, f"{far.url}/v1")
    expect(section.locator(".server-found")).to_contain_text("Foretoken")
    section.locator(".server-found .ft-button").click()
    to_chat(page, "Pip")
    ask(page, "plain")
    reply = page.locator(".msg.assistant").last
    expect(reply.locator(".body")).to_have_text(REPLIES["plain"])
    reply.locator("[data-action=rounds]").click()
    expect(page.locator(".lane").first).to_be_visible()
    popover = open_methods(page)
    expect(popover.locator("[data-method=ngram] input")).to_be_enabled()
    page.keyboard.press("Escape")


@pytest.mark.usefixtures("connected")
def test_a_server_is_forgotten(page) -> None:
    section = servers(page)
    section.get_by_role("button", name="Remove qwen").click()
    expect(section.locator(".known-servers")).not_to_contain_text("qwen")
