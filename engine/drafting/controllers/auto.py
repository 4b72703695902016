"""``auto``: who drafts, and how far, by the expected tokens per second.

    tokens/s = (1 + E[accepted]) / (T_draft + T_verify(1 + drafted) + T_between rounds)

Both expectations follow from two rates per position: that a draft reaches it, and that its token is
accepted (``proposer_statistics.py``). Plain decoding and each loaded drafter are options, each at its
best depth. The leader drafts until it is beaten by a margin. Where requests share passes,
tokens and seconds are those of all together (``batch.py``).

- **What costs nothing is judged in every round** (full information, as in "Not-a-Bandit", arXiv
  2510.20064): verification tells how much of the recalled text was right, whoever drafted. Recalled
  text takes a round if more of it is expected to be accepted than ``Budget.needed``, which is what the
  leader yields in that time.
- **What costs a model's pass is tried at a price.** A share of the time is saved up. Another option is
  tried once that pays for the tokens that the try is expected to lose: often where tries are cheap,
  seldom where they are dear, and all tries together cost that share.
- **Drafts end at unlikely tokens.** Proposers state probabilities, calibrated by past acceptance. A draft
  continues while one more token is likely enough to be worth its time at the leader's speed. The token
  that ends it is verified if it is worth a row. (Stopping by probability: EAGLE-2, arXiv 2406.16858.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs, Times
from engine.events import Budget, Decision, Round
from engine.stats import percent, times
from engine.values import MAX_DEPTH, MAX_ROWS
from engine.values.method_titles import method_title

_MARGIN = 0.03
"""Minimum gain in speed, of all requests together, of another drafter: it must first catch up."""
_SAVED = 0.02
"""Share of the time that tries may cost."""
_FIRST, _TRY = 4, 2
"""Maximum depth of a text's first draft, and of a try."""
ASSUMED = 0.1
"""Assumed time of a drafted token that was not measured yet, in plain rounds."""
_LEAST_LIKELY = 1e-3
"""The search for a depth ends where the last token is accepted more rarely than this."""
_DECIDE, _LOOK = 3, 16
"""Rounds after which an option, and after which the times of rounds, are estimated again."""
_COST_DEPTH = 8
"""Depth up to which the cost of one more token is averaged: rows beyond it cost more and are rare."""
_ANNOUNCE = 16
"""Minimum rounds between two reasons for one option, for readers, and because reasons take time."""


class OtherRequests(NamedTuple):
    """What other requests add to a pass: expected tokens, rows, drafting seconds; how many requests."""

    tokens: float = 0.0
    rows: float = 0.0
    draft_s: float = 0.0
    requests: int = 0


class Option(NamedTuple):
    """A drafter at a depth, 0 being plain decoding: what a round is expected to bring and to take.

    ``speed``: tokens per second, of all requests in the pass. ``draft_s``: of its ``seconds``.
    """

    name: str | None
    depth: int
    tokens: float
    rows: float
    seconds: float
    draft_s: float
    speed: float


@dataclass(frozen=True, slots=True)
class _RoundTimes:
    """Seconds of a round and of its draft, by depth. ``token_s``: of one more token drafted and verified;
    ``row_s``: of one more verified."""

    seconds: list[float]
    drafts: list[float]
    token_s: float = 0.0
    row_s: float = 0.0


class Auto:
    """Decides for one request; updates the statistics, which outlive it."""

    def __init__(
        self,
        deepest: int,
        costs: Costs,
        members: Mapping[str, ProposerStatistics],
        recall: tuple[str, Times] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """``members``: the drafters. ``recall``: the name of recalled text, which the proposer drafts in
        their place, and its times; None for a proposer that chooses nothing."""
        assert members
        self.deepest, self.costs, self.members = deepest, costs, members
        self._recall, self._clock = recall, clock
        self._ended = 0.0  # end of the last round; 0: none yet
        self._drafted: str | None = None  # who drafted last, and has nothing to catch up with
        self._leader: str | None = next(iter(members))
        self.leader: Option | None = None  # of the last decision
        self._saved = 0.0  # seconds for tries
        # Of each round that is not observed yet: the leader's speed if it is a try. On a GPU the next
        # round is decided before one is observed.
        self._tried = deque[float | None]()
        self._rounds = 0
        # Maximum depth, which doubles when a whole draft is accepted: earlier texts may mislead, and
        # where all is accepted recalled text soon takes over.
        self._limit = _FIRST
        self._beside, self._prefill_s = OtherRequests(), 0.0
        self._situation = (0, 0, False)
        # Cached while nothing new is known:
        self._times: dict[str | None, _RoundTimes] = {}
        self._recall_s: list[float] = []
        self._options: dict[str | None, Option] = {}
        self._tries: dict[str, Option] = {}
        self._announced: Decision | None = None
        self._guess: Option | None = None  # announced by the prior alone
        self._announced_at = 0  # by ``_rounds``
        for member in members.values():
            member.begin()

    def budget(self, beside: OtherRequests | None = None, *, prefill_s: float = 0.0) -> Budget:
        """Return how far the next round may draft, ``beside`` others. ``prefill_s``: if the
        proposer must prefill first, the seconds of that per token still expected of the reply."""
        if beside is None:
            beside = OtherRequests()
            if self._ended:
                self.costs.observe_between(self._clock() - self._ended)
        if not self.costs.verify.known or not self.deepest:
            # Measure a plain round first: all others are compared with it.
            self._tried.append(None)
            return Budget(0, 0, proposer=self._proposer(None))
        situation = beside.requests, round(beside.rows), prefill_s > 0
        self._beside, self._prefill_s = beside, prefill_s
        if situation != self._situation:
            self._situation = situation
            self.refresh_times()
        for name in (None, *self.members):
            if name not in self._options:
                self._options[name] = self._plain() if name is None else self._best(name)
        self.leader = leader = self._lead()
        chosen = self._affordable_try(leader) or leader
        name = chosen.name
        self._tried.append(None if chosen is leader else leader.speed)
        floors, depth = (0.0, 0.0), chosen.depth
        if name is not None and chosen is leader:
            if self.deepest > 1 and self.members[name].ends_drafts:
                found = self._times[name]
                floors = self.members[name].floors(leader.speed, found.token_s, found.row_s)
                depth = len(found.seconds) - 1
            depth = min(depth, self._limit)
        needed = tuple(leader.speed * each - beside.tokens - 1 for each in self._recall_times())
        decision = self._announce(leader, depth if chosen is leader else leader.depth)
        return Budget(
            depth,
            MAX_DEPTH if depth else 0,
            decision,
            *floors,
            proposer=self._proposer(name),
            needed=needed,
            plain_s=self._options[None].seconds * self.costs.pace,
        )

    def observe(self, round: Round, *, shared: bool = False) -> None:
        """Learn from a finished round. ``shared``: its pass had rows of others."""
        name = (round.budget.proposer or next(iter(self.members))) if round.budget.depth else None
        timing, tried = round.timing, self._tried.popleft() if self._tried else None
        verify, draft_times, caught_up = self.costs.verify, None, name == self._drafted
        if self._recall is not None and round.proposer == self._recall[0]:
            name, draft_times, caught_up = None, self._recall[1], True
        elif name is not None:
            draft_times = self.members[name].draft_times
        steps = []
        if not shared:
            verify.observe_step(1 + len(round.tree))
            # Sampling and acceptance count as verification: they too grow with the rows.
            steps.append((verify, 1 + len(round.tree), timing.total_s - timing.draft_s))
        if draft_times is not None and caught_up:
            steps.append((draft_times, round.tree.depth, timing.draft_s))
            if not draft_times.known:
                self.refresh_times()
        elif draft_times is not None and draft_times.known:
            draft_times.learn_limit(round.tree.depth, timing.draft_s / self.costs.pace)
        self.costs.observe(steps)
        if name is not None:
            self.members[name].learn(round)
            # One round changes the estimates little, and a decision takes time.
            if self._rounds % _DECIDE == 0 or tried is not None:
                self._forget(name)
            if 0 < len(round.accepted_path) == round.tree.depth >= self._limit:
                self._limit *= 2
        self._drafted = name
        self._rounds += 1
        seconds = timing.total_s / self.costs.pace
        if tried is not None:
            self._saved -= seconds - round.emitted / tried
        elif not shared:
            self._saved += _SAVED * seconds
        if self._rounds % _LOOK == 0:
            self.refresh_times()
        self._ended = self._clock()

    def skip_round(self) -> None:
        """Note a round that another controller decided."""
        self._drafted = None
        self._tried.clear()
        self._ended = self._clock()

    @property
    def recalls(self) -> bool:
        """Whether recalled text may draft in the drafters' place."""
        return self._recall is not None

    def refresh_times(self) -> None:
        """Look up the times of rounds again before they are used."""
        for cache in (self._times, self._options, self._tries, self._recall_s):
            cache.clear()

    def needed(self, name: str, speed: float) -> float | None:
        """Return the acceptance rate, alike at all positions, at which a drafter reaches ``speed``; None
        if none does. So the rates needed and expected compare across depths."""
        low, high = 0.0, 1.0
        if self._best(name, rate=1.0).speed < speed:
            return None
        while high - low > 0.02:
            middle = (low + high) / 2
            reaches = self._best(name, rate=middle).speed >= speed
            low, high = (low, middle) if reaches else (middle, high)
        return high

    def _proposer(self, name: str | None) -> str | None:
        return (name or next(iter(self.members))) if self._recall else None

    def _forget(self, name: str) -> None:
        self._options.pop(name, None)
        self._tries.pop(name, None)

    def _lead(self) -> Option:
        """Return the leader's option, after another took the lead if that is faster by the margin."""
        leader = self._options[self._leader]
        best = max(self._options.values(), key=_speed)
        margin = 0.0 if best.name is None else _MARGIN
        if best.speed > (1 + margin) * leader.speed:
            self._leader, leader = best.name, best
        return leader

    def _affordable_try(self, leader: Option) -> Option | None:
        """Return the try that loses least, if the savings pay for it; none beside others, or while the
        proposer waits."""
        others = [name for name in self.members if name != leader.name]
        if self._beside.requests or self._prefill_s or not others:
            return None
        for name in others:
            if name not in self._tries:
                self._tries[name] = self._best(name, most=_TRY)
        # A drafter that was never measured comes first.
        prices = {name: (self.members[name].measured, self._price(name, leader)) for name in others}
        name = min(prices, key=prices.__getitem__)
        return self._tries[name] if prices[name][1] <= self._saved else None

    def _price(self, name: str, leader: Option) -> float:
        """Return the seconds that a try is expected to lose.

        While a drafter's times are uncertain, at most a plain round's: one wrong time must not prevent
        all tries that would correct it.
        """
        option = self._tries[name]
        price = option.seconds - option.tokens / leader.speed
        certain = self.members[name].draft_times.certain
        return price if certain else min(price, self._options[None].seconds)

    def _plain(self) -> Option:
        seconds = self._round_times(None).seconds[0]
        return Option(None, 0, 1.0, 1.0, seconds, 0.0, (self._beside.tokens + 1) / seconds)

    def _best(self, name: str, rate: float | None = None, most: int = MAX_DEPTH) -> Option:
        """Return a drafter at its best depth up to ``most``. ``rate``: assume this acceptance."""
        found, option = self._round_times(name), self._plain()
        tokens = rows = before = 1.0
        stopped, draft_s = 0.0, found.drafts[0]  # stopped: of drafts that end before this token
        best = option._replace(name=name, speed=0.0)
        rates = self.members[name].survival(rate)
        depths = zip(found.seconds[1 : most + 1], found.drafts[1:], rates, strict=False)
        for depth, (seconds, drafts, (reached, accepted)) in enumerate(depths, 1):
            stopped += (before - reached) * found.seconds[depth - 1]
            before, tokens, rows = reached, tokens + accepted, rows + reached
            draft_s += reached * (drafts - found.drafts[depth - 1])
            taken = stopped + reached * seconds + self._prefill_s * tokens
            speed = (self._beside.tokens + tokens) / taken
            if speed > best.speed:
                best = Option(name, depth, tokens, rows, taken, draft_s, speed)
            if accepted < _LEAST_LIKELY:
                break
        return best

    def _round_times(self, name: str | None) -> _RoundTimes:
        """Return the times of a drafter's rounds at the machine's usual pace, by depth."""
        if (known := self._times.get(name)) is not None:
            return known
        costs, beside = self.costs, self._beside
        verify, first = costs.verify.table(MAX_ROWS), min(1 + round(beside.rows), MAX_ROWS)
        # Waits at the usual pace, as the times are.
        always = costs.between + costs.verify.wait / costs.pace + beside.draft_s
        seconds, drafts, token_s, row_s = [verify[first] + always], [0.0], 0.0, 0.0
        if name is not None:
            member, taken = self.members[name], self.members[name].draft_times
            depths = range(self._room + 1)
            # Also of drafts that end with their first token, of which nothing is verified.
            drafts = [taken(n) if taken.known else n * ASSUMED * verify[1] for n in depths]
            wait = min(taken.wait, costs.verify.wait) / costs.pace
            rows = [verify[min(first + member.nodes(depth), MAX_ROWS)] for depth in depths]
            seconds = [row + drafts[n] + always + wait for n, row in enumerate(rows)]
            if (last := min(self._room, _COST_DEPTH)) > 1:
                # Negative if trees are wider the shallower they are.
                row_s = max(rows[last] - rows[1], 0.0) / (last - 1)
                token_s = row_s + max(drafts[last] - drafts[1], 0.0) / (last - 1)
        return self._times.setdefault(name, _RoundTimes(seconds, drafts, token_s, row_s))

    def _recall_times(self) -> list[float]:
        """Return the seconds of a round that drafts 1, 2, ... recalled tokens; empty without recall."""
        if self._recall is not None and not self._recall_s:
            verify, drafts = self.costs.verify.table(MAX_ROWS), self._recall[1]
            first = min(1 + round(self._beside.rows), MAX_ROWS)
            rest = self._round_times(None).seconds[0] - verify[first]
            self._recall_s += [
                verify[min(first + count, MAX_ROWS)] + drafts(count) + rest
                for count in range(1, self._room + 1)
            ]
        return self._recall_s

    @property
    def _room(self) -> int:
        """The most tokens that this request may draft: its part of a pass."""
        return max(min(self.deepest, MAX_ROWS // (1 + self._beside.requests) - 1), 0)

    def _announce(self, leader: Option, depth: int) -> Decision | None:
        """Return the decision if it differs from the one announced last."""
        told = self._announced
        soon = self._rounds - self._announced_at < _ANNOUNCE
        measured = leader.name is None or self.members[leader.name].measured
        stale = self._guess is not None and measured and leader is not self._guess
        if soon and not stale and told is not None and bool(told.depth) == bool(depth):
            return None
        self._guess = None if measured else leader
        plain, self._announced_at = self._options[None], self._rounds
        best = max((self._options[name] for name in self.members), key=_speed)
        assert best.name is not None
        needed = self.needed(best.name, (1 + _MARGIN) * plain.speed)
        expected = self.needed(best.name, best.speed)
        why = self._why(leader, best, depth, needed, expected)
        if told is not None and told.why == why:
            return None
        self._announced = Decision(depth, why, needed, expected)
        return self._announced

    def _why(
        self, leader: Option, best: Option, depth: int, needed: float | None, expected: float | None
    ) -> str:
        """Return the reason: what a round brings and takes, in plain rounds."""
        plain, name = self._options[None], best.name or ""
        title = f"{method_title(name)}: " if self._recall else ""
        if self._beside.requests:
            title += f"{1 + self._beside.requests} requests: "
        if leader.name is None:
            if self._prefill_s:
                return f"{title}drafting waits: reading the prompt first pays in longer replies"
            if needed is None:
                return f"{title}drafting paused: it cannot be faster here"
            share = percent(expected or 0.0)
            return f"{title}drafting paused: needs {percent(needed)} accepted, expecting {share}"
        tokens = "1 token" if depth == 1 else f"up to {depth} tokens"
        tokens += " while confident" if depth > 1 and self.members[name].ends_drafts else ""
        taken = leader.seconds / plain.seconds
        basis = "" if self.members[name].measured else " (estimated before the first draft)"
        return (
            f"{title}drafting {tokens}: {leader.tokens:.1f} tokens per round in the time of "
            f"{taken:.1f}, {times(leader.speed / plain.speed)} as fast{basis}"
        )


def _speed(option: Option) -> float:
    return option.speed
