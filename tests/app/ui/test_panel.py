"""The settings offer what the loaded pair can do, and say why the rest is not there."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from app.settings.defaults import Defaults, Winner
from app.settings.settings_file import SettingsFile
from app.ui.controls.panel import NAMES, SAMPLING, PanelBackend, settings_of
from app.ui.controls.settings import Settings
from app.ui.controls.stored_settings import FILE, StoredSettings
from app.ui.rounds.speeds import Speeds
from engine.api import LoadRequest, ProposerInfo
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fake_engine import CAPABILITIES, FakeEngine
from tests.support.recital import reciting_engine

ELSEWHERE = replace(
    CAPABILITIES,
    proposers=(ProposerInfo("none"), ProposerInfo("eagle")),
    preferred="eagle",
    rules=(AcceptanceRule.GREEDY,),
    sampling=frozenset({"temperature"}),
    unavailable=(),
)
"""As an engine on another machine may have it: a proposer that is none of ours, and one rule."""


@pytest.fixture
def engine() -> FakeEngine:
    return reciting_engine()


@pytest.fixture
def panel(tmp_path: Path, engine: FakeEngine) -> PanelBackend:
    return PanelBackend(
        StoredSettings(SettingsFile(tmp_path / FILE), Defaults(tmp_path), engine), Speeds()
    )


def named(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_every_sampling_parameter_has_a_control(panel: PanelBackend) -> None:
    shown = panel.panel({"first": True})["fields"]
    drawn = {each["name"] for one in shown for each in one.get("fields", [one])}
    assert set(SAMPLING) == {each.name for each in fields(Sampling)} < drawn
    assert drawn == {*NAMES, "options"} - {"proposer", "thinking"}  # beside the message


def test_what_cannot_draft_is_shown_with_the_reason(
    panel: PanelBackend, engine: FakeEngine
) -> None:
    methods = named(panel.panel()["methods"])
    assert list(methods) == ["none", "draft", "ngram", "eagle3"]
    assert methods["draft"]["default"] and methods["draft"]["why"] is None
    assert "head of kind eagle3" in methods["eagle3"]["why"]
    engine.load(LoadRequest(target="pip", draft=""))
    methods = named(panel.panel()["methods"])
    assert "needs a draft model" in methods["draft"]["why"]
    assert methods["ngram"]["default"]


def test_only_what_the_pair_offers_can_be_chosen(panel: PanelBackend, engine: FakeEngine) -> None:
    engine.capabilities = ELSEWHERE
    engine.load(LoadRequest(target="pip"))
    shown = panel.panel()
    assert (shown["rules"], shown["sampling"]) == (["auto", "greedy"], ["temperature"])
    sent = {"proposer": "suffix", "acceptance": "rejection", "top_p": 0.5, "temperature": 0.4}
    told = panel.stored.resolve_for_page(settings_of(sent, ELSEWHERE), shown["pair"])
    assert told.settings == Settings(proposer="eagle", temperature=0.4, top_p=1.0)
    assert len(told.changes) == 3
    usual = panel.stored.resolve_for_page(Settings(proposer="eagle"), shown["pair"])
    assert usual.changes == (), "what nobody chose is left out without a word"


def test_a_choice_that_is_not_taken_over_is_told_to_one_page_once(
    panel: PanelBackend, engine: FakeEngine
) -> None:
    """Each pair that had no choice of its own brought the notice back."""
    shown = panel.panel()
    chosen = {**shown["settings"], "proposer": "ngram"}
    panel.keep_settings({"settings": chosen, "pair": shown["pair"], "chosen": True})
    engine.load(LoadRequest(target="pip", draft=""))
    assert panel.panel()["news"] == [], "who asks again of the same pair is told nothing"
    engine.load(LoadRequest(target="smollm2-360m"))
    told = panel.panel({"other": True})
    assert "N-gram was chosen for" in told["news"][0] and told["news"] == told["changes"]
    again = panel.panel({"other": True})
    assert again["news"] == [] and again["changes"]


def test_a_preset_says_what_it_sets_and_can_be_served(panel: PanelBackend) -> None:
    presets = panel.panel()["presets"]
    assert [each["id"] for each in presets] == ["balanced", "fixed", "exact"]
    assert settings_of(presets[0]["values"], CAPABILITIES) == panel.stored.now().settings
    for each in presets:
        settings = settings_of(each["values"], CAPABILITIES)
        assert panel.stored.resolve_for_page(settings, None).changes == ()
        assert f"emperature {settings.temperature:g}" in each["about"]
        assert settings.proposer == ("none" if each["id"] == "exact" else "draft")


def test_a_measured_speed_stands_beside_what_was_measured(
    panel: PanelBackend, engine: FakeEngine, tmp_path: Path
) -> None:
    assert engine.loaded is not None
    Defaults(tmp_path).keep(engine.loaded, Winner("ngram", "fixed", 5, 1.8, 48), {})
    methods = named(panel.panel()["methods"])
    assert (
        methods["ngram"]["default"]
        and "1.8x the speed without drafting" in methods["ngram"]["speed"]
    )
    assert methods["draft"]["speed"] is None


@pytest.mark.parametrize("chosen", ["ngram", None, ""])
def test_without_a_proposer_it_is_drafted_as_the_pair_likes_it(chosen: str | None) -> None:
    assert settings_of({"proposer": chosen}, CAPABILITIES).proposer == (chosen or "draft")
