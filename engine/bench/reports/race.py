"""Texts and figures of a race, for terminals, pages and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from engine.api import Loaded
from engine.bench.answering import Configuration
from engine.bench.divergence import Divergence
from engine.bench.race import Contest, Pair, Race
from engine.bench.reports.paired import MOST_SPREAD, MOST_TAKEN, PAIRS, Estimate, Noise
from engine.request import PLAIN, SERVER, Control, Speculation
from engine.stats import percent, times
from engine.values.method_titles import method_title
from engine.values.sampling import AcceptanceRule

QUIET = Noise()
NO_DRAFTING = method_title(PLAIN).lower()


def name(way: Configuration) -> str:
    """Name a configuration in a few words; defaults are left out."""
    parts = [method(way.speculation)]
    if way.speculation.acceptance is not AcceptanceRule.AUTO:
        parts.append(str(way.speculation.acceptance))
    if way.sampling.temperature:
        parts.append(f"temperature {way.sampling.temperature:g}")
    return ", ".join(parts)


def method(speculation: Speculation) -> str:
    if speculation.proposer == PLAIN:
        return NO_DRAFTING
    if speculation.proposer == SERVER:
        return method_title(SERVER)
    title = method_title(speculation.proposer)
    if speculation.control is Control.AUTO:
        return f"{title}, auto"
    return f"{title}, depth {speculation.deepest}"


def names(contest: Contest) -> tuple[str, str]:
    """Name both sides, distinctly even if their settings are the same."""
    base, rival = name(contest.base), name(contest.rival)
    if contest.target_names is not None:
        return f"{contest.target_names[0]} ({base})", f"{contest.target_names[1]} ({rival})"
    return (f"{base} (A)", f"{rival} (B)") if base == rival else (base, rival)


def verdict(estimate: Estimate | None, contest: Contest, noise: Noise = QUIET) -> str:
    """Return what a person can repeat of a race, or why nothing can be said."""
    if estimate is None:
        return "No verdict: no run was finished."
    count = len(estimate.ratios)
    if not estimate.enough:
        return f"Too early for a verdict: {count} of at least {PAIRS} runs."
    if contest.alike:
        return "No verdict: both sides are the same."
    if noise.too_much:
        return "No verdict: the machine was too busy."
    if not estimate.leans:
        return f"Too close to call after {count} runs ({_range(estimate)}). Run more."
    slower, faster = names(contest)[:: estimate.leans]
    if faster.startswith(NO_DRAFTING):
        faster = faster[0].upper() + faster[1:]
    if not estimate.favours:
        return (
            f"{faster} was faster in {estimate.agreeing} of {count} runs, but not by enough for "
            f"another race to agree ({_range(estimate)}). Run more."
        )
    median = estimate.median if estimate.favours > 0 else 1 / estimate.median
    return (
        f"{faster} is about {median:.{1 + (median < 1.05)}f}x as fast as {slower} "
        f"({estimate.agreeing} of {count} runs)."
    )


def favours(estimate: Estimate | None, contest: Contest, noise: Noise = QUIET) -> int | None:
    """Return ``Estimate.favours``; neither side if there is no verdict for another reason."""
    if estimate is None:
        return None
    return 0 if contest.alike or noise.too_much else estimate.favours


def _disturbance(noise: Noise) -> str:
    """Say what made a race worthless, and what to do."""
    sentences = []
    if noise.taken > MOST_TAKEN:
        sentences.append(f"Other programs used {percent(noise.taken)} of the processor.")
    if noise.spread > MOST_SPREAD:
        sentences.append(
            f"The speed changed {noise.spread:.{int(noise.spread < 10)}f}-fold between equal runs."
        )
    return " ".join([*sentences, "Close other programs and start again."])


def _range(estimate: Estimate) -> str:
    return f"{times(estimate.low)} to {times(estimate.high)}"


def certainty(estimate: Estimate, noise: Noise = QUIET) -> str:
    """Describe the median, and of enough runs the range with its confidence; instead of them the
    disturbance, if it was too much for any figure to hold."""
    if noise.too_much:
        return _disturbance(noise)
    if len(estimate.ratios) == 1:
        return f"One run: {times(estimate.median)}."
    if not estimate.enough:
        return f"Median so far {times(estimate.median)}, {_range(estimate)}."
    return (
        f"Median {times(estimate.median)} ({percent(estimate.level)} confidence in this sitting: "
        f"{_range(estimate)})."
    )


def words(contest: Contest, different: int, divergence: Divergence | None) -> str:
    """Say in a sentence whether both wrote the same words; ``different``: pairs that differ."""
    if not contest.compares_words:
        return _WORDS_BY_TIMES
    if not different:
        return "Both wrote the same text, token for token."
    if not contest.promises_words:
        return f"The text differs, as expected: {_why_they_may(contest)}."
    return f"The text differs. {divergence}" if divergence else "The text differs."


_WORDS_BY_TIMES = (
    "The text is not compared: with automatic depth this acceptance rule writes "
    "other text each time, even for one seed. The probability of each reply stays "
    "the same. With a fixed depth a seed gives the same text again."
)


def _why_they_may(contest: Contest) -> str:
    """Return the most important reason why equal words are not promised."""
    if not contest.one_target:
        return "these are two models"
    if contest.base.sampling != contest.rival.sampling:
        return "the two sides sample differently"
    if not contest.keeps_words:
        return "the server does not report its acceptance rule"
    if contest.target_names is not None:
        return "each side ran on its own engine, which may round differently"
    if contest.base.rule != contest.rival.rule:
        return "the two acceptance rules sample differently"
    return "this rule keeps the distribution, not the text"


def unknown(*sides: Loaded) -> tuple[str, ...]:
    """Return one text for each kind of unknown of the sides on a server, without repetition."""
    return tuple(dict.fromkeys(_unknown(loaded) for loaded in sides if loaded.server))


def _unknown(loaded: Loaded) -> str:
    capabilities = loaded.capabilities
    gaps = [
        *([] if capabilities.rounds else ["its rounds, so there is no replay"]),
        *([] if capabilities.tokens else ["its tokens, so the text is compared"]),
        *([] if capabilities.rules else ["its acceptance rule, so equal text is not guaranteed"]),
    ]
    first = f"{loaded.name} does not report {'; nor '.join(gaps)}. " if gaps else ""
    return (
        f"{first}The speed of {loaded.name} is measured by the server if it reports "
        "times, else here. It may be serving others at the same time."
    )


def as_json(
    race: Race, divergence: Divergence | None, unknown: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the stable keys that scripts rely on."""
    estimate, (base, rival) = race.estimate, names(race.contest)
    same = all(pair.same_words for pair in race.pairs)
    return {
        "base": base,
        "rival": rival,
        "pairs": [pair_json(pair) for pair in race.pairs],
        "median": estimate and estimate.median,
        "low": estimate and estimate.low,
        "high": estimate and estimate.high,
        "level": estimate and estimate.level,
        "favours": favours(estimate, race.contest, race.noise),
        "verdict": verdict(estimate, race.contest, race.noise),
        "spread": race.noise.spread,
        "taken": race.noise.taken,
        "promises_words": race.contest.promises_words,
        "same_words": same if race.contest.compares_words else None,
        "divergence": divergence and asdict(divergence),
        "unknown": list(unknown),
    }


def pair_json(pair: Pair) -> dict[str, Any]:
    return {
        "prompt": pair.prompt,
        "ratio": pair.ratio,
        "base_tokens_per_s": pair.base.statistics.tokens_per_s,
        "rival_tokens_per_s": pair.rival.statistics.tokens_per_s,
        "acceptance_rate": pair.rival.statistics.acceptance_rate,
        "same_words": pair.same_words,
    }
