"""Acceptance rates, calibration and times measured in rounds, for controllers; kept between requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log

from engine.drafting.controllers.times import Pace, Times
from engine.events import Round
from engine.values import MAX_DEPTH

_FORGET = 0.97
"""Decay of an observation per round: about the last 30 rounds matter."""
_FORGET_LONG_RUN = 0.998
"""Decay of the long-run rate, which outlasts a request and is the prior of the next one."""
_CARRIED = 1.0
"""Weight, in rounds, of earlier requests' statistics at the start of a new one."""
_IDLE = 7
"""Maximum rounds without a draft that age the estimates: nothing was observed in them."""
_LARGEST = 1e9
_PRIOR = 0.7
"""Assumed acceptance of the first token before any round: high enough to try."""
_PRIOR_WEIGHT = 2.0
"""Weight of a prior, in rounds."""
_RARELY = 0.1
"""Minimum rate at which a draft goes on: a proposer that finds nothing costs little."""
_NEXT_RATE = 0.8
"""Assumed acceptance of the token after a likely one: a draft continues if both are worth the cost of the
next. Found by replaying recorded drafts of a real pair and of Pip (docs/log); 0.67 to 1 differ little."""
_MAX_FLOOR = 0.9
"""Maximum probability that a draft needs to continue."""
_PRIOR_STATED, _PRIOR_TOKENS, _REMEMBERED = 0.8, 20.0, 200.0
"""The prior of a calibration: so many tokens with this probability, all correctly stated; and the maximum
number of tokens remembered."""
_MAX_RATE, _MAX_POWER = 0.995, 4.0
"""Limits of the rates that a calibration compares, and of its power."""


class Calibration:
    """Corrects a proposer's probabilities: a token stated with p is accepted with ``p ** power``.

    A drafter distilled from its target states nearly what is accepted (docs/log); others are over- or
    underconfident.
    """

    def __init__(self) -> None:
        self._stated = self._accepted = _PRIOR_STATED * _PRIOR_TOKENS
        self._tokens = _PRIOR_TOKENS
        self.known = False

    def learn(self, stated: Sequence[float], accepted: int) -> None:
        """Add the stated probabilities of verified tokens; the first ``accepted`` ones were accepted."""
        keep = min(1.0, _REMEMBERED / self._tokens)
        self._stated = keep * self._stated + sum(stated)
        self._accepted = keep * self._accepted + accepted
        self._tokens = keep * self._tokens + len(stated)
        self.known = True

    @property
    def power(self) -> float:
        """1 if stated probabilities are right, less if more tokens are accepted."""
        stated = min(self._stated / self._tokens, _MAX_RATE)
        accepted = min(max(self._accepted / self._tokens, 1 - _MAX_RATE), _MAX_RATE)
        return min(max(log(accepted) / log(stated), 1 / _MAX_POWER), _MAX_POWER)

    def stated(self, acceptance: float) -> float:
        """Return the stated probability of tokens with this acceptance."""
        return float(acceptance ** (1 / self.power))


class AcceptanceRate:
    """An exponentially weighted rate.

    New observations get a rising ``weight`` instead of old ones being scaled down: that saves a pass over
    all rates in every round.
    """

    __slots__ = ("successes", "trials")

    def __init__(self) -> None:
        self.successes = self.trials = 0.0

    def add(self, success: bool, weight: float = 1.0) -> None:
        self.trials += weight
        self.successes += weight * success

    def fade(self, factor: float) -> None:
        self.successes *= factor
        self.trials *= factor

    def limit(self, trials: float) -> None:
        """Keep the rate, and reduce its weight to ``trials`` at most."""
        if self.trials > trials:
            self.fade(trials / self.trials)

    def estimate(self, prior: float) -> float:
        return (self.successes + _PRIOR_WEIGHT * prior) / (self.trials + _PRIOR_WEIGHT)


class ProposerStatistics:
    """Statistics of one proposer under one rule. Rates of a position are conditional on those before.

    ``draft_times``: its times by depth. ``stops_early``: whether its drafts may end before an unlikely
    token, see ``Budget.floor``.
    """

    def __init__(self, draft_times: Times | None = None, *, stops_early: bool = True) -> None:
        self.stops_early = stops_early
        self.draft_times = draft_times or Times(proportional=True)
        self._drafted = [AcceptanceRate() for _ in range(MAX_DEPTH)]
        self._accepted = [AcceptanceRate() for _ in range(MAX_DEPTH)]
        self._weight = 1.0
        self.calibration = Calibration()
        self._long_run = AcceptanceRate()  # of first tokens
        self._prefill_s = self._prefill_tokens = 0.0
        self._nodes = list(range(MAX_DEPTH + 1))  # of the latest tree of each depth

    def begin(self) -> None:
        """Start a new request: reduce the weight of earlier ones."""
        for rate in (*self._accepted, *self._drafted):
            rate.limit(_CARRIED * self._weight)

    def learn(self, round: Round, idle: int) -> None:
        """Learn from a round with a depth above 0, after ``idle`` rounds without."""
        self._age(1 + min(idle, _IDLE))
        drafted, accepted = round.tree.depth, len(round.accepted_path)
        self._nodes[drafted] = len(round.tree)
        for position in range(min(drafted + 1, round.budget.depth)):
            self._drafted[position].add(position < drafted, self._weight)
        for position in range(min(accepted + 1, drafted)):
            self._accepted[position].add(position < accepted, self._weight)
        if drafted:
            self._long_run.fade(_FORGET_LONG_RUN)
            self._long_run.add(accepted > 0)
            # Tokens after a rejected one were not verified.
            stated = [q for q in round.q[: accepted + 1] if q is not None]
            if len(stated) == min(accepted + 1, drafted) and round.tree.is_chain:
                self.calibration.learn(stated, accepted)

    def floors(self, speed: float, token_s: float, row_s: float) -> tuple[float, float]:
        """Return ``Budget``'s floor and row floor, as probabilities that the proposer states.

        A token is worth ``token_s`` (drafting and verification) or ``row_s`` (verification) if it is as
        likely as the tokens that ``speed`` yields in that time.
        """
        if not (self.stops_early and self.calibration.known):
            return 0.0, 0.0
        floor, row_floor = speed * token_s / _NEXT_RATE, speed * row_s
        stated = self.calibration.stated
        return stated(min(floor, _MAX_FLOOR)), stated(min(row_floor, _MAX_FLOOR))

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Record the time of a prefill chunk."""
        self._prefill_tokens += tokens
        self._prefill_s += seconds

    def prefill_s(self, tokens: int) -> float:
        """Return the seconds to prefill ``tokens``; 0 if unknown."""
        return tokens * self._prefill_s / self._prefill_tokens if self._prefill_tokens else 0.0

    def discount(self) -> None:
        """Halve the weight of recent rounds, so that estimates move to the long-run rate."""
        for rate in (*self._drafted, *self._accepted):
            rate.fade(0.5)

    def nodes(self, depth: int) -> int:
        """Return the tokens of a draft of this depth, branches included."""
        return self._nodes[depth]

    @property
    def measured(self) -> bool:
        """True once a draft was verified; until then rates are the prior's."""
        return self._long_run.trials > 0

    @property
    def long_run_rate(self) -> float:
        """Long-run acceptance of the first token; 0 before any round."""
        return self._long_run.estimate(0.0)

    def acceptance_rates(self) -> Iterator[float]:
        """Yield the acceptance probability of each position.

        Deep positions are seen seldom: the position before is their prior.
        """
        estimate, prior = self._long_run.estimate(_PRIOR), _PRIOR_WEIGHT * self._weight
        for rate in self._accepted:  # ``AcceptanceRate.estimate`` inlined, for speed
            estimate = (rate.successes + prior * estimate) / (rate.trials + prior)
            yield estimate

    def continuation_rates(self) -> Iterator[float]:
        """Yield for each position the probability that a draft that reached the one before reaches it."""
        estimate, prior = 1.0, _PRIOR_WEIGHT * self._weight
        for rate in self._drafted:
            estimate = (rate.successes + prior * estimate) / (rate.trials + prior)
            yield estimate if estimate > _RARELY else _RARELY

    def _age(self, rounds: int) -> None:
        """Age all observations by ``rounds``."""
        self._weight /= _FORGET**rounds
        if self._weight > _LARGEST:  # before floats overflow
            for rate in (*self._drafted, *self._accepted):
                rate.fade(1 / self._weight)
            self._weight = 1.0


@dataclass(slots=True)
class ControllerStatistics:
    """The statistics of a controller. ``verify``: times of a pass by rows, including the pending token.

    ``between``: times between two rounds, for text, events and the page.
    """

    verify: Times = field(default_factory=lambda: Times(proportional=False))
    between: Times = field(default_factory=lambda: Times(proportional=False))
    pace: Pace = field(default_factory=Pace)
    proposer: ProposerStatistics = field(default_factory=ProposerStatistics)

    def with_proposer(self, proposer: ProposerStatistics) -> ControllerStatistics:
        """Return these statistics with those of another proposer."""
        return ControllerStatistics(self.verify, self.between, self.pace, proposer)
