"""``auto``: the depth with the highest expected speed, from measured times and acceptance.

    tokens/s(d) = (1 + E[accepted]) / (T_draft + T_verify(1 + drafted) + T_between rounds)

Both expectations follow from two rates per position: that a draft reaches it, and that its token is
accepted. They are estimated from the verified tokens of the last rounds, as in vLLM and DSpark. Depth 0
is plain decoding: if nothing is faster, drafting pauses, and is tried again after 8 to 64 rounds.

Within a text some tokens are more certain than others, and proposers state how certain: their
probabilities are calibrated by past acceptance. A draft continues while one more token is likely enough
to be worth its time, so ``depth`` limits the most certain drafts. The token that ends a draft is verified
if it is worth a row. (Stopping by probability: EAGLE-2, arXiv 2406.16858, for trees; here the threshold
follows from times and is no setting.)

Texts differ in how predictable they are. So each begins with short drafts (longer ones if drafts are
usually accepted), which grow while they are accepted as a whole; the estimates of earlier texts are soon
outweighed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from math import ceil
from time import perf_counter

from engine.decoding.controller import budget_to
from engine.drafting.controllers.controller_statistics import ControllerStatistics
from engine.events import Budget, Decision, Round
from engine.stats import percent, times
from engine.values import MAX_DEPTH

_GAIN, _RESUME = 1.02, 1.05
"""Minimum speedup of drafting, and minimum to resume after a pause. Between the two nothing changes, so
that noise does not turn drafting on and off."""
_FIRST_WAIT, _LONGEST_WAIT = 8, 64
_TRY = 2
"""Maximum depth of a try during a pause, and minimum depth of a text's first draft."""
_COST_DEPTH = 8
"""Depth up to which the cost of one more token is averaged: rows beyond it cost more and are rare."""
_DECIDE_EVERY, _DECIDE_EVERY_WITH_FLOOR = 3, 8
"""Rounds between two decisions if no event demands one, without and with a floor that ends drafts."""
_COSTS_AFTER = 8
"""Rounds after which the times of rounds are looked up again."""
_TIMES_EVERY = 3
"""One in so many of a text's later rounds is measured, because learning a time takes time too."""
_ANNOUNCE_AFTER = 16
"""Minimum rounds between two announced depths, for readers, and because reasons take long to compute."""
_LEAST_LIKELY, _LEAST_SPEED = 1e-3, 0.8
"""The search for a depth ends where the last token is accepted more rarely than this, or where the speed
falls below this fraction of the best."""
_FORGET_PAUSE_AFTER = 16
"""Rounds of drafting after which the next pause is short again."""


class Auto:
    """Decides the depth of one request; updates ``statistics``, which outlive it."""

    def __init__(
        self,
        depth: int,
        statistics: ControllerStatistics,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.deepest = depth
        self.statistics = statistics
        self._clock, self._ended = clock, 0.0  # end of the last round; 0: none yet
        self._paused = False
        self._pause = _FIRST_WAIT  # rounds between two tries
        self._wait = 0  # rounds until the next try
        self._idle = 0  # rounds since the last draft
        self._warm = (
            False  # the last round drafted, so the draft model has nothing to catch up with
        )
        self._steady = 0  # rounds since drafting began
        self._announced: Decision | None = None
        self._announced_at = 0  # by ``_rounds``
        self._announced_measured = False  # whether acceptance was measured by then
        self._tried = False  # since the last budget, while paused
        self._round_s: list[float] = []  # seconds of a round by depth; []: outdated
        self._plain_s = 0.0  # seconds of a round with depth 0
        self._token_s = self._row_s = (
            0.0  # of one more token drafted and verified, and verified only
        )
        self._rounds = 0
        # Maximum depth for now; doubles when a whole draft is accepted. At first the tokens that a round
        # yields at the long-run acceptance.
        self._limit = min(
            max(_TRY, ceil(1 / (1.01 - statistics.proposer.long_run_rate))), MAX_DEPTH
        )
        # Of the last budget, reused while rounds bring nothing new, because deciding takes time.
        self._depth: int | None = None
        self._floors = (0.0, 0.0)  # see ``Budget``
        self._best_speed = 0.0  # tokens per second of the best depth; 0: outdated
        statistics.proposer.begin()

    def budget(self) -> Budget:
        if self._ended:
            self.statistics.between.learn(0, self._clock() - self._ended)
        if not self.statistics.verify.known or not self.deepest:
            return Budget(0, 0)  # measure a plain round first: all others are compared with it
        if self._paused and self._wait > 0 and not self._tried:
            return Budget(0, 0)
        if self._depth is not None:
            return budget_to(self._depth, None, *self._floors)
        self._update_times()
        speeds = self._speeds(self.statistics.proposer.acceptance_rates())
        best = max(range(len(speeds)), key=speeds.__getitem__)
        self._best_speed = speeds[best]
        if speeds[best] <= self._gain_needed * speeds[0]:
            best = 0
        self._pause_or_resume(best)
        if best or self._wait > 0:
            depth = min(best, self._limit)
        else:
            # A try, to learn whether the first tokens are accepted.
            fastest = 1 + max(range(len(speeds) - 1), key=speeds[1:].__getitem__)
            depth = min(fastest, _TRY)
        self._floors = (0.0, 0.0)
        if best and self.deepest > 1:
            proposer = self.statistics.proposer
            self._floors = proposer.floors(self._best_speed, self._token_s, self._row_s)
        if self._floors[0]:  # the floor ends drafts
            depth = min(self.deepest, self._limit)
        self._depth = depth
        decision = self._announce(depth if best else 0, best, speeds)
        return budget_to(depth, decision, *self._floors, self._plain_round())

    def observe(self, round: Round) -> None:
        allowed, drafted = round.budget.depth > 0, round.tree.depth
        self.statistics.verify.observe_step(1 + len(round.tree))
        if self._paused or self._rounds < _COSTS_AFTER or self._rounds % _TIMES_EVERY == 0:
            self._learn_times(round)
        if allowed:
            self.statistics.proposer.learn(round, self._idle)
            self._idle = 0
        else:
            self._idle += 1
        self._tried = self._paused and drafted > 0
        if self._tried:
            self._evaluate_try(round)
        elif self._paused and not allowed:  # a try that found nothing to draft goes on
            self._wait -= 1
        self._steady += allowed
        grown = 0 < len(round.accepted_path) == drafted >= self._limit
        if grown:
            self._limit = 2 * drafted
        self._rounds += 1
        if self._rounds % _COSTS_AFTER == 0:
            self.refresh_times()
        # One round changes the estimates little, and a decision takes time. The floor reacts to changes
        # from token to token.
        every, failed = _DECIDE_EVERY, not round.accepted_path
        if self._floors[0]:
            every, failed = _DECIDE_EVERY_WITH_FLOOR, False
        changed = grown or (drafted and (failed or self._rounds % every == 0))
        if changed or self._paused or not self._round_s:
            self._depth, self._best_speed = None, 0.0
        self._warm = allowed
        self._ended = self._clock()

    # -- among several proposers, see choice.py

    def expected_speed(self) -> float:
        """Return the expected tokens per second of the best depth, including depth 0.

        Return 0 before a round has been measured.
        """
        if not self.statistics.verify.known:
            return 0.0
        if not self._best_speed:
            self._update_times()
            self._best_speed = max(self._speeds(self.statistics.proposer.acceptance_rates()))
        return self._best_speed

    def round_times(self) -> list[float]:
        """Return the seconds of a round by depth."""
        self._update_times()
        return self._round_s

    def refresh_times(self) -> None:
        """Look up the times of rounds again before they are used."""
        self._round_s, self._best_speed = [], 0.0

    def discount(self) -> None:
        """Give recent rounds less weight, and look up times again."""
        self.statistics.proposer.discount()
        self.refresh_times()

    def skip_round(self) -> None:
        self._warm = False
        self._ended = self._clock()

    def take_over(self) -> None:
        """Draft from the next round on instead of another controller, and announce the decision."""
        self.skip_round()
        self._announced, self._depth = None, None

    @property
    def _gain_needed(self) -> float:
        return _RESUME if self._paused else _GAIN

    def _pause_or_resume(self, best: int) -> None:
        """Pause drafting if the ``best`` depth is 0, else resume it."""
        if best and self._paused:
            self._paused, self._steady = False, 0
        elif best and self._steady >= _FORGET_PAUSE_AFTER:
            self._pause = _FIRST_WAIT
        elif not best and not self._paused:
            self._paused, self._wait = True, self._pause

    def _evaluate_try(self, round: Round) -> None:
        """Wait longer after a try that did not pay; after one that did, try again at once."""
        self._update_times()
        if (1 + len(round.accepted_path)) * self._plain_s <= self._round_s[round.tree.depth]:
            self._pause = min(2 * self._pause, _LONGEST_WAIT)
            self._wait = self._pause

    def _learn_times(self, round: Round) -> None:
        statistics, timing, drafted = self.statistics, round.timing, round.tree.depth
        # Sampling and acceptance count as verification: they too grow with the rows.
        steps = [(statistics.verify, 1 + len(round.tree), timing.total_s - timing.draft_s)]
        draft_times = statistics.proposer.draft_times
        if round.budget.depth and self._warm:  # else the draft model caught up with the text first
            steps.append((draft_times, drafted, timing.draft_s))
            if not draft_times.known:
                self.refresh_times()  # so far drafts seemed to cost nothing
        statistics.pace.observe(steps)

    def _update_times(self) -> None:
        """Look up the times of rounds at the machine's usual pace, if they are outdated."""
        if self._round_s:
            return
        between = self.statistics.between(0)
        verify = self.statistics.verify.table(1 + MAX_DEPTH)
        proposer = self.statistics.proposer
        drafts = proposer.draft_times.table(self.deepest)
        # Waits at the usual pace, as the times are. During a pause only verification measures waits.
        pace, waits = self.statistics.pace.value, self.statistics.verify.waits.mean
        always = between + waits / pace
        draft_waits = min(proposer.draft_times.waits.mean, waits) / pace
        self._plain_s = verify[1] + always
        self._round_s = [
            verify[1 + proposer.nodes(depth)] + drafts[depth] + always + draft_waits * bool(depth)
            for depth in range(self.deepest + 1)
        ]
        depth = min(_COST_DEPTH, self.deepest)
        if depth > 1:
            rows = verify[1 + proposer.nodes(depth)] - verify[1 + proposer.nodes(1)]
            # Negative if trees are wider the shallower they are.
            self._row_s = max(rows, 0.0) / (depth - 1)
            self._token_s = self._row_s + (drafts[depth] - drafts[1]) / (depth - 1)

    def _plain_round(self) -> float:
        """Return the seconds of a round without a draft, at the current pace, including waits."""
        verify = self.statistics.verify
        return verify(1) * self.statistics.pace.value + verify.waits.mean

    def _speeds(self, rates: Iterable[float]) -> list[float]:
        """Return tokens per second at depth 0, 1, ... ``deepest``, or until more depth no longer helps.

        ``rates``: the acceptance of each position.
        """
        speeds, best = [1 / self._plain_s], 0.0
        tokens, accepted, reached, stopped = 1.0, 1.0, 1.0, 0.0
        before = self._round_s[0]
        continuation = self.statistics.proposer.continuation_rates()
        for seconds, goes_on, rate in zip(self._round_s[1:], continuation, rates, strict=False):
            stopped += reached * (1 - goes_on) * before  # drafts that end before this token
            reached *= goes_on
            accepted *= goes_on * rate
            tokens += accepted
            before = seconds
            speed = tokens / (stopped + reached * seconds)
            speeds.append(speed)
            if accepted < _LEAST_LIKELY or speed < _LEAST_SPEED * best:
                break
            best = speed if speed > best else best
        return speeds

    def _announce(self, depth: int, best: int, speeds: Sequence[float]) -> Decision | None:
        """Return the decision if it, or its reasons, differ from those announced last.

        Its gain is that of ``best``, towards which ``depth`` grows: shorter drafts may lose.
        """
        announced = self._announced
        alike = announced is not None and bool(depth) == bool(announced.depth)
        if alike and depth and self._rounds - self._announced_at < _ANNOUNCE_AFTER:
            return None
        measured = self.statistics.proposer.measured
        same = alike and announced is not None and abs(depth - announced.depth) < 2
        same = same and measured == self._announced_measured
        if same and (depth or not self._tried):
            return None
        needed = self._acceptance_for(self._gain_needed * speeds[0])
        gain = speeds[best] if best else max(speeds[1:])
        expected = self._acceptance_for(gain)
        if announced and not announced.depth and not depth and _alike(announced, needed, expected):
            return None
        why = self._why(depth, best, gain / speeds[0], needed, expected)
        self._announced_at, self._announced_measured = self._rounds, measured
        self._announced = Decision(depth=depth, why=why, needed=needed, expected=expected)
        return self._announced

    def _why(
        self, depth: int, best: int, gain: float, needed: float | None, expected: float | None
    ) -> str:
        share = percent(expected or 0)
        if depth:
            tokens = "1 token per round" if depth == 1 else f"{depth} tokens per round"
            if self._floors[0]:
                tokens = f"up to {tokens} while confident"
            elif best > depth:
                tokens += f" (up to {best} while they are accepted)"
            basis = (
                "" if self.statistics.proposer.measured else " (estimated before the first draft)"
            )
            return f"drafting {tokens}: about {times(gain)} as fast{basis}"
        if needed is None:
            return "drafting paused: it cannot be faster here"
        expects = "expecting" if self.statistics.proposer.measured else "assuming"
        return f"drafting paused: needs {percent(needed)} accepted, {expects} {share}"

    def _acceptance_for(self, speed: float) -> float | None:
        """Return the acceptance rate, equal at all positions, at which the best depth reaches ``speed``;
        None if there is none. So the rates needed and expected compare across depths."""

        def reaches(rate: float) -> bool:
            return max(self._speeds(repeat(rate))[1:]) >= speed

        return smallest_rate(reaches)


def _alike(announced: Decision, needed: float | None, expected: float | None) -> bool:
    """Return whether both acceptance rates are about those announced."""
    pairs = ((announced.needed, needed), (announced.expected, expected))
    return all(abs((2.0 if a is None else a) - (2.0 if b is None else b)) < 0.1 for a, b in pairs)


def smallest_rate(holds: Callable[[float], bool]) -> float | None:
    """Return the smallest number in 0..1, within 0.005, from which ``holds`` is true; None if none is."""
    if not holds(1.0):
        return None
    low, high = 0.0, 1.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
