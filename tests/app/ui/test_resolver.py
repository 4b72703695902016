"""What was chosen and what is loaded become what is asked for, in one place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from app.ui.controls.resolver import SAID, Pair, resolve, resolve_stored, with_choice
from app.ui.controls.settings import Settings
from engine.api import Unavailable
from engine.request import Control, Speculation
from tests.support.fake_engine import CAPABILITIES

PIP = Pair("pip", "Pip", CAPABILITIES, Speculation(proposer="draft"))
ALONE = Pair(
    "alone",
    "Alone",
    replace(
        CAPABILITIES,
        proposers=tuple(each for each in CAPABILITIES.proposers if each.name != "draft"),
        preferred="ngram",
        unavailable=(Unavailable("draft", "It needs a draft model."),),
    ),
    Speculation(proposer="ngram"),
)


def kept(settings: Settings, pair: Pair, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """As the database gives them back."""
    made: dict[str, Any] = json.loads(
        json.dumps(with_choice(before or {}, settings, pair, chosen=True))
    )
    return made


def test_what_a_pair_cannot_do_falls_to_its_default_and_is_said_with_the_reason() -> None:
    found = resolve(Settings(proposer="draft", temperature=0.5), ALONE)
    assert found.settings == Settings(proposer="ngram", temperature=0.5)
    assert found.changes == (
        "Draft model is unavailable: it needs a draft model. N-gram is used instead.",
    )
    assert resolve(found.settings, ALONE).changes == ()


def test_greedy_needs_temperature_0() -> None:
    found = resolve(Settings(proposer="draft", acceptance="greedy", temperature=0.7), PIP)
    assert (found.settings.acceptance, found.settings.temperature) == ("auto", 0.7)
    assert found.changes == ("The acceptance rule greedy needs temperature 0; auto is used.",)


def test_a_choice_counts_for_the_pair_that_it_was_made_with() -> None:
    """n-gram, chosen once, drafted for every pair that was loaded later, a draft or not."""
    choices = kept(Settings(proposer="ngram", controller="fixed", depth=2, seed=3), PIP)
    own = resolve_stored(PIP, choices)
    assert (own.settings.proposer, own.settings.depth, own.changes) == ("ngram", 2, ())
    other = replace(PIP, key="other", name="Other")
    found = resolve_stored(other, choices)
    assert found.settings == Settings(proposer="draft", seed=3)
    assert found.changes == (
        "N-gram was chosen for Pip. Now used: Draft model, the default for this model.",
    )
    assert resolve_stored(other, kept(Settings(proposer="draft"), other, choices)).changes == ()
    assert resolve_stored(PIP, kept(Settings(proposer="draft"), other, choices)).settings.depth == 2


def test_that_a_choice_is_not_taken_over_is_news_once_until_there_is_another_choice() -> None:
    """It came back with every pair that had no choice of its own."""
    other, third = replace(PIP, key="other", name="Other"), replace(PIP, key="third", name="Third")
    choices = kept(Settings(proposer="ngram"), PIP)
    assert resolve_stored(other, choices).news == resolve_stored(other, choices).changes != ()
    choices[SAID] = True  # as ``StoredSettings.tell`` does
    after = with_choice(choices, Settings(temperature=0.5), other, chosen=False)
    for pair in (other, third):
        assert resolve_stored(pair, after).changes, "who opens the chip finds it still"
        assert resolve_stored(pair, after).news == ()
    without = replace(
        third, capabilities=replace(CAPABILITIES, sampling=frozenset({"temperature"}))
    )
    odd = {**after, "top_p": 0.5}
    assert len(resolve_stored(without, odd).news) == 1, "what is not served is said each time"
    assert resolve_stored(third, kept(Settings(proposer="none"), other, after)).news


def test_plain_decoding_is_named_in_words_and_a_pair_as_people_call_it() -> None:
    """Once "none was chosen with" two names of files."""
    files = "qwen2.5-coder-1.5b-instruct-q4_k_m + qwen2.5-coder-0.5b-instruct-q4_k_m"
    choices = kept(Settings(proposer="none"), replace(PIP, key="qwen", name=files))
    assert resolve_stored(PIP, choices).changes == (
        "No drafting was chosen for Qwen2.5 Coder 1.5B + 0.5B. Now used: Draft model, the default for "
        "this model.",
    )


def test_a_head_of_another_pair_is_said_to_be_missing() -> None:
    eagle = replace(
        CAPABILITIES,
        proposers=(*CAPABILITIES.proposers, replace(CAPABILITIES.proposers[0], name="eagle3")),
    )
    choices = kept(Settings(proposer="eagle3"), replace(PIP, capabilities=eagle))
    found = resolve_stored(replace(PIP, key="other"), choices)
    assert found.settings.proposer == "draft"
    assert "EAGLE-3 head is unavailable: it needs" in found.changes[0]


def test_choosing_the_default_is_no_choice_and_follows_it() -> None:
    choices = kept(Settings(proposer="draft", temperature=0.7), PIP)
    measured = replace(
        PIP, default=Speculation(proposer="ngram", depth=3, controller=Control.FIXED)
    )
    found = resolve_stored(measured, choices).settings
    assert (found.proposer, found.controller, found.depth, found.temperature) == (
        "ngram",
        "fixed",
        3,
        0.7,
    )


def test_what_is_not_chosen_leaves_the_choice_as_it_was() -> None:
    """A page that was not told of the new pair once made the old pair's default the user's choice."""
    choices = kept(Settings(proposer="none"), PIP)
    after = with_choice(choices, Settings(proposer="draft", seed=3), PIP, chosen=False)
    found = resolve_stored(PIP, after).settings
    assert (found.proposer, found.seed) == ("none", 3)


@pytest.mark.parametrize("broken", [{}, {"drafting": 5, "last": []}, {"drafting": {"pip": 7}}])
def test_what_an_older_version_kept_is_no_choice_for_a_pair(broken: dict[str, Any]) -> None:
    old = {"proposer": "ngram", "controller": "auto", "depth": 4, "temperature": 0.5}
    found = resolve_stored(PIP, {**old, **broken})
    assert (found.settings.proposer, found.settings.temperature) == ("draft", 0.5)


def test_a_default_that_is_not_there_gives_way_too() -> None:
    odd = replace(ALONE, default=Speculation(proposer="draft"))
    assert resolve(Settings(proposer="eagle3"), odd).settings.proposer == "ngram"


def test_while_nothing_is_loaded_all_stays_as_it_is() -> None:
    asked = Settings(proposer="eagle3", top_p=0.5)
    assert resolve(asked, None).settings == asked
    assert resolve_stored(None, {"proposer": "eagle3"}).settings.proposer == "eagle3"
