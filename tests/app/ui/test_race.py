"""Races: equal starts, one seed, and an honest verdict."""

from __future__ import annotations

import pytest

from app.ui.race import LANES, Race, plan
from app.ui.settings import Settings
from engine.errors import InvalidRequest
from tests.support.recital import reciting_engine


def run(prompt: str, settings: Settings) -> list[dict]:
    race = Race(reciting_engine(), plan(prompt, settings))
    race._work()
    packet = race.feed.packet(0)
    assert packet["done"]
    return packet["events"]


def test_both_sides_differ_in_nothing_but_the_proposer():
    made = plan("Hi", Settings(temperature=0.8))
    assert made.plain.sampling == made.speculative.sampling
    assert made.plain.sampling.seed is not None
    assert made.plain.messages == made.speculative.messages
    assert not made.plain.reuse_cache
    assert not made.speculative.reuse_cache
    assert (made.plain.speculation.proposer, made.plain.speculation.depth) == ("none", 0)


@pytest.mark.parametrize(
    ("acceptance", "temperature", "expected"),
    [("auto", 0.0, True), ("auto", 1.0, True), ("rejection", 1.0, False), ("coupled", 1.0, True)],
)
def test_equal_words_are_expected_of_every_rule_but_rejection(acceptance, temperature, expected):
    settings = Settings(acceptance=acceptance, temperature=temperature)
    assert plan("Hi", settings).expected_identical is expected


def test_a_race_tells_both_lanes_and_then_the_verdict():
    events = run("What is it?", Settings())
    assert events[-1]["t"] == "verdict"
    assert events[-1]["identical"] is True
    assert events[-1]["speedup"] > 1
    states = [(event["lane"], event["state"]) for event in events if event["t"] == "lane"]
    assert states == [
        *((lane, "warming") for lane in LANES),
        ("plain", "running"),
        ("plain", "done"),
        ("speculative", "running"),
        ("speculative", "done"),
    ]


def test_a_difference_is_named():
    verdict = run("differ", Settings())[-1]
    assert verdict["identical"] is False
    assert verdict["difference"][0] == 5
    assert verdict["difference"][2] == " otherwise"


def test_a_failure_ends_the_race_in_words():
    assert "asked to fail" in run("fail", Settings())[-1]["message"]


@pytest.mark.parametrize(
    ("prompt", "settings"), [("  ", Settings()), ("Hi", Settings(proposer="none"))]
)
def test_a_race_without_a_question_or_a_rival_is_refused(prompt, settings):
    with pytest.raises(InvalidRequest):
        plan(prompt, settings)
