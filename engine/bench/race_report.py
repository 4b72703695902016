"""A race in words and numbers: for terminals, pages and scripts alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from engine.api import Loaded
from engine.bench.answering import Configuration
from engine.bench.divergence import Divergence
from engine.bench.paired import PAIRS, Estimate
from engine.bench.race import Contest, Pair, Race
from engine.request import PLAIN, SERVER, AcceptanceRule, Control, Speculation


def name(way: Configuration) -> str:
    """A configuration in a few words; what is not chosen is not said."""
    parts = [method(way.speculation)]
    if way.speculation.acceptance is not AcceptanceRule.AUTO:
        parts.append(str(way.speculation.acceptance))
    if way.sampling.temperature:
        parts.append(f"temperature {way.sampling.temperature:g}")
    return ", ".join(parts)


def method(speculation: Speculation) -> str:
    """Who drafts, and how far."""
    if speculation.proposer == PLAIN:
        return "plain"
    if speculation.proposer == SERVER:
        return "as the server drafts"
    if speculation.control is Control.AUTO:
        return f"{speculation.proposer}, auto"
    return f"{speculation.proposer}, depth {speculation.deepest}"


def names(contest: Contest) -> tuple[str, str]:
    """Of both sides; two that are alike are told apart."""
    base, rival = name(contest.base), name(contest.rival)
    if contest.places is not None:
        return f"{contest.places[0]} ({base})", f"{contest.places[1]} ({rival})"
    return (f"{base} (A)", f"{rival} (B)") if base == rival else (base, rival)


def verdict(found: Estimate | None, contest: Contest) -> str:
    """What a person can repeat of a race; and that there is no verdict, where there is none."""
    if found is None:
        return "No verdict: no pair was measured to its end."
    count = len(found.ratios)
    if not found.enough:
        return f"No verdict yet: {count} of at least {PAIRS} pairs were measured."
    if contest.alike:
        return (
            f"No verdict after {count} pairs: between {times(found.low)} and {times(found.high)} the "
            "speed, but both sides are the same, so what differs is chance."
        )
    if not found.favours:
        return (
            f"No verdict after {count} pairs: between {times(found.low)} and {times(found.high)} the "
            "speed, so it may be no different. More pairs may tell."
        )
    word = "faster" if found.favours > 0 else "slower"
    low, high = (found.low, found.high) if found.favours > 0 else (1 / found.high, 1 / found.low)
    return (
        f"{span(low, high)} {word} in {found.agreeing} of {count} pairs: "
        f"{_meaning(found.favours, contest)}."
    )


def favours(found: Estimate | None, contest: Contest) -> int | None:
    """As ``Estimate.favours``; neither of two that are alike, whatever chance says."""
    if found is None:
        return None
    return 0 if contest.alike else found.favours


def _meaning(favours: int, contest: Contest) -> str:
    plain = [way.speculation.proposer == PLAIN for way in (contest.base, contest.rival)]
    if plain == [True, False] and contest.places is None:
        return (
            "speculation pays here" if favours > 0 else "speculation costs more than it brings here"
        )
    base, rival = names(contest)
    return f"{rival} beats {base} here" if favours > 0 else f"{base} beats {rival} here"


def span(low: float, high: float) -> str:
    """From one ratio above 1 to another, with as many digits as tell the lower one from 1."""
    digits = next((n for n in (1, 2, 3) if float(f"{low:.{n}f}") > 1), 3)
    first, last = f"{low:.{digits}f}x", f"{high:.{digits}f}x"
    return first if first == last else f"{first} to {last}"


def times(ratio: float) -> str:
    return f"{ratio:.2f}x"


def certainty(found: Estimate) -> str:
    """What the range is, in a sentence."""
    k = sum(ratio < found.low for ratio in found.ratios)
    of = "all pairs" if not k else f"the pairs but the {k} lowest and the {k} highest"
    return (
        f"Median {times(found.median)}; range {times(found.low)} to {times(found.high)}, of {of}: it "
        f"holds the true median in {found.level:.1%} of such races."
    )


def words(contest: Contest, different: int, divergence: Divergence | None) -> str:
    """Whether both said the same, in a sentence; ``different``: in how many pairs they did not."""
    if not different:
        return "Both wrote the same words, token for token."
    if not contest.promises_words:
        return f"The words differ, as they may: {_why_they_may(contest)}."
    return f"The words differ. {divergence}" if divergence else "The words differ."


def _why_they_may(contest: Contest) -> str:
    """The first reason why equal words are not promised, the weightiest first."""
    if not contest.one_target:
        return "these are two models"
    if contest.base.sampling != contest.rival.sampling:
        return "these two sample differently"
    if not contest.keeps_words:
        return "a server that does not tell how it judges drafts promises no words"
    if contest.places is not None:
        return "each side ran on an engine of its own, and these may round differently"
    if contest.base.rule != contest.rival.rule:
        return "these two judge drafts by different rules, and draw other words"
    return "this rule promises the distribution instead of the words"


def unknown(*sides: Loaded) -> tuple[str, ...]:
    """What a race cannot know of those that run on a server, a text for each; none is said twice."""
    return tuple(dict.fromkeys(_unknown(loaded) for loaded in sides if loaded.server))


def _unknown(loaded: Loaded) -> str:
    told = loaded.capabilities
    untold = [
        *([] if told.rounds else ["its rounds, so there is nothing of it to play back"]),
        *([] if told.tokens else ["its tokens, so its words are compared as text"]),
        *([] if told.rules else ["how it judges drafts, so it promises no words"]),
    ]
    first = f"{loaded.name} does not tell {'; nor '.join(untold)}. " if untold else ""
    return (
        f"{first}The speed of {loaded.name} is by its own clock where it tells that, else by when its "
        "text arrived here; whom else it answers meanwhile is not known."
    )


def as_json(
    race: Race, divergence: Divergence | None, unknown: Sequence[str] = ()
) -> dict[str, Any]:
    """The stable keys that scripts rely on."""
    found, (base, rival) = race.estimate, names(race.contest)
    return {
        "base": base,
        "rival": rival,
        "pairs": [pair_json(pair) for pair in race.pairs],
        "median": found and found.median,
        "low": found and found.low,
        "high": found and found.high,
        "level": found and found.level,
        "favours": favours(found, race.contest),
        "verdict": verdict(found, race.contest),
        "promises_words": race.contest.promises_words,
        "same_words": all(pair.same_words for pair in race.pairs),
        "divergence": divergence and asdict(divergence),
        "unknown": list(unknown),
    }


def pair_json(pair: Pair) -> dict[str, Any]:
    """One pair's figures."""
    return {
        "prompt": pair.prompt,
        "ratio": pair.ratio,
        "base_tokens_per_s": pair.base.statistics.tokens_per_s,
        "rival_tokens_per_s": pair.rival.statistics.tokens_per_s,
        "acceptance_rate": pair.rival.statistics.acceptance_rate,
        "same_words": pair.same_words,
    }
