"""Tokens per second: engines in turns, on the same weights, with the same prompts."""

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
OnError = Callable[[str, Exception], None]
"""Called with the name of what failed, and the error."""
NAME, GRAPHS = "foretoken", "graphs"
DEPTH = 5
"""Tokens drafted in each round, by all engines."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one engine in one setting. ``tokens_per_s``: ``low`` and ``high`` as in ``Times``.

    ``ratio``: to our plain decoding in the same run, 0 if that failed. ``right``: it wrote the text that
    the weights define. ``right_share``: share of tokens at which its draft agrees with the target;
    ``acceptance``: accepted / drafted. ``round_s``: wall time of a round; ``device_s``: time of its steps
    alone; the rest is the host's.
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
        """The share of a round's time beyond its steps; None if not measured."""
        if self.round_s is None or self.device_s is None:
            return None
        return max(0.0, 1 - self.device_s / self.round_s)


class OwnEngine(ABC):
    """This engine as a contender: greedy, and with a draft at a fixed depth.

    ``right``: the share of tokens at which the draft agrees with the target. ``statistics``: of replies
    since ``restart``. ``clocked_s``: seconds of their rounds by the device's clock, 0 without one.
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
        """Reset the statistics."""
        self.statistics, self.clocked_s = Statistics(), 0.0

    @abstractmethod
    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        """See ``Contender.answer``."""

    @abstractmethod
    def close(self) -> None:
        """See ``Contender.close``."""


class Loop(OwnEngine):
    """The loop of ``engine.decoding``, where the host verifies each round before it begins the next."""

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
        reply = tally.statistics()
        self.statistics = self.statistics + reply
        return Reply(tuple(context.output), reply.completion_tokens, reply.decode_s)

    def close(self) -> None:
        self.proposer.close()


class _Bounded:
    """A model with a shorter context, so that its caches are no larger than needed."""

    def __init__(self, model: Model, context: int) -> None:
        self._model = model
        self.info = replace(model.info, context=context)
        self.new_state, self.forward = model.new_state, model.forward


def reraise(what: str, error: Exception) -> None:
    """Raise ``error``: the ``OnError`` of callers that report none."""
    raise error


def attempt(on_error: OnError, what: str, work: Callable[[], T]) -> T | None:
    """Return the result of ``work``; if it fails, report the error and return None."""
    try:
        return work()
    except Exception as error:
        on_error(what, error)
        return None


def race(
    model: str,
    contenders: Sequence[Contender],
    texts: Sequence[tuple[Sequence[int], Sequence[int]]],
    clock: Clock,
    device_s: Mapping[Contender, float],
    on_error: OnError = reraise,
) -> list[Speed]:
    """Time all contenders on every text, in turns and in changing order; the first is our plain decoding.

    ``texts``: prompts, each with the continuation that the weights define; the first text warms up.
    ``device_s``: seconds of a round's steps alone. A contender that fails is reported and dropped.
    """
    speeds: dict[Contender, list[float]] = {one: [] for one in contenders}
    right = dict.fromkeys(contenders, True)
    failed: set[Contender] = set()
    for number, (prompt, expected) in enumerate(texts):
        if number == 1:
            for one in contenders:
                if isinstance(one, OwnEngine):
                    one.restart()
        first = number % len(contenders)
        for one in (*contenders[first:], *contenders[:first]):
            if one in failed:
                continue
            reply = attempt(
                on_error, label(one), partial(_answer, one, prompt, len(expected), clock)
            )
            if reply is None:
                failed.add(one)
                continue
            right[one] &= reply.tokens is not None and list(reply.tokens) == list(expected)
            if number and reply.seconds:
                speeds[one].append(reply.decoded / reply.seconds)
    plain = [
        speed for one in contenders[:1] if one.entrant.setting == PLAIN for speed in speeds[one]
    ]
    plain_speed = Times.of(plain).median if plain else 0.0
    return [
        _speed(model, one, Times.of(measured), plain_speed, right[one], device_s.get(one))
        for one, measured in speeds.items()
        if measured
    ]


def _answer(one: Contender, prompt: Sequence[int], limit: int, clock: Clock) -> Reply:
    reply = one.answer(prompt, limit)
    clock.wait()
    return reply


def label(one: Contender) -> str:
    """Return a contender's name for people."""
    entrant = one.entrant
    return " ".join(filter(None, (entrant.engine, entrant.setting, entrant.detail)))


def _speed(
    model: str, one: Contender, speed: Times, plain: float, right: bool, device_s: float | None
) -> Speed:
    entrant = one.entrant
    result = Speed(
        model, entrant.engine, entrant.setting, entrant.quantization, entrant.detail,
        entrant.source.value, speed, speed.median / plain if plain else 0.0, right,
    )  # fmt: skip
    if not isinstance(one, OwnEngine) or not one.statistics.rounds:
        return result
    rounds = one.statistics.rounds
    return replace(
        result,
        right_share=one.right,
        acceptance=one.statistics.acceptance_rate,
        round_s=one.statistics.decode_s / rounds,
        device_s=one.clocked_s / rounds if one.clocked_s else device_s,
    )
