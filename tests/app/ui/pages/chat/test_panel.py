"""The side panel offers what the loaded pair can do, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import gradio as gr
import pytest

from app.ui.offered import proposer_update
from app.ui.pages.chat.panel import SAMPLING, Panel, panel
from app.ui.settings import Settings
from app.ui.words import Words
from engine.api import Capabilities, ProposerInfo
from engine.fake import CAPABILITIES
from engine.request import AcceptanceRule, Sampling
from tests.app.ui.conftest import awaited

ELSEWHERE = replace(
    CAPABILITIES,
    proposers=(ProposerInfo("none"), ProposerInfo("eagle")),
    preferred="eagle",
    rules=(AcceptanceRule.GREEDY,),
    sampling=frozenset({"temperature"}),
)
"""As an engine on another machine may have it: a proposer that is none of ours, and one rule."""


def made(capabilities: Capabilities | None) -> Panel:
    async def build() -> Panel:
        with gr.Blocks(analytics_enabled=False):
            return panel(lambda: capabilities)

    return awaited(build())  # where no event loop runs, Gradio makes one and never closes it


def shown(capabilities: Capabilities | None, settings: Settings, *wanted: str) -> dict[str, Any]:
    built = made(capabilities)
    updates = built.shown(settings, frozenset(wanted))
    return dict(zip((*built.names, "options"), updates, strict=True))


def test_every_sampling_parameter_has_a_control() -> None:
    assert set(SAMPLING) == {each.name for each in fields(Sampling)} <= set(made(None).names)


def test_only_what_the_pair_offers_can_be_chosen() -> None:
    kept = Settings(proposer="suffix", acceptance="rejection", top_p=0.5)
    found = shown(ELSEWHERE, kept, "acceptance", "temperature")
    proposer, acceptance = found["proposer"], found["acceptance"]
    assert [name for _, name in proposer["choices"]] == ["none", "eagle"]
    assert (proposer["value"], proposer["interactive"]) == ("eagle", True)
    assert (acceptance["choices"], acceptance["value"]) == (["auto", "greedy"], "auto")
    assert found["temperature"]["interactive"] and found["temperature"]["value"] == 0.0
    assert not found["top_p"]["interactive"] and found["top_p"]["value"] == 1.0
    assert not found["top_k"]["interactive"]
    assert "value" not in found["top_k"], "what is not wanted stays as it is"


def test_while_nothing_is_loaded_the_panel_says_so_and_keeps_what_was_chosen() -> None:
    proposer = shown(None, Settings(proposer="suffix"))["proposer"]
    assert (proposer["value"], proposer["interactive"]) == ("suffix", False)
    assert proposer["info"] == Words.NO_PAIR


def test_a_race_offers_no_plain_decoding() -> None:
    update = proposer_update(CAPABILITIES, None, without=("none",))
    assert [name for _, name in update["choices"]] == ["draft", "ngram"]
    assert update["value"] == "draft"


@pytest.mark.parametrize("chosen", ["ngram", None, ""])
def test_a_message_sent_before_the_controls_are_filled_is_drafted_as_the_pair_likes_it(
    chosen: str | None,
) -> None:
    built = made(CAPABILITIES)
    values = [*built.values(Settings())]
    values[0] = chosen
    assert built.settings(tuple(values)).proposer == (chosen or "draft")
