"""Methods by depths by kinds of prompts, each beside plain decoding: which drafts best, and where not.

A machine's speed drifts within a minute, and a sweep takes many. So plain decoding answers every
prompt again and again: before and after each two settings, whose order turns with every repeat. A
reply's speed-up is against the plain replies around it; of the repeats the one in the middle counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from engine.api import Engine
from engine.bench import compare
from engine.bench.compare import Answer, Setting
from engine.bench.prompts import ALL, Prompt
from engine.decoding.sampling import resolve_rule
from engine.errors import ContextExceeded, ForetokenError
from engine.request import MAX_DEPTH, PLAIN, AcceptanceRule, Control, Sampling
from engine.stats import Statistics

DEPTHS = (1, 2, 3, 4, 8)
PLAIN_SETTING = Setting(PLAIN, 0)
_BETWEEN = 2
"""Settings between two plain replies."""
TIE = 0.03
"""``auto`` wins where no fixed depth is faster than it by more: it adapts to texts not measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is swept. ``temperatures``: each is a sweep of its own, with rows of its own."""

    settings: tuple[Setting, ...]
    temperatures: tuple[float, ...] = (0.0,)
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    max_tokens: int = 160
    repeats: int = 3
    seed: int = 1

    def at(self, temperature: float) -> compare.Plan:
        """How one prompt is answered."""
        sampling = Sampling(temperature=temperature, seed=self.seed)
        return compare.Plan((), sampling, self.acceptance, self.max_tokens)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on one kind of prompt at one temperature.

    ``speedup`` is against plain decoding beside it, and ``slowest`` the least of any one prompt.
    ``per_position``: the share of rounds that accepted position 1, 2, ... ``memory_bytes``: weights
    and caches that the method needs, estimated. ``divergences``: replies with other words than plain
    decoding's; None where the rule promises the distribution instead.
    """

    proposer: str
    controller: str
    depth: int
    temperature: float
    prompt_kind: str
    prompts: int
    tokens: int
    tokens_per_s: float
    speedup: float
    slowest: float
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    per_position: tuple[float, ...]
    memory_bytes: int
    divergences: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """All rows, plain decoding's included, and how many prompts of each kind were too long."""

    rows: tuple[Row, ...]
    left_out: dict[str, int]

    @property
    def divergences(self) -> int:
        return sum(row.divergences or 0 for row in self.rows if row.prompt_kind == ALL)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.prompt_kind for row in self.rows))


@dataclass(frozen=True, slots=True)
class _Pass:
    """One reply, and the plain ones around it as one."""

    answer: Answer
    plain: Answer

    @property
    def speedup(self) -> float:
        return _speedup(self.answer.statistics, self.plain.statistics)


_Passes = dict[Setting, list[_Pass]]
"""For each setting a pass a prompt, the middle one of its repeats."""


def settings(methods: Sequence[str], depths: Sequence[int], auto: bool = True) -> list[Setting]:
    """Every method at every depth, and with the depth found by measuring."""
    fixed = [Setting(method, depth) for method, depth in product(methods, depths)]
    measured = [Setting(method, MAX_DEPTH, Control.AUTO) for method in methods if auto]
    return sorted(fixed + measured, key=lambda one: methods.index(one.proposer))


def run(
    engine: Engine,
    prompts: Sequence[Prompt],
    plan: Plan,
    memory: Callable[[str], int],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Result:
    """Sweeps; a row for each temperature, kind and setting. ``memory``: bytes a method needs.

    Prompts that are too long for the model are counted and left out. Raises ForetokenError where a
    reply fails or nothing is left.
    """
    fitting, left_out = _fitting(engine, prompts, plan)
    for setting in plan.settings:  # first calls build what later ones reuse
        compare.answer(engine, fitting[0], setting, plan.at(plan.temperatures[0]))
    rows: list[Row] = []
    total = len(fitting) * len(plan.temperatures)
    for count, temperature in enumerate(plan.temperatures):
        passes: _Passes = {setting: [] for setting in (PLAIN_SETTING, *plan.settings)}
        for index, prompt in enumerate(fitting):
            for setting, middle in _one_prompt(engine, prompt, plan, temperature, index).items():
                passes[setting].append(middle)
            on_progress(count * len(fitting) + index + 1, total)
        rows += _rows(fitting, plan, temperature, passes, memory)
    return Result(tuple(rows), left_out)


def winners(result: Result) -> dict[str, Row]:
    """For each kind and for all together the fastest row at the first temperature; plain if none is
    faster, ``auto`` where the fastest is hardly faster than it."""
    return {
        kind: _winner([row for row in result.rows if row.prompt_kind == kind])
        for kind in result.kinds
    }


def as_json(result: Result) -> dict[str, Any]:
    """The stable keys that scripts rely on."""
    return {
        "results": [asdict(row) for row in result.rows],
        "winners": {kind: asdict(row) for kind, row in winners(result).items()},
        "left_out": result.left_out,
        "divergences": result.divergences,
    }


def _fitting(
    engine: Engine, prompts: Sequence[Prompt], plan: Plan
) -> tuple[list[Prompt], dict[str, int]]:
    """The prompts whose every turn the model can answer, by answering them plainly."""
    fitting: list[Prompt] = []
    left_out: Counter[str] = Counter()
    for prompt in prompts:
        try:
            for temperature in plan.temperatures:
                compare.answer(engine, prompt, PLAIN_SETTING, plan.at(temperature))
            fitting.append(prompt)
        except ContextExceeded:
            left_out[prompt.kind] += 1
    if not fitting:
        raise ForetokenError(
            "Every prompt is longer than the model's context, so nothing can be measured. Choose "
            "other prompts with --prompts."
        )
    return fitting, dict(left_out)


def _one_prompt(
    engine: Engine, prompt: Prompt, plan: Plan, temperature: float, index: int
) -> dict[Setting, _Pass]:
    """Every setting's middle pass over one prompt, and plain decoding's own."""
    asked = plan.at(temperature)
    several: _Passes = {setting: [] for setting in plan.settings}
    plains = []
    for repeat in range(plan.repeats):
        before = compare.answer(engine, prompt, PLAIN_SETTING, asked)
        plains.append(before)
        for group in _groups(plan.settings, index + repeat):
            answers = [compare.answer(engine, prompt, setting, asked) for setting in group]
            after = compare.answer(engine, prompt, PLAIN_SETTING, asked)
            plains.append(after)
            for setting, answer in zip(group, answers, strict=True):
                several[setting].append(_Pass(answer, _joined(before, after)))
            before = after
    plain = sorted(plains, key=lambda one: one.statistics.decode_s)[len(plains) // 2]
    middle = {setting: _middle(passes) for setting, passes in several.items()}
    return {PLAIN_SETTING: _Pass(plain, plain), **middle}


def _groups(settings: Sequence[Setting], turn: int) -> Iterator[Sequence[Setting]]:
    """The settings in runs; another begins each time, and every other time they go backwards."""
    at = turn // 2 % len(settings)
    order = [*settings[at:], *settings[:at]][:: -1 if turn % 2 else 1]
    for start in range(0, len(order), _BETWEEN):
        yield order[start : start + _BETWEEN]


def _joined(before: Answer, after: Answer) -> Answer:
    if before.tokens != after.tokens:
        raise ForetokenError("The same request gave different words: this is a bug of the engine.")
    return replace(after, statistics=before.statistics + after.statistics)


def _middle(passes: Sequence[_Pass]) -> _Pass:
    if any(one.answer.tokens != passes[0].answer.tokens for one in passes):
        raise ForetokenError("The same request gave different words: this is a bug of the engine.")
    return sorted(passes, key=lambda one: one.speedup)[len(passes) // 2]


def _rows(
    prompts: Sequence[Prompt],
    plan: Plan,
    temperature: float,
    passes: _Passes,
    memory: Callable[[str], int],
) -> Iterator[Row]:
    rule = resolve_rule(plan.acceptance, temperature)
    for kind in (*dict.fromkeys(prompt.kind for prompt in prompts), ALL):
        chosen = [i for i, prompt in enumerate(prompts) if kind in (ALL, prompt.kind)]
        for setting, all_passes in passes.items():
            mine = [all_passes[i] for i in chosen]
            total = sum((one.answer.statistics for one in mine), Statistics())
            plain = sum((one.plain.statistics for one in mine), Statistics())
            differ = sum(one.answer.tokens != one.plain.tokens for one in mine)
            yield Row(
                proposer=setting.proposer,
                controller=setting.controller,
                depth=setting.depth,
                temperature=temperature,
                prompt_kind=kind,
                prompts=len(mine),
                tokens=total.completion_tokens,
                tokens_per_s=total.tokens_per_s or 0.0,
                speedup=_speedup(total, plain),
                slowest=min(one.speedup for one in mine),
                acceptance_rate=total.acceptance_rate,
                mean_acceptance_length=total.mean_acceptance_length,
                per_position=total.per_position,
                memory_bytes=memory(setting.proposer),
                divergences=None if rule.weighs_q else differ,
            )


def _winner(rows: Sequence[Row]) -> Row:
    rows = [row for row in rows if row.temperature == rows[0].temperature]
    best = max(rows, key=lambda row: row.speedup)
    auto = [row for row in rows if row.controller == Control.AUTO]
    adapts = max(auto, key=lambda row: row.speedup, default=best)
    return adapts if adapts.speedup >= max(1.0, (1 - TIE) * best.speedup) else best


def _speedup(ours: Statistics, plain: Statistics) -> float:
    """The ratio of both speeds; 1 where there was nothing to decode."""
    if not ours.tokens_per_s or not plain.tokens_per_s:
        return 1.0
    return ours.tokens_per_s / plain.tokens_per_s
