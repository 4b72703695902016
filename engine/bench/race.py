"""Race two configurations: the same prompts, after a warm-up, in pairs of alternating order.

Speeds of one machine drift and jump, and what ran second ran on a warmer processor. So each side answers
once unmeasured, then both answer in pairs: base rival, rival base, base rival, ... A pair's ratio is
that of both decode speeds (``engine.stats``); ``engine.bench.reports.paired`` judges the pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from statistics import fmean

from engine.api import Engine
from engine.bench.answering import Answer, Configuration, Stop, Stopped, answer, check_repeats
from engine.bench.prompts import Prompt
from engine.bench.reports.paired import PAIRS, Estimate, Noise, estimate, spread
from engine.errors import ForetokenError
from engine.events import Event
from engine.machine import processor
from engine.request import PLAIN


class Side(StrEnum):
    """One side of a race. Ratios are the rival's speed divided by the base's."""

    BASE = "base"
    RIVAL = "rival"


@dataclass(frozen=True, slots=True)
class Contest:
    """A race's definition: both sides on the same prompts, one prompt a pair, over and over.

    ``target_names``: what each side runs on, for people, where they run on different engines.
    ``keeps_words``: whether an engine writes a request's words again, which one elsewhere need not: its
    sums may depend on what it computes beside them. ``one_target``: whether both sides are known to run
    the same target.
    """

    base: Configuration
    rival: Configuration
    prompts: tuple[Prompt, ...]
    target_names: tuple[str, str] | None = None
    keeps_words: bool = True
    one_target: bool = True

    def of(self, side: Side) -> Configuration:
        return self.base if side is Side.BASE else self.rival

    @property
    def alike(self) -> bool:
        """True if both sides have the same settings, so that only chance can separate them."""
        return self.target_names is None and self.base == self.rival

    @property
    def promises_words(self) -> bool:
        """True if both sides must give the same words: same sampling, and rules that keep the words."""
        base, rival = self.base, self.rival
        same = base.sampling == rival.sampling and base.rule == rival.rule
        one = self.keeps_words and self.target_names is None
        return one and same and not base.rule.weighs_q and base.repeats_words

    @property
    def compares_words(self) -> bool:
        """False if one side's words differ from run to run, so that they cannot be compared."""
        return not (self.base.times_decide_words or self.rival.times_decide_words)

    @property
    def pairs(self) -> int:
        """Return the number of pairs of a first look: every prompt once, and enough for a range."""
        return max(PAIRS, len(self.prompts))


@dataclass(frozen=True, slots=True)
class Run:
    """One side's answer to one prompt. ``pair`` counts from 0; None: to warm up, unmeasured."""

    side: Side
    pair: int | None
    prompt: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides' answers to one prompt, and the ratio of their decode speeds."""

    prompt: int
    base: Answer
    rival: Answer
    ratio: float

    @property
    def same_words(self) -> bool:
        return self.base.says_the_same_as(self.rival)

    def of(self, side: Side) -> Answer:
        return self.base if side is Side.BASE else self.rival


def _nothing(*arguments: object) -> None:
    """Ignore an event."""


class Race:
    """One race; it can be extended by more pairs, and keeps all measurements."""

    def __init__(self, engine: Engine, contest: Contest, base_engine: Engine | None = None) -> None:
        """``base_engine``: the engine of the base, if it is another."""
        self.engine, self.contest = engine, contest
        self._engines = {Side.RIVAL: engine, Side.BASE: base_engine or engine}
        self._pairs: list[Pair] = []
        self.warm = False  # whether both sides have answered once, unmeasured
        self._stop = Stop()
        self._taken: list[float] = []  # by other programs, while each pair was measured

    def base_on(self, engine: Engine) -> None:
        """Use a new ``engine`` for the base, which was reopened; both sides warm up again."""
        self._engines[Side.BASE] = engine
        self.warm = False

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(self._pairs)

    @property
    def estimate(self) -> Estimate | None:
        return estimate([pair.ratio for pair in self._pairs]) if self._pairs else None

    @property
    def noise(self) -> Noise:
        if not self._pairs:
            return Noise()
        # Where words differ, work differs too.
        same = [side for side in Side if self.contest.of(side).repeats_words]
        return Noise(max(map(self._spread, same), default=1.0), fmean(self._taken or [0]))

    def run(
        self,
        count: int,
        *,
        on_run: Callable[[Run], None] = _nothing,
        on_event: Callable[[Run, Event], None] = _nothing,
        on_pair: Callable[[Pair], None] = _nothing,
    ) -> bool:
        """Measure ``count`` more pairs; return False if cancelled.

        ``on_run`` hears of each answer that begins, ``on_event`` of its events, ``on_pair`` of each pair
        that is measured. Raises ForetokenError where a reply fails, cannot be timed, or is not the same
        twice and must be.
        """

        def answered(run: Run) -> Answer:
            on_run(run)
            return answer(
                self._engines[run.side],
                self.contest.prompts[run.prompt],
                self.contest.of(run.side),
                lambda generation: stop.follow(generation, partial(on_event, run)),
            )

        stop = self._stop
        try:
            if not self.warm:
                for side in Side:
                    answered(Run(side, None, 0))
                self.warm = True
            for _ in range(count):
                processor.taken_by_others()  # what counts begins here
                self._pairs.append(self._pair(answered))
                # A server may be one of those programs.
                if not any(one.loaded and one.loaded.server for one in self._engines.values()):
                    self._taken.append(processor.taken_by_others())
                on_pair(self._pairs[-1])
        except Stopped:
            return False
        finally:
            self._stop = Stop()  # who cancelled meant these pairs, not later ones
        return True

    def cancel(self) -> None:
        """Stop the current run; its pair is not counted. Any thread may call this."""
        self._stop.now()

    def _pair(self, answered: Callable[[Run], Answer]) -> Pair:
        number = len(self._pairs)
        cycle, prompt = divmod(number, len(self.contest.prompts))
        order = _order(number, cycle, len(self.contest.prompts))
        made = {side: answered(Run(side, number, prompt)) for side in order}
        base, rival = made[Side.BASE], made[Side.RIVAL]
        earlier = next((pair for pair in self._pairs if pair.prompt == prompt), None)
        if earlier is not None and self.contest.keeps_words:
            for side in Side:
                check_repeats(self.contest.of(side), (earlier.of(side), made[side]))
        return Pair(prompt, base, rival, _ratio(base, rival))

    def _spread(self, side: Side) -> float:
        """Return how much the side's speed changed. Plain decoding is as fast on any prompt."""
        plain = self.contest.of(side).speculation.proposer == PLAIN
        same: dict[int, list[float]] = defaultdict(list)
        for pair in self._pairs:
            speed = pair.of(side).statistics.tokens_per_s
            same[0 if plain else pair.prompt].append(speed or 0.0)
        return spread(same.values())


def _order(number: int, cycle: int, prompts: int) -> tuple[Side, Side]:
    """Alternate who runs first from pair to pair, and for each prompt from cycle to cycle."""
    turned = number + (cycle if prompts % 2 == 0 else 0)
    return (Side.BASE, Side.RIVAL) if turned % 2 == 0 else (Side.RIVAL, Side.BASE)


def _ratio(base: Answer, rival: Answer) -> float:
    slow, fast = base.statistics.tokens_per_s, rival.statistics.tokens_per_s
    if not slow or not fast:
        raise ForetokenError(
            "The reply cannot be timed: it was empty, or the engine reports no times. "
            "Choose a prompt with a longer answer."
        )
    return fast / slow
