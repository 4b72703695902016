"""Figures of a contest: medians over repeats with what they ranged over, and whose words changed.

A repeat's speed is that of all its replies as one. Ratios are made within a repeat, then their median is
taken: engines that are compared ran minutes apart, not hours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from engine.bench.prompts import ALL
from engine.bench.real.contest import Method, Record, Reply, Result, Setting, Start, speed


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


def rows(result: Result, eos: Collection[int] = ()) -> list[Row]:
    """Return a row for each setting, in the order in which they were first measured."""
    groups: dict[tuple[str, str, Setting], list[Record]] = {}
    for record in result.records:
        groups.setdefault((record.engine, record.weights, record.setting), []).append(record)
    return [
        _row(result, records, _plain_of(result, engine, weights), eos)
        for (engine, weights, _), records in groups.items()
    ]


def best(of: Iterable[Row], engine: str, method: Method | None = None) -> Row | None:
    """Return the row that is fastest over all prompts, of an engine, or of its settings of one method."""
    mine = [row for row in of if row.engine == engine and method in (None, row.setting.method)]
    return max(mine, key=lambda row: row.speed, default=None)


def leads(result: Result, of: Sequence[Row], ours: str) -> list[Lead]:
    """Compare our fastest with every other engine's fastest, for each kind of weights that it ran."""
    mine = best(of, ours)
    leads_by_weights = []
    for engine, weights in dict.fromkeys((row.engine, row.weights) for row in of):
        theirs = best((row for row in of if row.weights == weights), engine)
        if mine is None or theirs is None or engine == ours:
            continue
        ratios = _ratios(_speeds(_of(result, mine)), _speeds(_of(result, theirs)))
        if ratios:
            leads_by_weights.append(Lead(mine, theirs, Spread.of(ratios)))
    return leads_by_weights


def costs(result: Result) -> list[Cost]:
    """Return a line for each way of starting: an engine, its weights, what it drafts with."""
    groups: dict[tuple[str, str, str], list[Start]] = {}
    for start in result.starts:
        groups.setdefault((start.engine, start.weights, _loaded(start)), []).append(start)
    return [
        Cost(
            engine,
            weights,
            what,
            Spread.of([start.ready_s for start in starts]),
            max((start.peak_bytes for start in starts if start.peak_bytes), default=None),
            Spread.of(_prompt_speeds(result, starts)),
        )
        for (engine, weights, what), starts in groups.items()
        if what
    ]


def relative_costs(result: Result, ours: str) -> RelativeCosts | None:
    """Return the relative costs of the engine that reports its steps; None if it did not run."""
    steps = [start.steps for start in result.starts if start.engine == ours and start.steps]
    if not steps:
        return None
    typical = {count: median(one[count] for one in steps) for count in steps[0]}
    drafts = [
        record.reply
        for record in result.records
        if record.engine == ours
        and record.setting.method is Method.DRAFT
        and record.reply.drafted
        and record.reply.draft_s
    ]
    drafted = sum(reply.drafted or 0 for reply in drafts)
    draft_s = sum(reply.draft_s or 0.0 for reply in drafts) / drafted if drafted else None
    read = [start.reading for start in result.starts if start.engine == ours and start.reading]
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
    result: Result, records: Sequence[Record], plain: Sequence[Record], eos: Collection[int]
) -> Row:
    first, replies = records[0], [record.reply for record in records]
    drafted, accepted = (
        sum(value or 0 for value in values)
        for values in ([r.drafted for r in replies], [r.accepted for r in replies])
    )
    rounds = sum(reply.rounds or 0 for reply in replies)
    ratios = _ratios(_speeds(records), _speeds(plain))
    kinds = (*dict.fromkeys(result.kinds), ALL)
    return Row(
        engine=first.engine,
        weights=first.weights,
        setting=first.setting,
        repeats=len({record.repeat for record in records}),
        tokens_per_s={kind: Spread.of(_by_kind(result, records, kind)) for kind in kinds},
        speedup=Spread.of(ratios) if ratios else None,
        differ=_differing(records, plain, eos) if plain else None,
        acceptance=accepted / drafted if drafted else None,
        length=1 + accepted / rounds if rounds and drafted else None,
    )


def _by_kind(result: Result, records: Sequence[Record], kind: str) -> list[float]:
    chosen = [record for record in records if kind in (ALL, result.kinds[record.prompt])]
    return list(_speeds(chosen).values())


def _by_repeat(records: Iterable[Record]) -> dict[int, list[Reply]]:
    replies: dict[int, list[Reply]] = {}
    for record in records:
        replies.setdefault(record.repeat, []).append(record.reply)
    return replies


def _speeds(records: Iterable[Record]) -> dict[int, float]:
    """Return the tokens per second by repeat."""
    return {repeat: speed(several) for repeat, several in _by_repeat(records).items()}


def _ratios(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """Return the ratios of the repeats that both ran in."""
    return [value / theirs[repeat] for repeat, value in ours.items() if theirs.get(repeat)]


def _of(result: Result, row: Row) -> list[Record]:
    key = (row.engine, row.weights, row.setting)
    return [r for r in result.records if (r.engine, r.weights, r.setting) == key]


def _plain_of(result: Result, engine: str, weights: str) -> list[Record]:
    return [
        record
        for record in result.records
        if (record.engine, record.weights) == (engine, weights)
        and record.setting.method is Method.PLAIN
    ]


def _differing(records: Sequence[Record], plain: Sequence[Record], eos: Collection[int]) -> int:
    plain_words = {record.prompt: words(record.reply.tokens, eos) for record in reversed(plain)}
    return len(
        {r.prompt for r in records if words(r.reply.tokens, eos) != plain_words.get(r.prompt)}
    )


def _loaded(start: Start) -> str:
    """Name what a program loaded; lookup methods load what plain decoding does, and are not listed."""
    methods = {setting.method for setting in start.settings}
    if Method.DRAFT in methods:
        return "with the draft"
    return "alone" if Method.PLAIN in methods else ""


def _prompt_speeds(result: Result, starts: Sequence[Start]) -> list[float]:
    """Return the prompt tokens per second of all prompts as one, by repeat, for what ``starts`` ran."""
    ran = {(start.repeat, start.engine, start.weights, setting)
           for start in starts for setting in start.settings}  # fmt: skip
    mine = (r for r in result.records if (r.repeat, r.engine, r.weights, r.setting) in ran)
    return [
        sum(reply.prompt_tokens for reply in several)
        / max(sum(reply.prompt_s for reply in several), 1e-9)
        for several in _by_repeat(mine).values()
    ]
