"""Figures of a contest: medians over repeats with what they ranged over, and whose words changed.

A repeat's speed is that of all its replies as one. Ratios are made within a repeat, then their median is
taken: engines that are compared ran minutes apart, not hours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from engine.bench.prompts import ALL
from engine.bench.real.contest import Answer, Method, Result, Setting, Turn, speed

Key = tuple[str, str, Setting]
"""Engine, weights and setting."""
Repeats = dict[int, list[Answer]]
"""Answers by repeat."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the most of what it is the median of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise one or more values."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One engine in one setting over all repeats.

    ``tokens_per_s`` by kind of prompt, ``ALL`` among them. ``speedup``: to the same engine's plain
    decoding of the same weights, in the same repeat; None where it has none. ``differ``: prompts of which
    a reply had other words than that plain decoding's first, None likewise. ``acceptance``: accepted of
    drafted tokens; ``length``: tokens of a round; None where the engine does not tell.
    """

    engine: str
    weights: str
    setting: Setting
    repeats: int
    tokens_per_s: dict[str, Spread]
    speedup: Spread | None
    differ: int | None
    acceptance: float | None
    length: float | None

    @property
    def speed(self) -> float:
        """Return the speed over all prompts."""
        return self.tokens_per_s[ALL].median

    @property
    def key(self) -> Key:
        return self.engine, self.weights, self.setting


@dataclass(frozen=True, slots=True)
class Cost:
    """Other costs of an engine's plain decoding: seconds from the start of its process to the
    first token, bytes at its peak with everything in ``what``, tokens/s of prompts."""

    engine: str
    weights: str
    what: str
    ready_s: Spread
    peak_bytes: int | None
    prompt_tokens_per_s: Spread


@dataclass(frozen=True, slots=True)
class RelativeCosts:
    """The times of steps of M rows and of a drafted token, relative to a step of one row.

    ``step_gb_s``: the weights over the time of one row; ``read_gb_s``: of a probe. None if unknown.
    """

    verify: dict[int, float]
    verify_ms: float
    draft: float | None
    step_gb_s: float | None = None
    read_gb_s: float | None = None


@dataclass(frozen=True, slots=True)
class Lead:
    """Our fastest setting beside another engine's fastest, in the same repeats."""

    ours: Row
    theirs: Row
    ratio: Spread


def by_setting(result: Result) -> dict[Key, Repeats]:
    """Return the answers in each setting, in the order in which they were first measured."""
    groups: dict[Key, Repeats] = {}
    for turn in result.turns:
        for answer in turn.answers:
            repeats = groups.setdefault((turn.engine, turn.weights, answer.setting), {})
            repeats.setdefault(turn.repeat, []).append(answer)
    return groups


def rows(result: Result, eos: Collection[int] = ()) -> list[Row]:
    """Return a row for each setting. Of several plain ones the first is what others are compared with."""
    groups = by_setting(result)
    plain = {key[:2]: groups[key] for key in reversed(groups) if key[2].method is Method.PLAIN}
    return [_row(result, key, some, plain.get(key[:2], {}), eos) for key, some in groups.items()]


def fastest(of: Iterable[Row], method: Method | None = None) -> dict[tuple[str, str], Row]:
    """Return the fastest row over all prompts by engine and weights; of settings of one method alone."""
    found: dict[tuple[str, str], Row] = {}
    for row in of:
        if method in (None, row.setting.method):
            best = found.setdefault(row.key[:2], row)
            found[row.key[:2]] = max(best, row, key=lambda each: each.speed)
    return found


def leads(result: Result, of: Sequence[Row], ours: str) -> Iterator[Lead]:
    """Compare our fastest with every other engine's fastest, for each kind of weights that it ran."""
    speeds = {key: _speeds(repeats) for key, repeats in by_setting(result).items()}
    mine = max((row for row in of if row.engine == ours), key=lambda row: row.speed, default=None)
    for (engine, _), theirs in fastest(of).items():
        if mine is None or engine == ours:
            continue
        if ratios := _ratios(speeds[mine.key], speeds[theirs.key]):
            yield Lead(mine, theirs, Spread.of(ratios))


def costs(result: Result) -> list[Cost]:
    """Return a line for each way of starting: an engine, its weights, what it drafts with."""
    groups: dict[tuple[str, str, str], list[Turn]] = {}
    for turn in result.turns:
        groups.setdefault((turn.engine, turn.weights, _loaded(turn)), []).append(turn)
    return [
        Cost(
            *named,
            Spread.of([turn.ready_s for turn in turns]),
            max((turn.peak_bytes for turn in turns if turn.peak_bytes), default=None),
            Spread.of(_prompt_speeds(turns)),
        )
        for named, turns in groups.items()
        if named[2]
    ]


def relative_costs(result: Result, ours: str) -> RelativeCosts | None:
    """Return the relative costs of the engine that reports its steps; None if it did not run."""
    mine = [turn for turn in result.turns if turn.engine == ours]
    steps = [turn.steps for turn in mine if turn.steps]
    if not steps:
        return None
    typical = {count: median(one[count] for one in steps) for count in steps[0]}
    drafts = [
        (answer.reply.drafted, answer.reply.draft_s)
        for turn in mine
        for answer in turn.answers
        if answer.setting.method is Method.DRAFT
    ]
    told = [(count, took) for count, took in drafts if count and took]
    read = [turn.reading for turn in mine if turn.reading]
    draft_s = sum(took for _, took in told) / sum(count for count, _ in told) if told else None
    return RelativeCosts(
        verify={count: seconds / typical[1] for count, seconds in typical.items()},
        verify_ms=1e3 * typical[1],
        draft=None if draft_s is None else draft_s / typical[1],
        step_gb_s=read[0].step_bytes / typical[1] / 1e9 if read else None,
        read_gb_s=median(one.gb_s for one in read) if read else None,
    )


def words(tokens: tuple[int, ...], eos: Collection[int]) -> tuple[int, ...]:
    """Return the tokens before the reply's end: engines differ in whether they return the last one."""
    return tokens[: next((i for i, token in enumerate(tokens) if token in eos), len(tokens))]


def _row(result: Result, key: Key, repeats: Repeats, plain: Repeats, eos: Collection[int]) -> Row:
    replies = [answer.reply for several in repeats.values() for answer in several]
    drafted = sum(reply.drafted or 0 for reply in replies)
    accepted = sum(reply.accepted or 0 for reply in replies)
    rounds = sum(reply.rounds or 0 for reply in replies)
    ratios = _ratios(_speeds(repeats), _speeds(plain))
    said, expected = _said(repeats, eos), dict(reversed(_said(plain, eos)))  # the first counts
    differ = {prompt for prompt, each in said if each != expected.get(prompt)}
    return Row(
        *key,
        repeats=len(repeats),
        tokens_per_s={
            kind: Spread.of([*_speeds(repeats, _of_kind(result, kind)).values()])
            for kind in (*result.kinds, ALL)
        },
        speedup=Spread.of(ratios) if ratios else None,
        differ=len(differ) if plain else None,
        acceptance=accepted / drafted if drafted else None,
        length=1 + accepted / rounds if rounds and drafted else None,
    )


def _said(repeats: Repeats, eos: Collection[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Return prompts and the words that answered them."""
    answers = [answer for several in repeats.values() for answer in several]
    return [(answer.prompt, words(answer.reply.tokens, eos)) for answer in answers]


def _of_kind(result: Result, kind: str) -> set[int]:
    return {at for at, its in enumerate(result.kinds) if kind in (ALL, its)}


def _speeds(repeats: Repeats, prompts: Collection[int] | None = None) -> dict[int, float]:
    """Return the tokens per second by repeat, of all prompts or of some."""
    return {
        repeat: speed(one.reply for one in answers if prompts is None or one.prompt in prompts)
        for repeat, answers in repeats.items()
    }


def _ratios(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """Return the ratios of the repeats that both ran in."""
    return [value / theirs[repeat] for repeat, value in ours.items() if theirs.get(repeat)]


def _loaded(turn: Turn) -> str:
    """Name what a program loaded; lookup methods load what plain decoding does, and are not listed."""
    methods = {setting.method for setting in turn.settings}
    if Method.DRAFT in methods:
        return "with the draft"
    return "alone" if Method.PLAIN in methods else ""


def _prompt_speeds(turns: Sequence[Turn]) -> list[float]:
    """Return the prompt tokens per second of all prompts as one, by repeat."""
    speeds = []
    for repeat in dict.fromkeys(turn.repeat for turn in turns):
        mine = [one.reply for turn in turns if turn.repeat == repeat for one in turn.answers]
        seconds = sum(reply.prompt_s for reply in mine)
        speeds.append(sum(reply.prompt_tokens for reply in mine) / max(seconds, 1e-9))
    return speeds
