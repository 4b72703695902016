"""Races: fair to both sides, kept when cancelled, and silent where the pairs say nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count, cycle
from typing import Any

import pytest

from engine.bench import divergence
from engine.bench.answering import Configuration
from engine.bench.divergence import Cause
from engine.bench.prompts import Prompt
from engine.bench.race import Contest, Race, Run, Side
from engine.bench.reports import race as race_report
from engine.bench.reports.paired import Noise, estimate
from engine.errors import ForetokenError
from engine.machine import processor
from engine.request import PLAIN, Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from tests.support.fake_engine import CAPABILITIES, FakeEngine, Script
from tests.support.recital import reciting_engine

WORDS = "one two three four five six seven eight nine ten"
QUESTION = Prompt("prompt", (WORDS,))
SEEDED = Sampling(seed=1)
BASE = Configuration(Speculation(proposer=PLAIN), SEEDED)
RIVAL = Configuration(Speculation(proposer="draft", depth=4), SEEDED)


def contest(*prompts: Prompt, rival: Configuration = RIVAL) -> Contest:
    return Contest(BASE, rival, prompts or (QUESTION,))


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with closing(reciting_engine(1e-4)) as made:
        yield made


def slowed(engine: FakeEngine, seconds: Callable[[], float]) -> None:
    """Each reply's rounds take what ``seconds`` gives."""
    given = engine.script

    def script(request: Request) -> Script:
        engine.seconds_a_round = seconds()
        return given(request)

    engine.script = script


def raced(engine: FakeEngine, made: Contest, pairs: int = 5) -> tuple[Race, list[Run]]:
    race, runs = Race(engine, made), []
    assert race.run(pairs, on_run=runs.append)
    return race, runs


def test_both_are_warmed_up_and_then_take_turns_at_being_first(engine: FakeEngine) -> None:
    race, runs = raced(engine, contest())
    assert [run.pair for run in runs] == [None, None, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    measured = "".join(str(run.side)[0] for run in runs[2:])
    assert measured == "brrbbrrbbr"
    assert len(race.pairs) == 5


def test_a_pairs_ratio_is_that_of_both_decode_speeds(engine: FakeEngine) -> None:
    race, _ = raced(engine, contest())
    for pair in race.pairs:
        base, rival = pair.base.statistics, pair.rival.statistics
        assert base.completion_tokens == rival.completion_tokens
        assert pair.ratio == pytest.approx(base.decode_s / rival.decode_s)
        assert pair.ratio == pytest.approx(base.rounds / rival.rounds)
    assert race.estimate is not None and race.estimate.favours == 1
    told = race_report.verdict(race.estimate, race.contest)
    assert re.fullmatch(
        r"Draft model, depth 4 is about \d\.\dx as fast as no drafting \(5 of 5 runs\)\.", told
    )
    slower = estimate([1 / pair.ratio for pair in race.pairs])
    assert race_report.verdict(slower, race.contest).startswith("No drafting is about ")


@pytest.mark.parametrize("drift", [0.97, 1.03])
def test_a_machine_that_drifts_makes_no_verdict_of_two_that_are_alike(
    engine: FakeEngine, drift: float
) -> None:
    """The base first every time, the rival would have won, or lost, five of five."""
    replies = count()
    slowed(engine, lambda: 1e-4 * drift ** next(replies))
    race, _ = raced(engine, contest(rival=BASE))
    assert race.estimate is not None and race.estimate.favours == 0
    told = race_report.verdict(race.estimate, race.contest)
    assert told.startswith("No verdict: both sides are the same")


def test_chance_makes_no_verdict_of_two_that_are_the_same(engine: FakeEngine) -> None:
    """In one of sixteen such races the range lies on one side, and plain (B) had beaten plain (A)."""
    race, _ = raced(engine, contest(rival=BASE))
    lucky = estimate([1.2, 1.21, 1.22, 1.23, 1.24])
    assert lucky.favours == 1
    told = race_report.verdict(lucky, race.contest)
    assert "both sides are the same" in told and "beats" not in told
    assert race_report.favours(lucky, race.contest) == 0
    assert race_report.favours(lucky, contest()) == 1


def test_one_slow_second_gives_no_verdict_but_five_more_pairs_may(engine: FakeEngine) -> None:
    replies = count()
    slowed(
        engine, lambda: 1e-4 * (50 if next(replies) == 3 else 1)
    )  # the rival's first measured one
    race, _ = raced(engine, contest())
    assert race.estimate is not None and race.estimate.favours == 0
    assert race.run(5)
    assert race.estimate.favours == 1
    assert "(9 of 10 runs)" in race_report.verdict(race.estimate, race.contest)


def test_a_set_is_asked_through_and_each_prompt_from_either_side_first(engine: FakeEngine) -> None:
    prompts = tuple(Prompt("prompt", (f"{WORDS} {n}",)) for n in "abcdef")
    made = contest(*prompts)
    assert made.pairs == 6
    assert contest().pairs == 5
    race, runs = raced(engine, made, 12)
    assert [pair.prompt for pair in race.pairs] == [*range(6), *range(6)]
    first = {(run.prompt, run.side) for run in runs[2::2]}
    assert first == {(prompt, side) for prompt in range(6) for side in Side}


def test_what_was_measured_stays_when_it_is_cancelled_and_it_may_go_on(engine: FakeEngine) -> None:
    race, runs = Race(engine, contest()), []

    def cancel_in_the_third(run: Run, event: object) -> None:
        if run.pair == 2 and run.side is Side.BASE:
            race.cancel()

    assert not race.run(5, on_run=runs.append, on_event=cancel_in_the_third)
    assert len(race.pairs) == 2
    told = race_report.verdict(race.estimate, race.contest)
    assert told == "Too early for a verdict: 2 of at least 5 runs."
    runs.clear()
    assert race.run(3, on_run=runs.append)
    assert [run.pair for run in runs] == [2, 2, 3, 3, 4, 4], "it is warm"
    assert len(race.pairs) == 5


def test_cancelled_before_it_begins_it_measures_nothing(engine: FakeEngine) -> None:
    race = Race(engine, contest())
    race.cancel()
    assert not race.run(5)
    assert race.estimate is None
    assert race_report.verdict(None, race.contest).startswith("No verdict: no run")
    assert race.run(5)


def test_every_run_starts_alike_and_a_system_prompt_and_turns_are_kept(engine: FakeEngine) -> None:
    asked: list[Request] = []
    given = engine.generate

    def noted(request: Request) -> Any:
        asked.append(request)
        return given(request)

    engine.generate = noted  # type: ignore[method-assign]
    system = Message("system", "Be short.")
    raced(engine, contest(Prompt("prompt", (WORDS, "and more"), before=(system,))), 1)
    assert [request.reuse_cache for request in asked] == [False, True] * 4
    assert {request.messages[0] for request in asked} == {system}
    assert [len(request.messages) for request in asked[:2]] == [2, 4]
    assert {request.sampling.seed for request in asked} == {1}


@pytest.mark.parametrize(
    ("base", "rival", "expected"),
    [
        ((0.0, "auto"), (0.0, "auto"), True),
        ((0.0, "auto"), (0.0, "rejection"), True),
        ((1.0, "auto"), (1.0, "coupled"), True),
        ((1.0, "coupled"), (1.0, "rejection"), False),
        ((1.0, "block"), (1.0, "block"), False),
        ((0.0, "auto"), (0.8, "auto"), False),
    ],
)
def test_equal_words_are_promised_by_one_sampling_and_rules_that_keep_them(
    base: tuple[float, str], rival: tuple[float, str], expected: bool
) -> None:
    sides = [
        Configuration(
            Speculation(proposer=name, acceptance=AcceptanceRule(rule)),
            Sampling(temperature=temperature, seed=1),
        )
        for name, (temperature, rule) in ((PLAIN, base), ("draft", rival))
    ]
    assert Contest(sides[0], sides[1], (QUESTION,)).promises_words is expected


@pytest.mark.parametrize(("p", "cause"), [(0.1, Cause.BUG), (0.49, Cause.TIE), (0.3, Cause.BUG)])
def test_where_words_part_the_target_is_asked_what_it_would_have_said(
    engine: FakeEngine, p: float, cause: Cause
) -> None:
    engine.runner_up = (" otherwise", p)
    race, _ = raced(engine, contest(Prompt("prompt", ("differ please",))))
    assert not any(pair.same_words for pair in race.pairs)
    found = divergence.of_race(engine, race)
    assert found is not None and found.cause is cause
    assert (found.turn, found.position) == (0, 5)
    assert found.rival == " otherwise" and found.base == found.candidates[0].text
    told = race_report.words(race.contest, 5, found)
    assert "First at token 6" in told and f"{100 * p:.1f}\u00a0%" in told
    assert ("a tie within rounding error" if cause is Cause.TIE else "this is a bug") in told
    value = race_report.as_json(race, found)
    assert value["divergence"]["cause"] == cause
    assert not value["same_words"] and value["promises_words"]


def test_a_close_call_between_others_is_no_excuse(engine: FakeEngine) -> None:
    engine.runner_up = (" something", 0.499)
    race, _ = raced(engine, contest(Prompt("prompt", ("differ please",))))
    found = divergence.of_race(engine, race)
    assert found is not None and found.cause is Cause.BUG


HOT = Sampling(temperature=0.7, seed=1)
BLOCK = Speculation(proposer="draft", depth=4, acceptance=AcceptanceRule.BLOCK)
MEASURING = Speculation(proposer="draft", acceptance=AcceptanceRule.REJECTION)


@pytest.mark.parametrize(
    ("differing", "why"),
    [
        ({"target_names": ("A", "B"), "one_target": False}, "these are two models"),
        ({"target_names": ("A", "B")}, "its own engine"),
        ({"target_names": ("A", "B"), "keeps_words": False}, "does not report its acceptance"),
        ({"rival": replace(BASE, sampling=HOT)}, "sample differently"),
        (
            {"base": replace(BASE, sampling=HOT), "rival": Configuration(BLOCK, HOT)},
            "rules sample differently",
        ),
        (
            {"base": Configuration(BLOCK, HOT), "rival": Configuration(BLOCK, HOT)},
            "the distribution",
        ),
        (
            {"base": replace(BASE, sampling=HOT), "rival": Configuration(MEASURING, HOT)},
            "automatic depth",
        ),
    ],
)
def test_words_that_may_differ_are_told_why(differing: dict[str, Any], why: str) -> None:
    """All reasons there are were listed, of which one was true."""
    race = replace(Contest(BASE, BASE, (QUESTION,)), **differing)
    assert not race.promises_words
    assert why in race_report.words(race, 5, None)


def test_where_no_words_are_promised_nobody_is_asked(engine: FakeEngine) -> None:
    hot = Sampling(temperature=1.0, seed=1)
    sides = [
        Configuration(
            Speculation(proposer=name, depth=depth, acceptance=AcceptanceRule.REJECTION), hot
        )
        for name, depth in ((PLAIN, None), ("draft", 4))
    ]
    race, _ = raced(engine, Contest(sides[0], sides[1], (Prompt("prompt", ("differ please",)),)))
    assert divergence.of_race(engine, race) is None
    assert "as expected" in race_report.words(race.contest, 5, None)


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        (((1, 2, 3),), ((1, 2, 3),), None),
        (((1, 2, 3),), ((1, 9, 3),), (0, 1)),
        (((1, 2),), ((1, 2, 3),), (0, 2)),
        (((1,), (5, 6)), ((1,), (5, 7)), (1, 1)),
    ],
)
def test_the_first_difference_is_found(ours: Any, theirs: Any, place: object) -> None:
    assert divergence.first_difference(ours, theirs) == place
    assert divergence.first_difference(theirs, ours) == place


def test_a_failure_is_told_in_the_engines_words_and_costs_no_pair(engine: FakeEngine) -> None:
    race, _ = raced(engine, contest(), 2)
    engine.script = lambda request: Script((), failure="Memory ran out.")
    with pytest.raises(ForetokenError, match=r"^Memory ran out\.$"):
        race.run(3)
    assert len(race.pairs) == 2


def test_words_that_change_from_run_to_run_are_an_error(engine: FakeEngine) -> None:
    number = count()
    engine.script = lambda request: Script([f"word{next(number)}", " end"])
    with pytest.raises(ForetokenError, match="different text: this is a bug"):
        Race(engine, contest()).run(2)


ASKED_FOR = [
    # proposer, depth, rule, temperature, seed: whether the words must be the same again
    ("draft", None, "auto", 0.0, None, True),
    ("draft", None, "rejection", 0.0, None, True),  # greedy, at temperature 0
    ("draft", None, "greedy", 0.0, None, True),
    ("draft", None, "coupled", 0.9, 1, True),
    ("draft", None, "coupled", 0.9, None, False),
    ("draft", 4, "rejection", 0.9, 1, True),
    ("draft", 4, "block", 0.9, None, False),
    ("draft", None, "rejection", 0.9, 1, False),
    ("draft", None, "block", 0.9, 1, False),
    (PLAIN, None, "rejection", 0.9, 1, True),
]


@pytest.mark.parametrize(("proposer", "depth", "rule", "temperature", "seed", "must"), ASKED_FOR)
def test_one_definition_says_which_words_must_be_the_same_again(
    engine: FakeEngine,
    proposer: str,
    depth: int | None,
    rule: str,
    temperature: float,
    seed: int | None,
    must: bool,
) -> None:
    """A race under ``rejection`` with automatic depth called its other words "a bug of the engine"."""
    speculation = Speculation(proposer=proposer, depth=depth, acceptance=AcceptanceRule(rule))
    way = Configuration(speculation, Sampling(temperature=temperature, seed=seed))
    assert way.repeats_words is must
    number = count()
    engine.script = lambda request: Script([f"word{next(number)}", " end"])
    race = Race(engine, Contest(way, way, (QUESTION,)))
    if must:
        with pytest.raises(ForetokenError, match="different text: this is a bug"):
            race.run(2)
    else:
        assert race.run(2)


@pytest.mark.parametrize(
    ("noise", "why"),
    [
        (Noise(spread=63.0), "changed 63-fold between equal runs"),
        (Noise(taken=0.62), "Other programs used 62\u00a0% of the processor"),
    ],
)
def test_a_busy_machine_gives_no_verdict_and_says_why(noise: Noise, why: str) -> None:
    """Five ratios from 2.3 to 113.9 were printed as a verdict: one side had stood still meanwhile."""
    found = estimate([2.31, 5.88, 113.9, 4.0, 6.1])
    told = race_report.verdict(found, contest(), noise)
    assert told == "No verdict: the machine was too busy."
    certainty = race_report.certainty(found, noise)
    assert why in certainty and "Median" not in certainty
    assert race_report.favours(found, contest(), noise) == 0
    wide = race_report.verdict(found, contest(), Noise(spread=1.3, taken=0.1))
    assert wide == (
        "Draft model, depth 4 was faster in 5 of 5 runs, but not by enough for another race to agree "
        "(2.3x to 114x). Run more."
    )


def test_a_race_measures_how_much_its_own_speeds_changed(engine: FakeEngine) -> None:
    """The plain side 63 times as slow in one run, as beside compilers."""
    replies = count()
    slowed(
        engine, lambda: 1e-4 * (63 if next(replies) == 2 else 1)
    )  # the base's first measured one
    race, _ = raced(engine, contest())
    assert race.noise.spread == pytest.approx(63)
    assert race.estimate is not None
    assert "63-fold" in race_report.certainty(race.estimate, race.noise)
    assert race.run(5)
    assert race.noise.spread == pytest.approx(1), "of ten runs the extremes are left out"


def test_prompts_that_differ_in_speed_are_no_noise(engine: FakeEngine) -> None:
    """Drafts are accepted more often on some prompts than on others."""
    replies = count()
    slowed(engine, lambda: 1e-4 * (1, 1, 1, 3)[next(replies) % 4])
    other = replace(BASE, speculation=Speculation(proposer="ngram", depth=2))
    prompts = tuple(Prompt("prompt", (f"{WORDS} {n}",)) for n in "ab")
    race, _ = raced(engine, Contest(other, RIVAL, prompts), 2)
    assert race.noise.spread == 1


def test_other_programs_are_counted_while_pairs_are_measured(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = cycle((0.0, 0.75))  # what came before a pair is not told with it
    monkeypatch.setattr(processor, "taken_by_others", lambda: next(told))
    race, _ = raced(engine, contest())
    assert race.noise.taken == pytest.approx(0.75)
    assert "too busy" in race_report.verdict(race.estimate, race.contest, race.noise)


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ([1.52], "One run: 1.5x."),
        ([1.5, 1.7], "Median so far 1.6x, 1.5x to 1.7x."),
        (
            [1.4, 1.5, 1.6, 1.7, 1.8],
            "Median 1.6x (94\u00a0% confidence in this sitting: 1.4x to 1.8x).",
        ),
    ],
)
def test_few_runs_claim_no_certainty(ratios: list[float], told: str) -> None:
    """Of one pair it said "it holds the true median in 0.0% of such races"."""
    assert race_report.certainty(estimate(ratios)) == told


def test_what_has_no_times_or_no_words_cannot_be_raced() -> None:
    silent = replace(CAPABILITIES, rounds=False, probabilities=False, tokens=False)
    for made in (reciting_engine(1e-4, silent), reciting_engine(0.0)):
        with closing(made) as engine, pytest.raises(ForetokenError, match="cannot be timed"):
            Race(engine, contest()).run(1)


def test_configurations_have_short_names() -> None:
    assert race_report.name(BASE) == "no drafting"
    assert race_report.name(RIVAL) == "Draft model, depth 4"
    auto = Configuration(
        Speculation(proposer="ngram", acceptance=AcceptanceRule.BLOCK), Sampling(temperature=0.8)
    )
    assert race_report.name(auto) == "N-gram, auto, block, temperature 0.8"
    assert race_report.names(contest(rival=BASE)) == ("no drafting (A)", "no drafting (B)")


@pytest.mark.parametrize(
    ("ratio", "told"), [(3.64, "3.6"), (1.52, "1.5"), (1.05, "1.1"), (1.04, "1.04")]
)
def test_a_ratio_is_said_with_the_digits_that_tell_it_from_one(ratio: float, told: str) -> None:
    found = estimate([ratio] * 5)
    assert f"about {told}x as fast" in race_report.verdict(found, contest())
