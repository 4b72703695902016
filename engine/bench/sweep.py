"""Measure every method at every depth on each kind of prompt against plain decoding.

A machine's speed drifts within a minute, and a sweep takes many. So plain decoding answers every
prompt again and again: before and after each two settings, whose order turns with every repeat. A
reply's speed-up is against the plain replies around it; of the repeats the one in the middle counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import ceil
from typing import Any

from engine.api import Engine
from engine.bench import answering
from engine.bench.answering import Answer, Configuration, Stop, Stopped, check_repeats, turned
from engine.bench.prompts import ALL, Prompt
from engine.errors import ContextExceeded, ForetokenError
from engine.request import PLAIN, Control, Speculation
from engine.stats import Statistics
from engine.values import MAX_DEPTH
from engine.values.sampling import AcceptanceRule, Sampling, resolve_rule

_BETWEEN = 2
"""Settings between two plain replies."""
TIE = 0.03
"""Largest lead of a fixed depth at which ``auto`` still wins: it adapts to texts not measured."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A proposer at a depth; under ``auto`` the depth is the most it may draft."""

    proposer: str
    depth: int
    controller: Control = Control.FIXED


PLAIN_SETTING = Setting(PLAIN, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a sweep. ``temperatures``: each is a sweep of its own, with rows of its own."""

    settings: tuple[Setting, ...]
    temperatures: tuple[float, ...] = (0.0,)
    acceptance: AcceptanceRule = AcceptanceRule.AUTO
    max_tokens: int = 160
    repeats: int = 3
    seed: int = 1

    def way(self, setting: Setting, temperature: float) -> Configuration:
        """Return the configuration of ``setting``."""
        speculation = Speculation(**asdict(setting), acceptance=self.acceptance)
        sampling = Sampling(temperature=temperature, seed=self.seed)
        return Configuration(speculation, sampling, self.max_tokens)

    def replies(self, prompts: int) -> int:
        """Return the replies for that many prompts, after the one that checks that a prompt fits."""
        plain = 1 + ceil(len(self.settings) / _BETWEEN)
        each = self.repeats * (len(self.settings) + plain)
        return len(self.settings) + prompts * len(self.temperatures) * each


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on one kind of prompt at one temperature.

    ``speedup`` is against plain decoding beside it, and ``slowest`` and ``fastest`` the least
    and greatest of any one prompt. ``per_position``: the share of rounds that accepted position 1, 2,
    ... ``memory_bytes``: weights and caches that the method needs, estimated; None if the engine
    does not tell. ``divergences``: replies with other words than plain decoding's; None where the rule
    promises the distribution instead.
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
    fastest: float
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    per_position: tuple[float, ...]
    memory_bytes: int | None
    divergences: int | None

    @property
    def setting(self) -> Setting:
        return Setting(self.proposer, self.depth, Control(self.controller))

    @property
    def identical(self) -> bool | None:
        """True if every reply has the tokens of plain decoding; None where ``divergences`` is."""
        return None if self.divergences is None else self.divergences == 0


@dataclass(frozen=True, slots=True)
class Result:
    """All rows, plain decoding's included, and how many prompts of each kind were too long. ``prompts``:
    those that were answered.

    ``stopped``: it was ended before its time; the rows are of the prompts that were answered by all.
    """

    rows: tuple[Row, ...]
    left_out: dict[str, int]
    stopped: bool = False
    prompts: tuple[Prompt, ...] = ()

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
"""One pass per prompt for each setting: the median of its repeats."""


def settings(methods: Sequence[str], depths: Sequence[int], auto: bool = True) -> list[Setting]:
    """Return every method at every fixed depth and with the automatic one."""
    fixed = [Setting(method, depth) for method, depth in product(methods, depths)]
    measured = [Setting(method, MAX_DEPTH, Control.AUTO) for method in methods if auto]
    return sorted(fixed + measured, key=lambda one: methods.index(one.proposer))


def run(
    engine: Engine,
    prompts: Sequence[Prompt],
    plan: Plan,
    memory: Callable[[str], int] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_result: Callable[[Result], None] = lambda result: None,
    stop: Stop | None = None,
) -> Result:
    """Sweep; return a row for each temperature, kind and setting. ``memory``: bytes a method needs.

    ``on_progress`` hears of every answer, ``on_result`` what is known after another prompt. Prompts that
    are too long for the model are counted and left out. ``stop`` ends it: what was measured by then is
    the result. Raises ForetokenError where a reply fails or nothing is left.
    """
    settings, follow = (PLAIN_SETTING, *plan.settings), (stop or Stop()).follow
    passes: dict[float, _Passes] = {t: {each: [] for each in settings} for t in plan.temperatures}
    fitting: list[Prompt] = []
    left_out: Counter[str] = Counter()
    done, total = 0, len(prompts) * len(plan.temperatures) + plan.replies(len(prompts))

    def ask(prompt: Prompt, setting: Setting, temperature: float) -> Answer:
        nonlocal done
        made = answering.answer(engine, prompt, plan.way(setting, temperature), follow)
        done += 1
        on_progress(done, total)
        return made

    def result(*, stopped: bool = False) -> Result:
        rows = tuple(
            row
            for temperature, of in passes.items()
            for row in _rows(fitting[: len(of[PLAIN_SETTING])], plan, temperature, of, memory)
        )
        return Result(rows, dict(left_out), stopped, tuple(fitting))

    try:
        for prompt in prompts:
            try:  # whether its every turn fits the context, by plain decoding
                for temperature in plan.temperatures:
                    ask(prompt, PLAIN_SETTING, temperature)
                fitting.append(prompt)
            except ContextExceeded:
                left_out[prompt.kind] += 1
        total = done + plan.replies(len(fitting))
        if not fitting:
            raise ForetokenError(
                "Every prompt is longer than the model's context. Choose shorter ones."
            )
        for setting in plan.settings:  # first calls build what later ones reuse
            ask(fitting[0], setting, plan.temperatures[0])
        for temperature, of in passes.items():
            for index, prompt in enumerate(fitting):
                one = partial(ask, prompt, temperature=temperature)
                for setting, middle in _one_prompt(one, plan, temperature, index).items():
                    of[setting].append(middle)
                on_result(result())
    except Stopped:
        return result(stopped=True)
    return result()


def _one_prompt(
    ask: Callable[..., Answer], plan: Plan, temperature: float, index: int
) -> dict[Setting, _Pass]:
    """Return every setting's median pass over one prompt, and plain decoding's own."""
    several: _Passes = {setting: [] for setting in plan.settings}
    plains = []
    for repeat in range(plan.repeats):
        plains.append(ask(setting=PLAIN_SETTING))
        for group in _groups(plan.settings, index + repeat):
            before, answers = plains[-1], [ask(setting=setting) for setting in group]
            plains.append(ask(setting=PLAIN_SETTING))
            around = replace(plains[-1], statistics=before.statistics + plains[-1].statistics)
            for setting, answer in zip(group, answers, strict=True):
                several[setting].append(_Pass(answer, around))
    plain = sorted(plains, key=lambda one: one.statistics.decode_s)[len(plains) // 2]
    check_repeats(plan.way(PLAIN_SETTING, temperature), plains)
    middle = {PLAIN_SETTING: _Pass(plain, plain)}
    for setting, passes in several.items():
        check_repeats(plan.way(setting, temperature), [one.answer for one in passes])
        # Of an even number the slower one, which promises no more than there is.
        middle[setting] = sorted(passes, key=lambda one: one.speedup)[(len(passes) - 1) // 2]
    return middle


def winners(result: Result) -> dict[str, Row]:
    """Return the fastest row at the first temperature, for each kind and for all together:
    plain if none is faster, ``auto`` if the fastest is hardly faster than it."""
    return {
        kind: _winner([row for row in result.rows if row.prompt_kind == kind])
        for kind in result.kinds
    }


def as_json(result: Result) -> dict[str, Any]:
    """Return the stable keys that scripts rely on."""
    return {
        "results": [{**asdict(row), "identical": row.identical} for row in result.rows],
        "winners": {kind: asdict(row) for kind, row in winners(result).items()},
        "left_out": result.left_out,
        "divergences": result.divergences,
    }


def _groups(settings: Sequence[Setting], turn: int) -> Iterator[Sequence[Setting]]:
    """Split the settings into groups. The first rotates; every other time the order is reversed."""
    order = turned(settings, turn // 2)[:: -1 if turn % 2 else 1]
    for start in range(0, len(order), _BETWEEN):
        yield order[start : start + _BETWEEN]


def _rows(
    prompts: Sequence[Prompt],
    plan: Plan,
    temperature: float,
    passes: _Passes,
    memory: Callable[[str], int] | None,
) -> Iterator[Row]:
    if not prompts:
        return
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
                fastest=max(one.speedup for one in mine),
                acceptance_rate=total.acceptance_rate,
                mean_acceptance_length=total.mean_acceptance_length,
                per_position=total.per_position,
                memory_bytes=None if memory is None else memory(setting.proposer),
                divergences=None if rule.weighs_q else differ,
            )


def _winner(rows: Sequence[Row]) -> Row:
    rows = [row for row in rows if row.temperature == rows[0].temperature]
    best = max(rows, key=lambda row: row.speedup)
    auto = [row for row in rows if row.controller == Control.AUTO]
    adapts = max(auto, key=lambda row: row.speedup, default=best)
    return adapts if adapts.speedup >= max(1.0, (1 - TIE) * best.speedup) else best


def _speedup(ours: Statistics, plain: Statistics) -> float:
    """Return the ratio of both speeds; 1 if there was nothing to decode."""
    if not ours.tokens_per_s or not plain.tokens_per_s:
        return 1.0
    return ours.tokens_per_s / plain.tokens_per_s
