"""The Train page in a real browser: every state of a run, and a process that is started and stopped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from unittest.mock import Mock

import pytest

from app.training.runs import Trainings
from engine.drafting.learned import LearnedHead, LearnedState, Trial
from engine.errors import InvalidRequest
from tests.app.ui.chatting import go
from tests.app.ui.runs import NAME, no_orphans, write_log, write_run
from tests.support.fake_engine import CAPABILITIES
from tests.support.places import PIP

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]
OWN_APP = True


@pytest.fixture
def page(same_page):
    return same_page


@pytest.fixture(autouse=True)
def _no_runs(app):
    with no_orphans():
        yield
    shutil.rmtree(app.data_dir / "training", ignore_errors=True)


def opened(page) -> None:
    go(page, "train")
    page.wait_for_selector(".ft-train .ft-panel")


def test_a_training_is_started_stopped_kept_over_a_reload_and_discarded(
    page, app, tmp_path, monkeypatch
):
    before = app.engine.loaded
    app.runtime.loader.unload()  # the form's model was "None" then
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"Door {n}?"}) + "\n" for n in range(4)))
    opened(page)
    assert page.locator("#train-page input[value=chats]").is_disabled()
    page.locator("#train-page input[value=file]").check()
    page.fill(".ft-train [name=file]", str(tmp_path / "nothing.jsonl"))
    page.click("#train-page [data-act=start]")
    page.wait_for_selector(".ft-train form .ft-error:has-text('cannot be read')")
    app.engine.loaded = before
    page.fill(".ft-train [name=file]", str(file))
    page.click("#train-page [data-act=start]")
    page.wait_for_selector(".run-state.running")
    assert "From prompts.jsonl" in page.inner_text("[data-run] header")
    with monkeypatch.context() as refusing:
        why = InvalidRequest("training", "It cannot be stopped now.")
        refusing.setattr(Trainings, "stop", Mock(side_effect=why))
        page.click("#train-page [data-act=stop]")
        page.wait_for_selector(".ft-train .ft-error:has-text('cannot be stopped')")
    for _ in range(2):  # it looks each second, and the error was gone
        with page.expect_response(lambda answer: '"training"' in (answer.request.post_data or "")):
            pass
    assert page.is_visible(".ft-train .ft-error")
    page.click("#train-page [data-act=stop]")
    page.wait_for_selector(".run-state.stopped", timeout=120_000)
    page.reload()
    opened(page)
    page.wait_for_selector(".run-state.stopped")
    assert page.is_visible("[data-act=resume]")
    page.click("[data-act=discard]")
    page.click("[data-act=discard].danger")
    page.wait_for_selector("#train-page [data-act=start]")
    assert not (app.data_dir / "training" / NAME).exists()


def test_a_running_one_shows_its_figures(page, app):
    folder = write_run(
        app.data_dir, running=True, phase="recording", done=12, of=40, seconds_left=90
    )
    opened(page)
    page.wait_for_selector(".caption:has-text('12 replies recorded, 1 min 30 s left')")
    shown = float(page.get_attribute("[data-run] progress", "value"))
    assert shown == 1 - 90 / (8 * 60), "of 12,000 prompts the bar showed 3"
    write_log(folder, 30)
    told = {"phase": "learning", "share": 0.31, "seconds_left": 330}
    (folder / "progress.json").write_text(json.dumps(told))
    page.wait_for_selector(".caption:has-text('31 %, 5 min 30 s left')")
    assert page.get_attribute("[data-run] progress", "value") == "0.31"
    assert page.locator(".run-charts .chart").count() == 2
    assert "1.73" in page.inner_text(".run-charts figure:nth-child(2)")
    assert "23\xa0%" in page.inner_text(".positions")
    measured = {"done": 24, "of": 96, "seconds_left": 60}
    for share, value, step in ((0.4, 0.4, "Train"), (1.0, 0.25, "Measure")):
        told = {"phase": "measuring", "share": share, **measured}
        (folder / "progress.json").write_text(json.dumps(told))
        page.wait_for_selector(f"[data-run] progress[value='{value:g}']")
        assert page.inner_text(".steps [aria-current=step]") == step
    assert "24 of 96 replies, 1 min 00 s left" in page.inner_text("[data-run] .caption")
    (folder / "medusa.jsonl").unlink()  # too short to log a loss
    page.wait_for_function("!document.querySelector('.run-charts')")
    stopped = json.dumps({**told, "phase": "stopped"})
    (folder / "progress.json").write_text(stopped)
    current = app.data_dir / "training" / "current.json"
    current.write_text(json.dumps({**json.loads(current.read_text()), "process": None}))
    page.wait_for_selector(".run-state.stopped")
    assert page.inner_text(".steps .current") == "Measure", "it went back to Train"
    assert "while its acceptance was measured" in page.inner_text("[data-run]")


def test_a_failed_one_says_why_and_can_be_tried_again(page, app):
    why = "Writing failed: No space left on device. <b>Make room</b>."
    write_run(app.data_dir, phase="failed", message=why)
    opened(page)
    page.wait_for_selector(".run-state.failed")
    assert page.inner_text("[data-run] .ft-error") == why
    assert page.inner_text("[data-act=resume]") == "Try again"


def test_a_done_one_is_loaded_raced_and_makes_room_for_another(page, app, monkeypatch):
    """Beside a draft model it was loaded and not used, and its race was one of that draft."""
    drafter = app.data_dir / "training" / NAME / "medusa"
    (app.data_dir / "model_catalog.yaml").write_text(
        "pairs:\n  - {id: pip-medusa-1, name: Pip + medusa 1, target: pip, draft: pip-draft,"
        f" heads: [{PIP / 'medusa'}]}}\n"
    )
    medusa = replace(CAPABILITIES.proposers[1], name="medusa")
    with_head = replace(CAPABILITIES, proposers=(*CAPABILITIES.proposers, medusa))
    monkeypatch.setattr(app.engine, "capabilities", with_head)
    folder = write_run(app.data_dir, phase="done", folder=str(drafter), pair=NAME)
    write_log(folder, 60)
    before = app.engine.loaded
    opened(page)
    page.wait_for_selector(".run-state.done")
    assert "1.73 tokens per round" in page.inner_text(".run-end")
    assert str(drafter) in page.inner_text(".run-end")
    page.click("[data-act=load]")
    page.wait_for_selector(".loaded-next")
    assert app.engine.loaded.name == "Pip + medusa 1"
    page.click("text=Compare with before")
    page.wait_for_url("**/race")
    page.wait_for_selector(".race-form [data-act=start]:visible")
    page.wait_for_function("document.querySelector('[name=rival-method]').value === 'medusa'")
    assert page.input_value("[name=base-method]") == "draft", "the draft that there was"
    page.go_back()
    page.click(".loaded-next >> text=Chat with it")
    page.wait_for_selector(".badge:has-text('Medusa heads, auto')")
    page.go_back()
    page.click("[data-act=another]")
    page.wait_for_selector("#train-page [data-act=start]")
    assert folder.is_dir()
    app.engine.loaded = before


def test_what_a_head_learned_is_switched_shown_put_back_and_forgotten(page, app):
    folder = app.data_dir / "learned" / "target" / "head"
    (folder / "head").mkdir(parents=True)
    place = LearnedHead(folder)
    for _ in range(100):
        place.add(range(20), 10)
    trial = Trial("2026-11-25", 120, 9000, 60.0, 3.1, 3.9, 5.2, 5.2, True)
    days = {"2026-11-24": (60, 400, 800), "2026-11-25": (40, 300, 900)}
    place.keep(LearnedState("Pip, eagle3", True, 0, (trial,), days))
    opened(page)
    panel = page.locator("[data-part=learning]")
    assert not app.runtime.learning.on
    panel.locator("[name=learn]").click()
    panel.locator("[role=status]").wait_for()
    assert app.runtime.preferences.read().learn and app.runtime.learning.on
    assert "100 stored replies, 700 drafted rounds, 2026-11-24 to 2026-11-25" in panel.inner_text()
    assert "3.10 → 3.90 tokens per round" in panel.inner_text()
    assert "4.00" in panel.locator(".chart").get_attribute("aria-label")
    panel.locator("[data-act=published]").click()
    panel.locator("[data-act=learned]").wait_for()
    assert not place.state().used
    panel.locator("[data-act=learned]").click()
    panel.locator("[data-act=published]").wait_for()
    assert place.state().used
    panel.locator("[data-act=forget]").click()
    panel.locator("[data-act=forget].danger").click()
    panel.locator("[data-head]").wait_for(state="detached")
    assert not (app.data_dir / "learned").exists()
    panel.locator("[name=learn]").click()
    panel.locator("[role=status]").wait_for(state="detached")
    assert not app.runtime.preferences.read().learn
