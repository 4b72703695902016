"""``auto``: the depth with most tokens a second expected, by measured times and acceptance.

    tokens/s(d) = (1 + E[accepted]) / (T_draft + T_verify(1 + drafted) + T_between rounds)

Both expectations follow from two rates for each position: that one more token is drafted, and that
it stands; each is estimated from judged tokens of the last rounds, as vLLM and DSpark do it in
production. Depth 0 is plain decoding: where nothing is faster, drafting pauses, and is tried again
after 8, 16, ... 64 rounds.

Within a text some tokens are sure and others are not, and proposers say which: their probabilities,
corrected by what came of them. A draft goes on while one more token is likely enough to stand to be
worth its time, so ``depth`` is how long the surest drafts may get; the token that ends it is drafted by
then, and verified where it is worth a row. (Stopping by likelihood: EAGLE-2,
arXiv 2406.16858, for trees; the threshold here follows from times and is set nowhere.)

Every text is foreseen as well or badly in its own way. So each begins with short drafts (less so where
drafts usually stand), which grow as they stand as a whole, and what earlier texts taught is soon
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
from engine.values import MAX_DEPTH

_GAIN, _RESUME = 1.02, 1.05
"""How much faster drafting must be to go on, and, after a pause, to begin again: between the two
nothing changes, or noise would turn it on and off."""
_FIRST_WAIT, _LONGEST_WAIT = 8, 64
_TRY = 2
"""Tokens of a try while drafting is paused, at most; and of a text's first draft, at least."""
NEXT = 0.8
"""How often the token behind a likely one stands: a draft goes on where both are worth the next one's
cost. Found by replaying recorded drafts of a real pair and of Pip (docs/log); 0.67 to 1 differ little."""
_FEW = 8
"""The depth up to which the cost of one more token is taken: rows behind it are dearer and rare."""
LIKELIEST = 0.9
"""No draft has to be likelier than this to go on."""
_DECIDE_EVERY, _DECIDE_EVERY_WITH_FLOOR = 3, 8
"""Rounds after which it is decided anew, if nothing happened that asks for it at once; and where drafts
end by themselves."""
_COSTS_AFTER = 8
"""Rounds after which what a round takes is looked up again."""
_TIMES_EVERY = 3
"""Of a text's later rounds, so few are measured: to take in a measurement takes time too."""
_ANNOUNCE_AFTER = 16
"""Rounds after which another depth is announced: who reads it cannot follow faster, and reasons take
longer to find than depths."""
_LEAST_LIKELY, _LEAST_SPEED = 1e-3, 0.8
"""Deeper drafts are not looked at where their last token stands more seldom than this, or where they
have less than this share of the best speed so far."""
_FORGET_PAUSE_AFTER = 16
"""Rounds of drafting after which a pause before them is forgotten."""


class Auto:
    """Learns into ``statistics``, which outlives it."""

    def __init__(
        self,
        depth: int,
        statistics: ControllerStatistics,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.deepest = depth
        self.statistics = statistics
        self._clock, self._ended = clock, 0.0  # when the last round ended; 0: there was none
        self._paused = False
        self._pause = _FIRST_WAIT  # rounds between two tries
        self._wait = 0  # rounds to the next try
        self._idle = 0  # plain rounds since the last draft
        self._warm = False  # the last round drafted: the next draft has nothing to catch up with
        self._steady = 0  # rounds since drafting began
        self._announced: Decision | None = None
        self._announced_at = 0  # by ``_rounds``
        self._tried = False  # since the last budget, while paused
        self._takes: list[float] = []  # seconds of a round by drafted tokens; [] is out of date
        self._plain = 0.0  # seconds of a round that asks for no draft
        self._token = self._row = 0.0  # of one more token, drafted and verified, and verified alone
        self._rounds = 0
        # How far this text let drafts stand as a whole, and as far again; at first the tokens that a
        # round brings where they usually stand.
        self._reach = min(max(_TRY, ceil(1 / (1.01 - statistics.drafter.usual))), MAX_DEPTH)
        # The last budget's, while no round brought anything new: deciding costs time too.
        self._depth: int | None = None
        self._floors = (0.0, 0.0)  # see ``Budget``
        self._promised = 0.0  # tokens a second of the best depth; 0 is out of date
        statistics.drafter.begin()

    def budget(self) -> Budget:
        if self._ended:
            self.statistics.between.learn(0, self._clock() - self._ended)
        if not self.statistics.verify.known or not self.deepest:
            return Budget(0, 0)  # what a plain round takes is what all others are compared with
        if self._paused and self._wait > 0 and not self._tried:
            return Budget(0, 0)  # nothing was learnt since, and a plain round is over soon
        if self._depth is not None:
            return budget_to(self._depth, None, *self._floors)
        self._learn_costs()
        speeds = self._speeds(self.statistics.drafter.stands())
        best = max(range(len(speeds)), key=speeds.__getitem__)
        self._promised = speeds[best]
        if speeds[best] <= self._gain_needed * speeds[0]:
            best = 0
        self._pause_or_resume(best)
        if best or self._wait > 0:
            depth = min(best, self._reach)
        else:
            # A try: what is to be learnt is whether the first tokens stand.
            likeliest = 1 + max(range(len(speeds) - 1), key=speeds[1:].__getitem__)
            depth = min(likeliest, _TRY)
        self._floors = self._worthwhile() if best else (0.0, 0.0)
        if self._floors[0]:  # it ends drafts where they should
            depth = min(self.deepest, self._reach)
        self._depth = depth
        news = self._news(depth if best else 0, best, speeds)
        return budget_to(depth, news, *self._floors, self._plain_round())

    def observe(self, round: Round) -> None:
        asked, drafted = round.budget.depth > 0, round.tree.depth
        if self._paused or self._rounds < _COSTS_AFTER or self._rounds % _TIMES_EVERY == 0:
            self._learn_times(round)
        if asked:
            self.statistics.drafter.learn(round, self._idle)
            self._idle = 0
        else:
            self._idle += 1
        self._tried = self._paused and drafted > 0
        if self._paused:
            self._judge_try(round) if drafted else self._pass_round(asked)
        self._steady += asked
        grown = 0 < len(round.accepted_path) == drafted >= self._reach
        if grown:
            self._reach = 2 * drafted
        self._rounds += 1
        if self._rounds % _COSTS_AFTER == 0:
            self.look_again()
        # One round moves the estimates little, and to decide anew takes time that is the user's. What
        # changes from token to token, the floor answers to.
        every, failed = _DECIDE_EVERY, not round.accepted_path
        if self._floors[0]:
            every, failed = _DECIDE_EVERY_WITH_FLOOR, False
        news = grown or (drafted and (failed or self._rounds % every == 0))
        if news or self._paused or not self._takes:
            self._depth, self._promised = None, 0.0
        self._warm = asked
        self._ended = self._clock()

    # -- beside others, see choice.py

    def promise(self) -> float:
        """Tokens a second expected of the best depth, plain decoding included.

        0 before any round has shown what verifying takes.
        """
        if not self.statistics.verify.known:
            return 0.0
        if not self._promised:
            self._learn_costs()
            self._promised = max(self._speeds(self.statistics.drafter.stands()))
        return self._promised

    def costs(self) -> list[float]:
        """Seconds of a round by drafted tokens."""
        self._learn_costs()
        return self._takes

    def look_again(self) -> None:
        """What rounds take may have changed."""
        self._takes, self._promised = [], 0.0

    def doubt(self) -> None:
        """What was seen of late counts less, and what rounds take may have changed."""
        self.statistics.drafter.doubt()
        self.look_again()

    def sit_out(self) -> None:
        """A round has ended that this had no part in."""
        self._warm = False
        self._ended = self._clock()

    def take_over(self) -> None:
        """From the next round on, where another drafted; what it decides is news."""
        self.sit_out()
        self._announced, self._depth = None, None

    @property
    def _gain_needed(self) -> float:
        return _RESUME if self._paused else _GAIN

    def _pause_or_resume(self, best: int) -> None:
        """Drafting pauses where ``best`` is 0, and goes on where it is not."""
        if best and self._paused:
            self._paused, self._steady = False, 0
        elif best and self._steady >= _FORGET_PAUSE_AFTER:
            self._pause = _FIRST_WAIT
        elif not best and not self._paused:
            self._paused, self._wait = True, self._pause

    def _pass_round(self, asked: bool) -> None:
        # A try in which nothing was found to draft says nothing; it goes on.
        if not asked:
            self._wait -= 1

    def _judge_try(self, round: Round) -> None:
        """A try that paid is followed by another, until the estimates have seen enough."""
        self._learn_costs()
        if (1 + len(round.accepted_path)) * self._plain <= self._takes[round.tree.depth]:
            self._pause = min(2 * self._pause, _LONGEST_WAIT)
            self._wait = self._pause

    def _learn_times(self, round: Round) -> None:
        statistics, timing, drafted = self.statistics, round.timing, round.tree.depth
        # Sampling and judging belong to verifying: they too grow with the rows.
        steps = [(statistics.verify, 1 + len(round.tree), timing.total_s - timing.draft_s)]
        # After plain rounds a draft model first reads what it missed, once.
        drafts = statistics.drafter.drafts
        if round.budget.depth and self._warm:
            steps.append((drafts, drafted, timing.draft_s))
            if not drafts.known:
                self.look_again()  # until then drafts seem to cost nothing
        statistics.pace.observe(steps)

    def _learn_costs(self) -> None:
        """What a round takes at the machine's usual pace; it changes slowly, so not in every round."""
        if not self._takes:
            between = self.statistics.between(0)
            verify = self.statistics.verify.table(1 + MAX_DEPTH)
            drafter = self.statistics.drafter
            drafts = drafter.drafts.table(self.deepest)
            # At the usual pace, as the times are. While drafting pauses, only verifying tells of waits.
            pace, waits = self.statistics.pace.value, self.statistics.verify.waits.mean
            always = between + waits / pace
            draft_waits = min(drafter.drafts.waits.mean, waits) / pace
            self._plain = verify[1] + always
            self._takes = [
                verify[1 + drafter.nodes(drafted)]
                + drafts[drafted]
                + always
                + draft_waits * bool(drafted)
                for drafted in range(self.deepest + 1)
            ]
            some = min(_FEW, self.deepest)
            if some > 1:
                rows = verify[1 + drafter.nodes(some)] - verify[1 + drafter.nodes(1)]
                # Trees that are wider the shallower they are make deeper drafts the cheaper ones.
                self._row = max(rows, 0.0) / (some - 1)
                self._token = self._row + (drafts[some] - drafts[1]) / (some - 1)

    def _plain_round(self) -> float:
        """Seconds of a round that drafts nothing, at the machine's pace just now, waits included."""
        verify = self.statistics.verify
        return verify(1) * self.statistics.pace.value + verify.waits.mean

    def _worthwhile(self) -> tuple[float, float]:
        """How likely a proposer must say that a whole draft is: to be worth one more token, drafted and
        verified, and to be worth a row itself, once it is drafted.

        In the time which these take the usual rate would bring as many tokens as they must be likely to
        bring themselves.
        """
        drafter = self.statistics.drafter
        if not (drafter.stops_early and drafter.calibration.known) or self.deepest < 2:
            return 0.0, 0.0
        chances = (self._promised * each for each in (self._token / NEXT, self._row))
        floor, row_floor = (drafter.calibration.said_of(min(one, LIKELIEST)) for one in chances)
        return floor, row_floor

    def _speeds(self, stands: Iterable[float]) -> list[float]:
        """Tokens a second at depth 0, 1, ... ``deepest``, or to where more depth no longer helps."""
        speeds, best = [1 / self._plain], 0.0
        tokens, alive, reached, stopped = 1.0, 1.0, 1.0, 0.0
        takes = self._takes[0]
        goes_on = self.statistics.drafter.goes_on()
        for now, on, stand in zip(self._takes[1:], goes_on, stands, strict=False):
            stopped += reached * (1 - on) * takes  # drafts that end before this token
            reached *= on
            alive *= on * stand
            tokens += alive
            takes = now
            speed = tokens / (stopped + reached * takes)
            speeds.append(speed)
            if alive < _LEAST_LIKELY or speed < _LEAST_SPEED * best:
                break
            best = speed if speed > best else best
        return speeds

    def _news(self, depth: int, best: int, speeds: Sequence[float]) -> Decision | None:
        """The decision, if it is another than the one announced last, or has other reasons.

        Its gain is that of ``best``, which ``depth`` is on its way to: the first steps alone may lose.
        """
        announced = self._announced
        alike = announced is not None and bool(depth) == bool(announced.depth)
        if alike and depth and self._rounds - self._announced_at < _ANNOUNCE_AFTER:
            return None
        same = alike and announced is not None and abs(depth - announced.depth) < 2
        if same and (depth or not self._tried):
            return None
        needed = self._acceptance_for(self._gain_needed * speeds[0])
        gain = speeds[best] if best else max(speeds[1:])
        expected = self._acceptance_for(gain)
        if announced and not announced.depth and not depth and _alike(announced, needed, expected):
            return None
        why = self._why(depth, best, gain / speeds[0], needed, expected)
        self._announced_at = self._rounds
        self._announced = Decision(depth=depth, why=why, needed=needed, expected=expected)
        return self._announced

    def _why(
        self, depth: int, best: int, gain: float, needed: float | None, expected: float | None
    ) -> str:
        share = f"{expected or 0:.0%}"
        if depth:
            tokens = "1 token a round" if depth == 1 else f"{depth} tokens a round"
            if self._floors[0]:
                tokens = f"up to {tokens} while they are likely"
            elif best > depth:
                tokens += f", up to {best} while they stand"
            return (
                f"drafting {tokens}: expected to be {gain:.2f} times as fast, at {share} acceptance"
            )
        if needed is None:
            return "drafting paused: not even a perfect draft would be faster here"
        return f"drafting paused: needs {needed:.0%} acceptance, expects {share}"

    def _acceptance_for(self, speed: float) -> float | None:
        """The acceptance, alike at all positions, at which the best depth has ``speed``; None if
        there is none. What is needed and what is there can be compared so, whatever the depth."""

        def reaches(rate: float) -> bool:
            return max(self._speeds(repeat(rate))[1:]) >= speed

        return least(reaches) if reaches(1.0) else None


def _alike(announced: Decision, needed: float | None, expected: float | None) -> bool:
    """Whether both acceptances are about those announced."""
    pairs = ((announced.needed, needed), (announced.expected, expected))
    return all(abs((2.0 if a is None else a) - (2.0 if b is None else b)) < 0.1 for a, b in pairs)


def least(holds: Callable[[float], bool]) -> float:
    """The least number in 0..1, to half a hundredth, from which ``holds`` is true."""
    low, high = 0.0, 1.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
