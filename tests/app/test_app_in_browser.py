"""The app as people have it: its own process, the embedded pair, and Chromium."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.settings.settings_file import SettingsFile
from app.storage.store import Store
from app.ui.controls.stored_settings import FILE, SETTINGS
from engine.request import Request
from engine.values.messages import Message
from engine.values.sampling import Sampling
from tests.app.test_main import running
from tests.app.ui.chatting import ask, last_trace
from tests.support.checkpoints import open_session
from tests.support.lossless import PLAIN, answer
from tests.support.places import PIP

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.filterwarnings("default")]

QUESTION = "Tell me a short tale about a little key."
SAMPLING = Sampling(temperature=0.8, seed=7)
TOKENS = 60


def test_the_page_shows_what_the_engine_says_round_by_round(
    tmp_path: Path, browser: object
) -> None:
    """Drawn words are those of plain decoding here; chips and totals those of the trace."""
    store = Store(tmp_path)
    with SettingsFile(tmp_path / FILE).change() as values:
        values[SETTINGS] = {
            "temperature": SAMPLING.temperature,
            "seed": SAMPLING.seed,
            "max_tokens": TOKENS,
        }
    with running("ui", "--no-browser", "--pair", "pip", data=tmp_path) as (_, address, _):
        page = browser.new_page()  # type: ignore[attr-defined]
        page.set_default_timeout(40_000)
        page.goto(address)
        page.wait_for_selector("body[data-controls=ready]")
        page.get_by_text("Hello, I am Pip.").wait_for()  # once the pair is loaded
        ask(page, QUESTION, status="length")
        page.set_viewport_size({"width": 1280, "height": 4000})  # all rows are in view
        page.click("[data-action=words]")
        page.wait_for_function("document.querySelector('.lanes').scrollTop === 0")
        shown = page.locator(".msg.assistant .body").inner_text()
        chips = {
            kind: page.locator(f".lane .chip.{kind}").count()
            for kind in ("accepted", "rejected", "unseen", "correction", "bonus")
        }
        lanes = int(page.get_attribute(".lanes", "data-rounds"))
        totals = {
            name: int(page.locator(f"[data-total={name}] dd").inner_text().split()[0])
            for name in ("rounds", "drafted", "accepted", "tokens")
        }
        page.context.close()

    request = Request(
        messages=(Message("user", QUESTION),),
        sampling=SAMPLING,
        speculation=PLAIN,
        max_tokens=TOKENS,
    )
    session = open_session(PIP / "target", dtype="auto")
    expected = session.codec.decode(answer(session, request).tokens)
    assert words_of(shown) == words_of(expected)

    events = last_trace(SimpleNamespace(store=lambda: nullcontext(store)))
    rounds = [event["round"] for event in events if event["type"] == "emitted"]
    accepted = sum(min(len(one["accepted_path"]), one["emitted"]) for one in rounds)
    drafted = sum(len(one["tree"]["tokens"]) for one in rounds)
    assert 0 < accepted <= drafted  # how far is drafted follows from what the machine measures
    assert totals == {
        "rounds": len(rounds),
        "drafted": drafted,
        "accepted": accepted,
        "tokens": TOKENS,
    }
    assert lanes == len(rounds)
    assert chips["accepted"] == accepted
    assert chips["rejected"] + chips["unseen"] == drafted - accepted
    corrections = sum(one["origin"] == "correction" for one in rounds)
    assert chips["correction"] == corrections
    drafting = sum(bool(one["tree"]["tokens"]) for one in rounds)  # the others fold into text
    assert chips["bonus"] == drafting - corrections


def words_of(text: str) -> list[str]:
    """Without what drawing text changes: spaces and lines."""
    return re.findall(r"\S+", text)
