"""Tokens a second: engines that answer in turns, on the same weights, from the same prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from engine.decoding.context import Context
from engine.decoding.host import HostLauncher
from engine.decoding.loop import StoppingCriteria, decode
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import Verifier
from engine.drafting import proposers
from engine.drafting.controllers.fixed import Fixed
from engine.drafting.resources import Resources
from engine.events import Emitted
from engine.models.base import Model
from engine.stats import Statistics, Tally
from engine.values.sampling import AcceptanceRule, Sampling
from tools.gpu_bench.clock import Clock, Times
from tools.gpu_bench.contender import DRAFT, PLAIN, Contender, Entrant, Reply, Source
from tools.gpu_bench.engines import path

T = TypeVar("T")
Tell = Callable[[str, Exception], None]
"""Called with what failed; without one, what fails raises."""
NAME, GRAPHS = "foretoken", "graphs"
DEPTH = 5
"""Tokens drafted a round, by all."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One engine in one setting. ``tokens_per_s``: ``low`` and ``high`` as in ``Times``.

    ``ratio``: to our plain decoding in the same run, 0 where that failed. ``right``: it wrote what the
    weights were made to say. ``right_share``: tokens at which its draft is right; ``acceptance`` is what
    came of it, accepted of drafted. ``round_s``: wall time of a round, and ``device_s`` what its steps
    take alone; the rest is the host's.
    """

    model: str
    engine: str
    setting: str
    kind: str
    detail: str
    source: str
    tokens_per_s: Times
    ratio: float
    right: bool
    right_share: float | None = None
    acceptance: float | None = None
    round_s: float | None = None
    device_s: float | None = None

    @property
    def host_share(self) -> float | None:
        """Of a round's time, what its steps do not explain."""
        if self.round_s is None or self.device_s is None:
            return None
        return max(0.0, 1 - self.device_s / self.round_s)


class Ours(ABC):
    """This engine in one way of running: greedy; with a draft, at a fixed depth.

    ``right``: the share of tokens at which the draft was made to be right. ``statistics`` of all replies
    since ``restart``; ``clocked_s``: what their rounds took by the device's own clock, 0 without one.
    """

    def __init__(self, model: Model, draft: Model | None, right: float | None, how: str) -> None:
        self.right, self.depth = right, 0 if draft is None else DEPTH
        drafting = "" if draft is None else f", depth {DEPTH}, {right:g} right"
        self.entrant = Entrant(
            NAME,
            PLAIN if draft is None else DRAFT,
            model.info.quantization,
            how + drafting,
            Source.MEASURED if draft is None else Source.SIMULATED,
        )
        self.restart()

    def restart(self) -> None:
        """Forgets what was counted."""
        self.statistics, self.clocked_s = Statistics(), 0.0

    @abstractmethod
    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        """See ``Contender.answer``."""

    @abstractmethod
    def close(self) -> None:
        """See ``Contender.close``."""


class Loop(Ours):
    """The loop of ``engine.decoding``, where the host judges every round before it begins the next."""

    def __init__(
        self, model: Model, draft: Model | None, right: float | None, longest: int
    ) -> None:
        super().__init__(model, draft, right, path(model))
        self.model = model
        self.target = Target(_Bounded(model, longest))
        resources = Resources(draft=None if draft is None else _Bounded(draft, longest))
        self.proposer = proposers.create("none" if draft is None else "draft", {}, resources)

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        context, sampling = Context(list(prompt)), Sampling(temperature=0.0, seed=1)
        rule = AcceptanceRule.GREEDY
        sampler = Sampler(sampling, rule, 1, context, self.model.info.vocabulary)
        self.target.clear()
        self.target.extend(context.tokens[:-1])
        self.proposer.begin(Context(()), sampler)
        self.proposer.begin(context, sampler)
        for _ in self.proposer.prepare(context):
            pass
        tally = Tally()
        launcher = HostLauncher(context, self.target, self.proposer, Verifier(sampler))
        setting = self.entrant.setting
        for round in decode(
            context, launcher, Fixed(self.depth), StoppingCriteria(limit, ()), setting
        ):
            tally.add(Emitted(text="", round=round))
        found = tally.statistics()
        self.statistics = self.statistics + found
        return Reply(tuple(context.output), found.completion_tokens, found.decode_s)

    def close(self) -> None:
        self.proposer.close()


class _Bounded:
    """A model whose context ends earlier, so that its caches are no larger than needed."""

    def __init__(self, model: Model, context: int) -> None:
        self._model = model
        self.info = replace(model.info, context=context)
        self.new_state, self.forward = model.new_state, model.forward


def reraise(what: str, error: Exception) -> None:
    """Tells nobody."""
    raise error


def attempt(tell: Tell, what: str, work: Callable[[], T]) -> T | None:
    """What ``work`` returns; None where it fails, which is reported."""
    try:
        return work()
    except Exception as error:
        tell(what, error)
        return None


def race(
    model: str,
    contenders: Sequence[Contender],
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    clock: Clock,
    device_s: Mapping[Contender, float],
    tell: Tell = reraise,
) -> list[Speed]:
    """Every text by all of them in turns, in changing order; the first is our plain decoding.

    ``texts``: prompts, each with what the weights were made to say behind it; the first one warms up.
    ``device_s``: seconds that a round's steps take alone. Who fails is reported and left out then.
    """
    speeds: dict[Contender, list[float]] = {one: [] for one in contenders}
    right = dict.fromkeys(contenders, True)
    failed: set[Contender] = set()
    for number, (prompt, expected) in enumerate(texts):
        if number == 1:
            for one in contenders:
                if isinstance(one, Ours):
                    one.restart()
        turned = number % len(contenders)
        for one in (*contenders[turned:], *contenders[:turned]):
            if one in failed:
                continue
            reply = attempt(tell, called(one), partial(_answer, one, prompt, len(expected), clock))
            if reply is None:
                failed.add(one)
                continue
            right[one] &= reply.tokens is not None and list(reply.tokens) == list(expected)
            if number and reply.seconds:
                speeds[one].append(reply.decoded / reply.seconds)
    first = [
        speed for one in contenders[:1] if one.entrant.setting == PLAIN for speed in speeds[one]
    ]
    plain = Times.of(first).median if first else 0.0
    return [
        _speed(model, one, Times.of(mine), plain, right[one], device_s.get(one))
        for one, mine in speeds.items()
        if mine
    ]


def _answer(one: Contender, prompt: Sequence[int], limit: int, clock: Clock) -> Reply:
    reply = one.answer(prompt, limit)
    clock.wait()
    return reply


def called(one: Contender) -> str:
    """A contender's name for people."""
    entrant = one.entrant
    return " ".join(filter(None, (entrant.engine, entrant.setting, entrant.detail)))


def _speed(
    model: str, one: Contender, speed: Times, plain: float, right: bool, device_s: float | None
) -> Speed:
    entrant = one.entrant
    found = Speed(
        model, entrant.engine, entrant.setting, entrant.quantization, entrant.detail,
        entrant.source.value, speed, speed.median / plain if plain else 0.0, right,
    )  # fmt: skip
    if not isinstance(one, Ours) or not one.statistics.rounds:
        return found
    rounds = one.statistics.rounds
    return replace(
        found,
        right_share=one.right,
        acceptance=one.statistics.acceptance_rate,
        round_s=one.statistics.decode_s / rounds,
        device_s=one.clocked_s / rounds if one.clocked_s else device_s,
    )
