"""Acceptance rates and times measured in rounds, for controllers. Kept between requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.drafting.controllers.calibration import Calibration
from engine.drafting.controllers.times import Pace, Times
from engine.events import Round
from engine.values import MAX_DEPTH

_FORGET = 0.97
"""Decay of an observation per round: about the last 30 rounds matter."""
_FORGET_USUAL = 0.998
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


class AcceptanceRate:
    """An exponentially weighted rate.

    New observations get a rising ``weight`` instead of old ones being scaled down: that saves a pass over
    all rates in every round.
    """

    __slots__ = ("chances", "times")

    def __init__(self) -> None:
        self.times = self.chances = 0.0

    def add(self, happened: bool, weight: float = 1.0) -> None:
        self.chances += weight
        self.times += weight * happened

    def fade(self, factor: float) -> None:
        self.times *= factor
        self.chances *= factor

    def limit(self, chances: float) -> None:
        """Keep the rate, and reduce its weight to ``chances`` at most."""
        if self.chances > chances:
            self.fade(chances / self.chances)

    def estimate(self, otherwise: float) -> float:
        """Return the rate, with ``otherwise`` as its prior."""
        return (self.times + _PRIOR_WEIGHT * otherwise) / (self.chances + _PRIOR_WEIGHT)


class Drafter:
    """Statistics of one proposer under one rule. Rates of a position are conditional on those before.

    ``drafts`` are its times by the depth of what it drafted. ``stops_early``: whether its drafts may end
    before an unlikely token, see ``Budget.floor``.
    """

    def __init__(self, drafts: Times | None = None, *, stops_early: bool = True) -> None:
        self.stops_early = stops_early
        self.drafts = drafts or Times(proportional=True)
        self._drafted = [AcceptanceRate() for _ in range(MAX_DEPTH)]
        self._accepted = [AcceptanceRate() for _ in range(MAX_DEPTH)]
        self._weight = 1.0
        self.calibration = Calibration()
        self._usual = AcceptanceRate()  # acceptance of first tokens in the long run
        self._read_s = self._read_tokens = 0.0  # what reading prompts took
        self._nodes = list(range(MAX_DEPTH + 1))  # of the last tree so deep

    def begin(self) -> None:
        """Start a new request: reduce the weight of what earlier ones taught."""
        for share in self._accepted:
            share.limit(_CARRIED * self._weight)
        for share in self._drafted:
            share.limit(_CARRIED * self._weight)

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
            self._usual.fade(_FORGET_USUAL)
            self._usual.add(accepted > 0)
            # Behind a rejected token nothing was judged.
            said = [q for q in round.q[: accepted + 1] if q is not None]
            if len(said) == min(accepted + 1, drafted) and round.tree.is_chain:
                self.calibration.learn(said, accepted)

    def has_read(self, tokens: int, seconds: float) -> None:
        """Record the time of a prefill chunk."""
        self._read_tokens += tokens
        self._read_s += seconds

    def reading_s(self, tokens: int) -> float:
        """Return the seconds that reading so much of a prompt takes; 0 before anything is known."""
        return tokens * self._read_s / self._read_tokens if self._read_tokens else 0.0

    def doubt(self) -> None:
        """Halve the weight of recent rounds, so that estimates move to the long-run rate."""
        for share in (*self._drafted, *self._accepted):
            share.fade(0.5)

    def nodes(self, depth: int) -> int:
        """Return the tokens of a draft of this depth, branches included."""
        return self._nodes[depth]

    @property
    def usual(self) -> float:
        """Long-run acceptance of the first token; 0 before any round."""
        return self._usual.estimate(0.0)

    def stands(self) -> Iterator[float]:
        """Yield the acceptance probability of each position.

        Deep positions are seen seldom: the position before is their prior.
        """
        rate, prior = self._usual.estimate(_PRIOR), _PRIOR_WEIGHT * self._weight
        for share in self._accepted:  # ``estimate`` written out: this is asked in every round
            rate = (share.times + prior * rate) / (share.chances + prior)
            yield rate

    def goes_on(self) -> Iterator[float]:
        """Yield for each position the probability that a draft reaches it."""
        rate, prior = 1.0, _PRIOR_WEIGHT * self._weight
        for share in self._drafted:
            rate = (share.times + prior * rate) / (share.chances + prior)
            yield rate if rate > _RARELY else _RARELY

    def _age(self, rounds: int) -> None:
        """Age all observations by ``rounds``."""
        self._weight /= _FORGET**rounds
        if self._weight > _LARGEST:  # before the numbers do
            for share in (*self._drafted, *self._accepted):
                share.fade(1 / self._weight)
            self._weight = 1.0


@dataclass(slots=True)
class ControllerStatistics:
    """What a controller starts from. ``verify``: times of a pass by its rows, pending token included.

    ``between``: times between two rounds, whatever they drafted: text, events, the page.
    """

    verify: Times = field(default_factory=lambda: Times(proportional=False))
    between: Times = field(default_factory=lambda: Times(proportional=False))
    pace: Pace = field(default_factory=Pace)
    drafter: Drafter = field(default_factory=Drafter)

    def of(self, drafter: Drafter) -> ControllerStatistics:
        """The same machine and model with another drafter."""
        return ControllerStatistics(self.verify, self.between, self.pace, drafter)
