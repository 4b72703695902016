"""What a reader sees of speed and rounds: dial, figures, meter, rows, tooltips, replay, and its files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import pytest
from playwright.sync_api import expect

from app.ui.rounds import view
from engine import trace
from engine.events import Emitted
from engine.reply import ReplyState
from tests.app.ui.chatting import DONE, ask, last_trace, send_endless
from tests.support.browsers import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

CLEAN = re.compile(r"[·⏎\s]+")


@pytest.fixture
def page(same_page):
    yield same_page
    same_page.evaluate("document.querySelector('.replay-drawer[open] summary')?.click()")


def kept(app) -> list[Emitted]:
    """The rounds of the newest reply, as events."""
    events = trace.read(json.dumps(line) for line in last_trace(app))
    return [event for event in events if isinstance(event, Emitted)]


def figures(events) -> dict:
    """What the page shows of some rounds."""
    reply = ReplyState()
    for event in events:
        reply.add(event)
    return view.totals(reply)


def percent(x: float | None) -> str:
    """As format.ts writes it: halves go up."""
    if x is None:
        return "–"
    place = Decimal("0.1") if 0 < x < 0.1 else Decimal(1)
    return f"{Decimal(100 * x).quantize(place, ROUND_HALF_UP)}\u00a0%"


def told(text: str) -> str:
    """Without the signs that stand for spaces."""
    return CLEAN.sub(" ", text).strip()


def test_each_round_is_a_row_and_a_click_shows_its_words(page, app):
    ask(page, "What is it?")
    rounds = [event.round for event in kept(app)]
    page.wait_for_selector(f".lanes[data-rounds='{len(rounds)}']")
    page.evaluate("document.querySelector('.lanes').scrollTop = 0")
    for turn in rounds[:8]:
        row = page.locator(f".lane[data-round='{turn.index}']")
        accepted, drafted = turn.accepted, len(turn.tree)
        label = row.locator(".row-head").get_attribute("aria-label")
        assert label.startswith(f"Round {turn.index + 1}: {accepted} of {drafted} accepted")
        assert ("rejected at" in label) == (accepted < drafted)
        assert row.locator(".cell-cap").count() == (accepted < drafted)
        cells = row.locator(".cell-kept")
        assert cells.count() == (accepted > 0)
        if accepted:
            assert cells.evaluate("node => node.style.getPropertyValue('--n')") == str(accepted)
    assert page.locator(".lane .chip").count() == 0
    head = page.locator(".lane .row-head").first
    head.click()
    assert head.get_attribute("aria-expanded") == "true"
    chips = page.locator(".lane .chip")
    assert chips.count() == len(rounds[0].tree) + 1
    head.click()
    assert chips.count() == 0
    page.locator(".lanes").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    focused = "document.activeElement.closest('.lane')?.dataset.round"
    assert page.evaluate(focused) == "1"
    assert page.evaluate("document.activeElement.matches('.chip')")
    assert page.locator(".probe:visible").count() == 1
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".lane[data-round='1'] .row-head[aria-expanded=false]").count() == 1
    found = figures(kept(app))
    accepted = f"{found['accepted']} ({percent(found['acceptance_rate'])})"
    for name, value in (("rounds", str(len(rounds))), ("accepted", accepted)):
        assert page.locator(f"[data-total={name}] dd").inner_text() == value


def test_a_tooltip_is_a_sentence_with_the_three_likeliest(page, app):
    ask(page, "What is it?")
    page.click("[data-action=words]")
    broken = next(event for event in kept(app) if len(event.round.accepted_path) < 4)
    at = len(broken.round.accepted_path)
    row = page.locator(f".lane[data-round='{broken.round.index}']")
    row.locator(".chip.rejected").hover()
    probe = page.locator(".probe:visible")
    guess, own = broken.drafted[at].strip(), broken.next_text.strip()
    assert told(probe.locator("p").inner_text()) == told(
        f"The draft guessed {guess} ({percent(broken.round.q[at])}). "
        f"The target gives it 4.0 %, and prefers {own} (90 %)."
    )
    ranking = [told(text) for text in probe.locator(".ranking .probe-token").all_inner_texts()]
    assert ranking == [told(text) for text in broken.top_texts]
    assert len(ranking) == 3
    widths = probe.locator(".ranking .fill").evaluate_all(
        "all => all.map((bar) => bar.style.width)"
    )
    assert widths[0] == "90%", "the whole track is 100 %"
    row.locator(".chip.correction").hover()
    said = told(probe.locator("p").inner_text())
    assert said == told(f"The target's own {own} (90 %), instead of {guess}.")
    page.mouse.move(5, 5)
    page.click("[data-action=words]")


def test_a_tap_shows_what_became_of_a_token_and_another_hides_it(app, browser):
    """A finger does not hover, and nothing hid what its first tap had brought."""
    context = browser.new_context(viewport={"width": 900, "height": 800}, has_touch=True)
    context.set_default_timeout(PATIENCE)
    finger = context.new_page()
    finger.goto(app.url)
    finger.wait_for_selector("body[data-controls=ready]")
    ask(finger, "What is it?")
    if not finger.locator(".lanes").is_visible():
        finger.locator("[data-toggle=drawer]").tap()
    finger.locator("[data-action=words]").tap()
    chips, probe = finger.locator(".lane").first.locator(".chip"), finger.locator(".probe:visible")
    chips.first.tap()
    assert "The draft guessed" in probe.inner_text()
    assert chips.first.get_attribute("aria-describedby") == probe.get_attribute("id")
    chips.first.tap()
    expect(probe).to_have_count(0)  # the browser sends a tap's click later
    chips.last.tap()
    assert "The target" in probe.inner_text()
    finger.locator(".composer textarea").tap()
    expect(probe).to_have_count(0)
    context.close()


def test_a_word_lights_its_round_and_a_round_its_words(page, app):
    ask(page, "What is it?")
    events = kept(app)
    ends, seen = [], 0
    for event in events:
        seen += sum(bool(token.text) for token in event.tokens)
        ends.append(seen)
    wanted = len(events) // 2
    token = ends[wanted] - 1
    page.locator(".msg.assistant .body p").hover()  # its marks are drawn where somebody points
    page.locator(f".msg.assistant .mark[data-token='{token}']").first.hover()
    assert page.locator(".lane.lit").get_attribute("data-round") == str(wanted)
    page.mouse.move(5, 5)
    page.wait_for_function("!document.querySelector('.lane.lit')")
    row = page.locator(f".lane[data-round='{wanted}'] .row-head")
    row.hover()
    lit = page.locator(".msg.assistant .mark.lit")
    assert "".join(lit.all_text_contents()) == "".join(t.text for t in events[wanted].tokens)
    page.mouse.move(5, 5)
    page.wait_for_function("!document.querySelector('.mark.lit')")


def test_a_bar_tells_the_speed_while_it_writes_and_a_line_afterwards(page, app):
    app.engine.seconds_a_round = 0.05
    send_endless(page, app, stands=60)
    bar = page.locator(".msg.assistant .speed-bar")
    bar.wait_for()
    assert re.fullmatch(r"[\d.]+ tokens/s", bar.locator("[data-bar=speed] b").inner_text())
    page.wait_for_selector(
        "[data-bar=speed] .mark-told:text-matches('^[0-9.]+x .without drafting: 20.0 tokens/s.$')"
    )
    assert bar.locator("[data-bar=speed] .tick").count() == 1
    assert bar.get_attribute("aria-live") == "off"  # it is in a log, which is read out
    page.wait_for_selector(".latest .chip")
    page.click(".composer .stop")
    page.wait_for_selector(".msg.assistant[data-status=cancelled]")
    assert bar.count() == 0
    page.wait_for_selector(".latest", state="hidden")
    found = figures(kept(app))
    foot = page.locator(".msg.assistant .figures")
    assert foot.locator("[data-stat=tokens_per_s]").is_visible()
    assert foot.locator("[data-stat=speedup]").inner_text() == f"{found['speedup']:.1f}x"
    assert foot.locator("[data-stat=acceptance_rate]").is_hidden()
    foot.get_by_role("button", name="More figures").click()
    rate = f"{percent(found['acceptance_rate'])} of drafted tokens accepted"
    assert foot.locator("[data-stat=acceptance_rate]").inner_text() == rate


def test_what_nobody_measured_is_said_to_be_unknown(page):
    drawn = page.evaluate(
        """async () => {
          const script = document.querySelector("script[src$='/app.js']").src;
          const { SpeedBar, h, render, scaleFor } = await import(script);
          const root = document.createElement("div");
          document.body.append(root);
          const stats = { completion_tokens: 80, tokens_per_s: 40, plain_tokens_per_s: null,
            speedup: null, needed: null, expected: null, drafted: 8, rounds: 2 };
          const shown = [];
          const known = { plain_tokens_per_s: 20, speedup: 2, needed: 0.58, expected: 0.41 };
          for (const more of [{}, known, { completion_tokens: 20 }]) {
            render(h(SpeedBar, { stats: { ...stats, ...more } }), root);
            shown.push([root.innerText, root.querySelectorAll(".tick").length]);
          }
          root.remove();
          return [shown, [0.4, 9, 11, 42, 760].map(scaleFor)];
        }"""
    )
    (unknown, known, short), scales = drawn
    assert "not measured yet" in unknown[0]
    assert unknown[1] == 0
    assert "2.0x (without drafting: 20.0 tokens/s)" in known[0]
    assert "expected acceptance 41\u00a0%" in known[0] and "break-even 58\u00a0%" in known[0]
    assert "accepted" not in known[0], "a forecast stood here as what was measured"
    assert known[1] == 2
    assert short == ["", 0], "nothing on short replies"
    assert scales == [1, 10, 15, 50, 1000]


def test_the_meter_tells_the_context_and_warns_before_it_is_full(page, app):
    ask(page, "What is it?")
    found = figures(kept(app))
    reply = ReplyState()
    for event in trace.read(json.dumps(line) for line in last_trace(app)):
        reply.add(event)
    used = reply.statistics.prompt_tokens + found["completion_tokens"]
    meter = page.locator(".context-meter")
    assert meter.count() == 0, "it is quiet until it matters"
    loaded = app.engine.loaded
    try:
        app.engine.loaded = replace(loaded, context=round(used / 0.7))
        page.evaluate("window.Foretoken.refresh()")
        meter.get_by_text(f"{used} of").wait_for()
        app.engine.loaded = replace(loaded, context=used + 5)
        page.evaluate("window.Foretoken.refresh()")
        meter.get_by_text("Nearly full").wait_for()
        assert meter.get_attribute("data-state") == "nearly"
        app.engine.loaded = replace(loaded, context=used)
        page.evaluate("window.Foretoken.refresh()")
        meter.get_by_text("Full. Exclude").wait_for()
        box = page.locator(".composer").bounding_box()
        assert meter.bounding_box()["y"] >= box["y"] + box["height"], "the box once covered it"
    finally:
        app.engine.loaded = loaded
    page.evaluate("window.Foretoken.refresh()")
    meter.wait_for(state="detached")


def check_replay(page, events, at: int) -> None:
    """The replay of the reply (a race before may have left its own in the page) stands behind so many
    rounds, and says what they add up to."""
    pane = page.locator(".replay .replay-pane")
    assert pane.get_attribute("data-round") == str(at)
    found = figures(events[:at])
    shown = {
        node.get_attribute("data-figure"): node.locator("dd").inner_text()
        for node in pane.locator(".replay-figures > div").all()
    }
    assert shown["tokens"] == str(found["completion_tokens"])
    assert shown["rate"] == percent(found["acceptance_rate"])
    assert shown["length"] == (f"{found['mean_acceptance_length']:.2f}" if at else "–")
    said = "".join(event.text for event in events[: max(at - 1, 0)])
    assert said.endswith(pane.locator(".replay-said").text_content())
    chips = [told(text) for text in pane.locator(".replay-round .chip").all_inner_texts()]
    last = events[at - 1] if at else None
    assert chips == ([told(text) for text in (*last.drafted, last.next_text)] if last else [])


def test_a_reply_is_replayed_round_by_round(page, app):
    ask(page, "What is it?")
    events = kept(app)
    page.click(".replay-drawer summary")
    check_replay(page, events, len(events))
    scrubber = page.locator(".replay .scrubber")
    scrubber.focus()
    page.keyboard.press("Home")
    check_replay(page, events, 0)
    for at in (1, 2, 3):
        page.keyboard.press("ArrowRight")
        check_replay(page, events, at)
        assert page.locator(".lane.lit").get_attribute("data-round") == str(at - 1)
        assert f"round {at} of {len(events)}" in scrubber.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowLeft")
    check_replay(page, events, 2)
    timing = events[0].round.timing
    parts = page.locator(".replay .parts-names").inner_text()
    share = round(100 * timing.verify_s / timing.total_s)
    assert f"verify {1000 * 2 * timing.verify_s:.0f} ms ({share}\u00a0%)" in parts
    assert page.locator(".replay .replay-charts svg").count() == 2
    drawer = page.locator(".replay-drawer")
    assert drawer.evaluate("(n) => n.scrollHeight - n.clientHeight") <= 1, "its charts were cut"
    assert "Accepted by position: 1: " in page.locator(
        ".replay .replay-charts svg"
    ).first.get_attribute("aria-label")
    # Drawn at another width than they have, their words once were five pixels high. They are drawn again
    # when their width is known.
    page.wait_for_function(
        """() => [...document.querySelectorAll(".replay .replay-charts svg")].every(
          (svg) => Math.abs(svg.getBoundingClientRect().width / svg.viewBox.baseVal.width - 1) < 0.02)"""
    )
    page.locator(".replay .replay-speed").select_option("4")
    page.click(".replay [data-transport=first]")
    page.click(".replay [data-transport=play]")
    page.wait_for_selector(f".replay .replay-pane[data-round='{len(events)}']")
    page.wait_for_selector(".replay [data-transport=play][aria-label=Play]")
    check_replay(page, events, len(events))


def test_a_reply_is_saved_as_one_file_that_plays_without_a_network(page, app, browser, tmp_path):
    ask(page, "What is <b>it</b>?")
    events = kept(app)
    page.click(".replay-drawer summary")
    saved = {}
    for form in ("html", "jsonl"):
        with page.expect_download() as download:
            page.click(f"[data-save={form}]")
        saved[form] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[form])
    lines = saved["jsonl"].read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == last_trace(app)

    context = browser.new_context(offline=True)
    alone = context.new_page()
    asked, errors = [], []
    alone.on("request", lambda request: asked.append(request.url))
    alone.on("pageerror", lambda error: errors.append(str(error)))
    alone.on("console", lambda message: errors.append(message.text))
    alone.goto(saved["html"].as_uri())
    alone.wait_for_selector(f".replay .replay-pane[data-round='{len(events)}']")
    alone.focus(".replay .scrubber")
    alone.keyboard.press("Home")
    alone.keyboard.press("ArrowRight")
    check_replay(alone, events, 1)
    alone.hover(".replay-round .chip")
    assert "The draft guessed" in alone.locator(".probe:visible").inner_text()
    alone.mouse.move(5, 5)
    assert alone.locator(".probe:visible").count() == 0
    alone.focus(".replay-text")
    alone.keyboard.press("ArrowRight")
    assert "The draft guessed" in alone.locator(".probe:visible").inner_text()
    alone.keyboard.press("ArrowLeft")
    assert alone.locator(".probe:visible").count() == 0
    alone.click(".replay [data-transport=play]")
    alone.wait_for_selector(f".replay .replay-pane[data-round='{len(events)}']")
    assert asked == [saved["html"].as_uri()]
    assert errors == []
    context.close()


def test_a_reply_kept_before_is_replayed_after_a_reload(page, app):
    ask(page, "What is it?")
    rounds = len(kept(app))
    page.reload()
    page.wait_for_selector(DONE)
    page.wait_for_selector(f".lanes[data-rounds='{rounds}']")
    page.click(".replay-drawer summary")
    page.click(".replay [data-transport=first]")
    assert page.locator(".replay .replay-pane").get_attribute("data-round") == "0"
