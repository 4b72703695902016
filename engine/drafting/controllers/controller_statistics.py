"""What rounds have taught about a machine, a model and its proposers. Kept between requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.drafting.controllers.calibration import Calibration
from engine.drafting.controllers.times import Pace, Times
from engine.events import Round
from engine.request import MAX_DEPTH

_FORGET = 0.97
"""What a round still counts one round later: about the last 30 rounds matter."""
_FORGET_USUAL = 0.998
"""The same for what is usual: it outlasts a text, and is where estimates of a new one start."""
_CARRIED = 1.0
"""The rounds that all earlier texts count for when a new one begins: each is foreseen as well or badly
in its own way, deep positions as much as the first."""
_IDLE = 7
"""Rounds without drafting that make an estimate older, at most: nothing new was seen in them."""
_LARGEST = 1e9
_PRIOR = 0.7
"""Acceptance of the first token before anything is known: worth a try."""
_PRIOR_WEIGHT = 2.0
"""The rounds that an estimate from elsewhere counts for."""
_RARELY = 0.1
"""A proposer that finds nothing costs little, and may find something soon: never written off."""


class AcceptanceRate:
    """How often something happened of late.

    Old observations fade as new ones weigh more: then nothing has to be done to all of them in every
    round. ``weight`` is what one observation counts now.
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
        """Keeps the rate, with no more behind it than ``chances``."""
        if self.chances > chances:
            self.fade(chances / self.chances)

    def estimate(self, otherwise: float) -> float:
        """The rate; ``otherwise`` where little was seen."""
        return (self.times + _PRIOR_WEIGHT * otherwise) / (self.chances + _PRIOR_WEIGHT)


class Drafter:
    """One proposer under one rule. Position j means: given that the tokens before it did.

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
        """A new text: what was learnt from others counts little."""
        for share in self._accepted:
            share.limit(_CARRIED * self._weight)
        for share in self._drafted:
            share.limit(_CARRIED * self._weight)

    def learn(self, round: Round, idle: int) -> None:
        """Takes a round that was to draft, after ``idle`` rounds that were not."""
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
        """Learns what reading a part of a prompt took."""
        self._read_tokens += tokens
        self._read_s += seconds

    def reading_s(self, tokens: int) -> float:
        """Return the seconds that reading so much of a prompt takes; 0 before anything is known."""
        return tokens * self._read_s / self._read_tokens if self._read_tokens else 0.0

    def doubt(self) -> None:
        """Half of what was seen is forgotten: estimates move to what is usual."""
        for share in (*self._drafted, *self._accepted):
            share.fade(0.5)

    def nodes(self, depth: int) -> int:
        """How many tokens a draft so deep has, its branches included."""
        return self._nodes[depth]

    @property
    def usual(self) -> float:
        """How often the first token stands, in the long run; 0 before anything is known."""
        return self._usual.estimate(0.0)

    def stands(self) -> Iterator[float]:
        """The probability that a drafted token stands, for each position.

        Deep positions are seen seldom; where little is known, the position before tells.
        """
        rate, prior = self._usual.estimate(_PRIOR), _PRIOR_WEIGHT * self._weight
        for share in self._accepted:  # ``estimate`` written out: this is asked in every round
            rate = (share.times + prior * rate) / (share.chances + prior)
            yield rate

    def goes_on(self) -> Iterator[float]:
        """The probability that one more token is drafted, for each position."""
        rate, prior = 1.0, _PRIOR_WEIGHT * self._weight
        for share in self._drafted:
            rate = (share.times + prior * rate) / (share.chances + prior)
            yield rate if rate > _RARELY else _RARELY

    def _age(self, rounds: int) -> None:
        """What was seen before counts less than what comes."""
        self._weight /= _FORGET**rounds
        if self._weight > _LARGEST:  # before the numbers do
            for share in (*self._drafted, *self._accepted):
                share.fade(1 / self._weight)
            self._weight = 1.0


@dataclass(slots=True)
class ControllerStatistics:
    """What a controller starts from: ``verify`` are times by rows, the pending token included.

    ``between`` is what lies between two rounds, whatever they drafted: text, events, the page.
    """

    verify: Times = field(default_factory=lambda: Times(proportional=False))
    between: Times = field(default_factory=lambda: Times(proportional=False))
    pace: Pace = field(default_factory=Pace)
    drafter: Drafter = field(default_factory=Drafter)

    def of(self, drafter: Drafter) -> ControllerStatistics:
        """The same machine and model with another drafter."""
        return ControllerStatistics(self.verify, self.between, self.pace, drafter)
