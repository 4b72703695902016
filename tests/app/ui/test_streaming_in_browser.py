"""A reply that grows, in a real browser: over a reload, in small updates, beside somebody who reads."""

from __future__ import annotations

import pytest

from tests.app.ui.chatting import DONE, ask, forget_settings, last_trace, open_settings, send

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]


@pytest.fixture
def page(same_page):
    return same_page


def test_a_reload_during_a_reply_goes_on_with_it(page, app):
    app.engine.seconds_a_round = 0.03
    send(page, "Write 300 tokens.")
    page.wait_for_url("**/chat/*")  # the lanes may still be those of an earlier reply
    page.wait_for_function("document.querySelector('.lanes').dataset.rounds > 5")
    page.reload()
    page.wait_for_selector(DONE)
    assert page.locator(".msg.user .body").inner_text() == "Write 300 tokens."
    assert page.locator(".msg.assistant .body").inner_text().strip().endswith("word150")
    rounds = [event for event in last_trace(app) if event["type"] == "emitted"]
    page.wait_for_function(
        "n => document.querySelector('.lanes').dataset.rounds === String(n)", arg=len(rounds)
    )


def test_a_long_reply_streams_in_many_updates_and_is_sent_once(page, app):
    """How many updates a second there are is the machine's affair."""
    open_settings(page)
    page.locator("#max-tokens input").fill("2000")
    page.get_by_role("tab", name="Rounds").click()
    ask(page, "markdown please")  # a conversation that must not travel again
    app.engine.seconds_a_round = 0.012
    received = count_received(page)
    before = received[0]
    drawn = watch_lanes(page)
    ask(page, "Write 600 tokens.")
    times = page.evaluate(drawn)
    rounds = [event for event in last_trace(app) if event["type"] == "emitted"]
    assert sum(len(event["tokens"]) for event in rounds) >= 600
    assert page.get_attribute(".lanes", "data-rounds") == str(len(rounds))
    assert len(times) >= 5  # of some 180 rounds: neither at once nor in a few blocks
    # Some 250 bytes a round and 300 an update: sent whole each time, it would be megabytes.
    assert received[0] - before < 400 * len(rounds) + 600 * len(times) + 50_000
    forget_settings(page)


def count_received(page) -> list[int]:
    """Bytes that the page received so far, as a list of one number that grows."""
    session = page.context.new_cdp_session(page)
    received = [0]

    def count(event) -> None:
        received[0] += event["dataLength"]

    session.on("Network.dataReceived", count)
    session.send("Network.enable")
    return received


def watch_lanes(page) -> str:
    """Note when lanes are drawn; returns what evaluates to those times."""
    page.evaluate(
        """() => {
          window.drawn = [];
          window.watcher?.disconnect();
          window.watcher = new MutationObserver(() => window.drawn.push(performance.now()));
          window.watcher.observe(document.querySelector('.rounds'), {childList: true, subtree: true});
        }"""
    )
    return "window.drawn"


def test_rounds_stay_where_the_reader_scrolled(page, app):
    app.engine.seconds_a_round = 0.01
    send(page, "Write 400 tokens.")
    page.wait_for_function("document.querySelector('.lanes').dataset.rounds > 50")
    page.evaluate("document.querySelector('.lanes').scrollTop = 0")
    page.wait_for_selector(DONE)
    assert page.evaluate("document.querySelector('.lanes').scrollTop") < 50
    page.click(".rounds .newest")
    page.wait_for_function(
        "(() => { const l = document.querySelector('.lanes');"
        " return l.scrollHeight - l.scrollTop - l.clientHeight < 60 })()"
    )
