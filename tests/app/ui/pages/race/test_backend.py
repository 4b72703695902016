"""Races: equal starts, one seed, and an honest result."""

from __future__ import annotations

import pytest

from app.ui.pages.race.backend import LANES, Race, first_difference, plan, same_words, speedup
from app.ui.settings import Settings
from engine.errors import InvalidRequest
from engine.events import Emitted, Finished, FinishReason, Token
from engine.reply import ReplyState
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
    [
        ("auto", 0.0, True),
        ("auto", 1.0, True),
        ("coupled", 1.0, True),
        ("rejection", 0.0, True),
        ("rejection", 1.0, False),
        ("block", 1.0, False),
    ],
)
def test_equal_words_are_expected_unless_the_rule_weighs_q(acceptance, temperature, expected):
    settings = Settings(acceptance=acceptance, temperature=temperature)
    assert plan("Hi", settings).expected_identical is expected


def test_a_race_tells_both_lanes_and_then_the_result():
    events = run("What is it?", Settings())
    assert events[-1]["t"] == "result"
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
    result = run("differ", Settings())[-1]
    assert result["identical"] is False
    assert result["difference"][0] == 5
    assert result["difference"][2] == " otherwise"


def test_a_failure_ends_the_race_in_words():
    assert "asked to fail" in run("fail", Settings())[-1]["message"]


@pytest.mark.parametrize(
    ("prompt", "settings"), [("  ", Settings()), ("Hi", Settings(proposer="none"))]
)
def test_a_race_without_a_question_or_a_rival_is_refused(prompt, settings):
    with pytest.raises(InvalidRequest):
        plan(prompt, settings)


def reply(words: str, *, tokens: bool = True) -> ReplyState:
    """What an engine that shows no rounds says: each letter is a token, one every tenth of a second."""
    told = tuple(Token(ord(letter), letter, i) for i, letter in enumerate(words))
    state = ReplyState()
    for i, token in enumerate(told):
        state.add(Emitted(text=token.text, tokens=(token,) if tokens else None, at=1 + i / 10))
    ids = tuple(token.id for token in told) if tokens else None
    state.add(Finished(FinishReason.STOP, "", words, ids))
    return state


def test_the_first_difference_names_both_tokens():
    assert first_difference(reply("abc"), reply("ax")) == (1, "b", "x")
    assert first_difference(reply("abc"), reply("ab")) == (2, "c", "(end)")
    assert first_difference(reply("ab"), reply("ab")) is None


def test_texts_are_compared_where_an_engine_tells_no_tokens():
    assert same_words(reply("ab", tokens=False), reply("ab"))
    assert not same_words(reply("ab", tokens=False), reply("ax", tokens=False))
    assert first_difference(reply("ab", tokens=False), reply("ax", tokens=False)) is None


def test_a_race_without_speeds_has_no_speedup():
    assert speedup(reply("abcd"), reply("abcd")) == pytest.approx(1)
    assert speedup(reply("abcd"), reply("abcd", tokens=False)) is None
