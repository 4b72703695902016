"""Figures of a contest: medians over repeats with what they ranged over, and whose words changed.

A repeat's speed is that of all its replies as one. Ratios are made within a repeat, then their median is
taken: engines that are compared ran minutes apart, not hours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from engine.bench.prompts import ALL
from engine.bench.real.contest import Answer, Method, Reply, Result, Setting, Turn, speed

Key = tuple[str, str, Setting]
"""Engine, weights and setting."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the most of what it is the median of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
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


def by_setting(result: Result) -> dict[Key, list[Answer]]:
    """Return the answers in each setting, in the order in which they were first measured."""
    groups: dict[Key, list[Answer]] = {}
    for turn in result.turns:
        for answer in turn.answers:
            groups.setdefault((turn.engine, turn.weights, answer.setting), []).append(answer)
    return groups


def rows(result: Result, eos: Collection[int] = ()) -> list[Row]:
    """Return a row for each setting. Of several plain ones the first is what others are compared with."""
    groups = by_setting(result)
    plain = {key[:2]: groups[key] for key in reversed(groups) if key[2].method is Method.PLAIN}
    return [_row(result, key, some, plain.get(key[:2], []), eos) for key, some in groups.items()]


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
    speeds = {key: _speeds(answers) for key, answers in by_setting(result).items()}
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


def _row(
    result: Result, key: Key, answers: list[Answer], plain: list[Answer], eos: Collection[int]
) -> Row:
    drafted, accepted, rounds = (
        sum(getattr(one.reply, name) or 0 for one in answers)
        for name in ("drafted", "accepted", "rounds")
    )
    ratios = _ratios(_speeds(answers), _speeds(plain))
    first = {one.prompt: words(one.reply.tokens, eos) for one in reversed(plain)}
    differ = {a.prompt for a in answers if words(a.reply.tokens, eos) != first.get(a.prompt)}
    of_kind = {
        kind: [one for one in answers if kind in (ALL, result.kinds[one.prompt])]
        for kind in (*result.kinds, ALL)
    }
    return Row(
        *key,
        repeats=len(_speeds(answers)),
        tokens_per_s={kind: Spread.of([*_speeds(of).values()]) for kind, of in of_kind.items()},
        speedup=Spread.of(ratios) if ratios else None,
        differ=len(differ) if plain else None,
        acceptance=accepted / drafted if drafted else None,
        length=1 + accepted / rounds if rounds and drafted else None,
    )


def _by_repeat(answers: Iterable[Answer]) -> dict[int, list[Reply]]:
    replies: dict[int, list[Reply]] = {}
    for answer in answers:
        replies.setdefault(answer.repeat, []).append(answer.reply)
    return replies


def _speeds(answers: Iterable[Answer]) -> dict[int, float]:
    """Return the tokens per second by repeat."""
    return {repeat: speed(several) for repeat, several in _by_repeat(answers).items()}


def _ratios(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """Return the ratios of the repeats that both ran in."""
    return [value / theirs[repeat] for repeat, value in ours.items() if theirs.get(repeat)]


def _loaded(turn: Turn) -> str:
    """Name what a program loaded; lookup methods load what plain decoding does, and are not listed."""
    methods = {setting.method for setting in turn.settings}
    if Method.DRAFT in methods:
        return "with the draft"
    return "alone" if Method.PLAIN in methods else ""


def _prompt_speeds(turns: Iterable[Turn]) -> list[float]:
    """Return the prompt tokens per second of all prompts as one, by repeat."""
    return [
        sum(reply.prompt_tokens for reply in several)
        / max(sum(reply.prompt_s for reply in several), 1e-9)
        for several in _by_repeat(one for turn in turns for one in turn.answers).values()
    ]
