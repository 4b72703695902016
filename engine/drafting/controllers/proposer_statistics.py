"""What is known of one drafter: how far its drafts go and are accepted, and what they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import log

from engine.drafting.controllers.times import Times
from engine.events import Round
from engine.values import MAX_DEPTH

PRIOR = 0.7
"""Assumed acceptance of the first token of a drafter that was never verified: high enough to try it."""
_PRIOR_ROUNDS, _USUAL_ROUNDS = 1.0, 4.0
"""Strength, in rounds, of the prior of a new drafter, and of what is usual in a new text."""
_DECAY, _DECAY_ALL = 0.97, 0.995
"""Decay of an observation per round, within a text (about the last 30 matter) and over all texts."""
_LARGEST = 1e9
_PRIOR_STATED, _PRIOR_TOKENS, _REMEMBERED = 0.8, 20.0, 200.0
"""The prior of a calibration: so many tokens with this probability, all correctly stated; and the maximum
number of tokens remembered."""
_NEXT_RATE = 0.8
"""Assumed acceptance of the token after a likely one: a draft continues if that is worth its time. Found
by replaying recorded drafts; the measured rate of second tokens is no better (docs/log)."""
_MAX_FLOOR = 0.9
"""Maximum probability that a draft needs to continue."""
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


class _Counts:
    """Rounds by position: those whose draft might have reached it, and did; those whose token there was
    verified, and accepted.

    New rounds get a rising weight instead of old ones being scaled down, which would take longer.
    """

    def __init__(self, decay: float, strength: float) -> None:
        self.decay, self.strength, self.weight = decay, strength, 1.0
        self.allowed, self.drafted, self.verified, self.accepted = (
            [0.0] * MAX_DEPTH for _ in range(4)
        )

    def age(self, rounds: int) -> None:
        """Let earlier rounds count less by ``rounds``."""
        self.weight /= self.decay**rounds
        if self.weight > _LARGEST:  # before floats overflow
            for counts in (self.allowed, self.drafted, self.verified, self.accepted):
                counts[:] = [count / self.weight for count in counts]
            self.weight = 1.0

    def add(self, allowed: int, drafted: int, accepted: int) -> None:
        """Add a round that might draft ``allowed`` tokens and drafted ``drafted``."""
        self.age(1)
        weight = self.weight
        for position in range(min(drafted + 1, allowed)):
            self.allowed[position] += weight
            self.drafted[position] += weight * (position < drafted)
        for position in range(min(accepted + 1, drafted)):
            self.verified[position] += weight
            self.accepted[position] += weight * (position < accepted)

    def rates(self, priors: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
        """Yield for each position the rates at which drafts go on to it, and its tokens are accepted.

        ``priors``: the same. A position is expected to be as much better or worse than its prior as the
        position before.
        """
        goes = accepts = 1.0  # of the position before, over its prior
        prior = self.strength * self.weight
        counts = zip(self.allowed, self.drafted, self.verified, self.accepted, priors, strict=True)
        for allowed, drafted, verified, accepted, (usual_goes, usual_accepts) in counts:
            going = (drafted + prior * min(goes * usual_goes, 1.0)) / (allowed + prior)
            accepting = (accepted + prior * min(accepts * usual_accepts, 1.0)) / (verified + prior)
            yield going, accepting
            goes, accepts = going / usual_goes, accepting / usual_accepts


class ProposerStatistics:
    """Statistics of one proposer under one rule, kept between requests.

    ``draft_times``: its times by depth. ``stops_early``: whether its drafts may end before an unlikely
    token, see ``Budget.floor``.
    """

    def __init__(self, draft_times: Times | None = None, *, stops_early: bool = True) -> None:
        self.stops_early = stops_early
        self.draft_times = draft_times or Times(proportional=True)
        self.calibration = Calibration()
        self._all, self._text = _Counts(_DECAY_ALL, _PRIOR_ROUNDS), _Counts(_DECAY, _USUAL_ROUNDS)
        self._usual: list[tuple[float, float]] = []  # rates of all texts
        self._prefill_s = self._prefill_tokens = 0.0
        self._nodes = list(range(MAX_DEPTH + 1))  # of the latest tree of each depth
        self.begin()

    def begin(self) -> None:
        """Start a new text, of which nothing is known but what is usual."""
        self._text = _Counts(_DECAY, _USUAL_ROUNDS)
        self._usual = list(self._all.rates([(1.0, PRIOR)] * MAX_DEPTH))

    def learn(self, round: Round) -> None:
        """Learn from a round with a depth above 0."""
        drafted, accepted = round.tree.depth, len(round.accepted_path)
        self._nodes[drafted] = len(round.tree)
        for counts in (self._text, self._all):
            counts.add(round.budget.depth, drafted, accepted)
        # Tokens after a rejected one were not verified.
        stated = [q for q in round.q[: accepted + 1] if q is not None]
        if drafted and len(stated) == min(accepted + 1, drafted) and round.tree.is_chain:
            self.calibration.learn(stated, accepted)

    def survival(self, rate: float | None = None) -> Iterator[tuple[float, float]]:
        """Yield for each position the probability that a draft reaches it, and that its token stands.

        ``rate``: assume this acceptance at all positions, not the measured ones.
        """
        reached = stands = 1.0
        for goes_on, accepts in self._text.rates(self._usual):
            reached *= goes_on
            stands *= goes_on * (accepts if rate is None else rate)
            yield reached, stands

    @property
    def ends_drafts(self) -> bool:
        """Return whether drafts end at unlikely tokens."""
        return self.stops_early and self.calibration.known

    @property
    def measured(self) -> bool:
        """True once a draft was verified; until then rates are the prior's."""
        return self._all.verified[0] > 0

    def floors(self, speed: float, token_s: float, row_s: float) -> tuple[float, float]:
        """Return ``Budget``'s floor and row floor, as probabilities that the proposer states.

        A token is worth ``token_s`` (drafting and verification) or ``row_s`` (verification) if it is as
        likely as the tokens that ``speed`` yields in that time.
        """
        floor, row_floor = speed * token_s / _NEXT_RATE, speed * row_s
        stated = self.calibration.stated
        return stated(min(floor, _MAX_FLOOR)), stated(min(row_floor, _MAX_FLOOR))

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Record the time of a prefill chunk."""
        self._prefill_tokens += tokens
        self._prefill_s += seconds

    def prefill_s(self, tokens: int, assumed: float) -> float:
        """Return the seconds to prefill ``tokens``; until measured, one takes ``assumed``."""
        measured = self._prefill_tokens
        return tokens * (self._prefill_s / measured if measured else assumed)

    def nodes(self, depth: int) -> int:
        """Return the tokens of a draft of this depth, branches included."""
        return self._nodes[depth]
