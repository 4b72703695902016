"""The batch controller: how far each request drafts while several share passes.

It maximises the tokens per second of all requests together:

    tokens/s = (requests + sum E[accepted]) / (T_verify(requests + sum drafted) + sum T_draft)

A pass has 16 rows for all requests. Drafts are made one after the other while the other requests wait.
So drafting pays with few requests, and mostly does not with many: then all rows go to pending tokens,
which always count. Times and acceptance are those that ``auto.py`` measures for one request, and goes on
with once that is alone again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple

from engine.decoding.context import PREFILL_PART
from engine.decoding.controller import Controller, budget_to
from engine.drafting.controllers.auto import smallest_rate
from engine.drafting.controllers.controller_statistics import (
    ControllerStatistics,
    ProposerStatistics,
)
from engine.events import Budget, Decision, Round
from engine.stats import times
from engine.values import MAX_ROWS

_GAIN = 1.05
"""Minimum gain in tokens per second for any request to draft. A paused proposer is hardly tried again, so
noise must not decide."""
_KEPT_SPEED = 0.5
"""Share of their speed that replies keep while a prompt is prefilled beside them."""
_LEAST_PREFILL = 8
"""Minimum rows of a prefill chunk. Each pass streams all weights, so with fewer rows a prompt would take
many times as long."""
_DECIDE_EVERY = 8
"""Passes between two decisions while the same requests run."""
_LEAST_LEFT = 16
"""Minimum rounds that a reply is assumed to go on for when its proposer must prefill first."""
_TRY = 2
"""Maximum depth of a proposer whose times are not measured yet."""
_INSTANT = 1e-9
"""Seconds assumed for what is not measured yet."""


class BatchController:
    """Decides the depth of every request that runs on one target."""

    def __init__(self, statistics: ControllerStatistics) -> None:
        """``statistics``: the times of passes, which are read and updated."""
        self.statistics = statistics
        self.changes = 0  # of the set of running requests
        self.running = 0
        self.gain = 1.0  # of the last decision, over drafting nothing
        self.speed = 0.0  # expected tokens per second of all requests, by the last decision
        self._members: list[BatchMember] = []
        self._depths: dict[BatchMember, int] = {}
        self._rows = 1
        self._passes = 0
        self._due = True

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Count a request as running."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        self.running += by
        self.changes += 1
        self._due = True

    def observe_pass(self, rows: int, seconds: float) -> None:
        """Record that a batched forward verified ``rows`` rows in ``seconds``."""
        self.statistics.verify.observe_step(rows)
        self.statistics.pace.observe([(self.statistics.verify, rows, seconds)])
        self._passes += 1
        if self._passes % _DECIDE_EVERY == 0:
            self._due = True

    def prefill_rows(self, verified: int, most: int) -> int:
        """Return the rows of a prefill chunk in a pass of ``most`` rows that verifies ``verified``.

        The pass then takes at most 1 / ``_KEPT_SPEED`` times as long as without the chunk.
        """
        verify = self.statistics.verify
        if not verify.known:
            return min(_LEAST_PREFILL, most - verified)
        seconds = verify.table(most)
        fitting = bisect_right(seconds, seconds[verified] / _KEPT_SPEED) - 1
        return min(max(fitting - verified, _LEAST_PREFILL), most - verified)

    def reconsider(self) -> None:
        """Decide anew at the next round."""
        self._due = True

    def add(self, member: BatchMember) -> None:
        """Decide for ``member`` too, until ``remove``."""
        self._members.append(member)
        self._due = True

    def remove(self, member: BatchMember) -> None:
        """Forget a request that has ended."""
        self._members.remove(member)
        self._depths.pop(member, None)
        self._due = True

    @property
    def next_prefill(self) -> BatchMember | None:
        """The request whose proposer prefills next; one at a time, because all others wait for it."""
        return next((member for member in self._members if member.must_prefill), None)

    def needed(self, member: BatchMember) -> float | None:
        """Return the break-even acceptance rate of ``member``'s drafts in this batch; None if no rate
        pays."""
        verify, drafts = self.statistics.verify.table(MAX_ROWS), member.drafts(1.0)
        count = min(max(self.running, 1), MAX_ROWS)

        def pays(rate: float) -> bool:
            """Return whether some depth pays at this rate."""
            return any(
                (count + tokens) * verify[count]
                > _GAIN * count * (verify[count + draft.rows] + draft.seconds)
                for draft, tokens in zip(drafts[1:], accumulate(_powers(rate)), strict=False)
                if count + draft.rows <= MAX_ROWS
            )

        return smallest_rate(pays)

    def depth(self, member: BatchMember) -> int:
        """Return how many tokens ``member`` drafts next."""
        if self._due:
            self._due = False
            self._decide()
        return self._depths.get(member, 0)

    def row_s(self) -> float:
        """Return the seconds that one more verified row takes."""
        verify = self.statistics.verify.table(MAX_ROWS)
        rows = min(max(self._rows, 1), MAX_ROWS - 1)
        return verify[rows + 1] - verify[rows]

    def _decide(self) -> None:
        """Add the draft token with the best ratio of tokens to seconds, as long as it raises the speed of
        all. If the gain of all together is below ``_GAIN``, nobody drafts."""
        verify = self.statistics.verify.table(MAX_ROWS)
        count = max(len(self._members), self.running)
        rows = min(count + sum(member.rows - 1 for member in self._members), MAX_ROWS)
        tokens, seconds = float(count), verify[rows]
        plain = tokens / seconds if seconds else 0.0
        drafts = {member: member.drafts() for member in self._drafting()}
        depths = dict.fromkeys(self._members, 0)
        while plain and (step := _next_step(drafts, depths, verify, rows)) is not None:
            if step.tokens <= step.seconds * tokens / seconds:
                break
            depths[step.member] = step.depth
            rows, tokens, seconds = rows + step.rows, tokens + step.tokens, seconds + step.seconds
        speed = tokens / seconds if plain else 0.0
        self.gain = speed / plain if plain else 1.0
        if self.gain <= _GAIN:
            depths, self.gain, speed = dict.fromkeys(self._members, 0), 1.0, plain
        self._depths, self.speed, self._rows = depths, speed, rows

    def _drafting(self) -> Iterator[BatchMember]:
        """Yield the requests that may draft. While a proposer's times are unknown, one tries it."""
        unknown: set[ProposerStatistics] = set()
        for member in self._members:
            proposer = member.statistics.proposer
            if member.may_draft and proposer not in unknown:
                yield member
                if not proposer.draft_times.known:
                    unknown.add(proposer)


class _Draft(NamedTuple):
    """A draft of some depth: its expected accepted tokens, rows and drafting seconds."""

    tokens: float
    rows: int
    seconds: float


class BatchMember:
    """A request's controller: its own while it is alone, ``BatchController``'s decisions otherwise."""

    def __init__(
        self,
        inner: Controller,
        statistics: ControllerStatistics,
        batch: BatchController,
        deepest: int,
        *,
        measures: bool,
        may_draft: bool,
    ) -> None:
        """``measures``: whether the batch controller decides; if not, ``inner`` always does.

        ``may_draft``: whether it drafts beside others. ``statistics``: those of its proposer.
        """
        self.inner, self.statistics, self._batch = inner, statistics, batch
        self.deepest, self.measures, self.may_draft = deepest, measures, measures and may_draft
        self.rows = 1 if measures else 1 + deepest
        self._alone = batch.running < 2  # in this round
        self._seen = batch.changes
        self._warm, self._idle = False, 0
        self._announced: tuple[int, int] | None = None  # running requests and depth
        self._inner_decision: Decision | None = None  # the last one
        # Beside others the proposer prefills the prompt only before it first drafts: often never.
        self.prefills_at_once = not measures or batch.running < 2
        self._prefilled, self._wants_draft = self.prefills_at_once, False
        self._unread = self._rounds = 0  # tokens to prefill, and rounds so far

    @property
    def wants_prefill(self) -> bool:
        """Whether the proposer is to prefill a chunk now, before it may draft."""
        return self._batch.next_prefill is self

    @property
    def must_prefill(self) -> bool:
        """Whether the request is to draft once its proposer has prefilled the text."""
        return self._wants_draft and not self._prefilled

    def observe_prefill(self, seconds: float, *, finished: bool) -> None:
        """Record that the proposer prefilled a chunk in ``seconds``; the last one if ``finished``."""
        part = min(self._unread, PREFILL_PART)
        if part:
            pace = self.statistics.pace.value
            self.statistics.proposer.observe_prefill(part, seconds / pace)
        self._unread -= part
        self._prefilled = finished

    @property
    def prefill_s(self) -> float:
        """The seconds of the proposer's prefill, for which all wait, per remaining round.

        A reply is assumed to go on for as long as it has gone on: then a useless prefill costs no more
        than was lost by not drafting before.
        """
        left = max(self._rounds, _LEAST_LEFT)
        return self.statistics.proposer.prefill_s(self._unread) / left

    def budget(self) -> Budget:
        batch = self._batch
        self._seen = batch.changes
        if not self.measures:
            return self.inner.budget()
        if batch.running < 2:
            return self._budget_alone()
        if self._alone:
            self._warm = self._alone = False
        depth = batch.depth(self)
        if depth and not self._prefilled:
            self._wants_draft = True
            return Budget(0, 0)
        verify = self.statistics.verify
        plain = verify(min(batch.running, MAX_ROWS)) * self.statistics.pace.value
        return budget_to(depth, self._announce(depth), *self._floors(depth), plain or None)

    def observe(self, round: Round) -> None:
        self._rounds += 1
        undisturbed = self._alone and self._seen == self._batch.changes
        if undisturbed or not self.measures:
            self.inner.observe(round)
        else:
            self._learn(round)
            self.inner.skip_round()

    def skip_round(self) -> None:
        self._warm = False
        self.inner.skip_round()

    @contextmanager
    def decoding(self, prompt: int = 0) -> Iterator[None]:
        """Take part in the batch controller's decisions. ``prompt``: tokens that the proposer may have
        to prefill."""
        self._unread = 0 if self._prefilled else prompt
        self._batch.add(self)
        try:
            yield
        finally:
            self._batch.remove(self)

    def drafts(self, rate: float | None = None) -> list[_Draft]:
        """Return a draft per depth, 0 first. ``rate``: assumed acceptance, not the measured one."""
        proposer = self.statistics.proposer
        deepest = self.deepest if proposer.draft_times.known else min(self.deepest, _TRY)
        rates = proposer.acceptance_rates() if rate is None else repeat(rate)
        accepted = list(accumulate(map(mul, proposer.continuation_rates(), rates), mul))[:deepest]
        seconds = proposer.draft_times.table(deepest)
        tokens = [0.0, *accumulate(accepted)]
        return [
            _Draft(tokens[depth], proposer.nodes(depth), seconds[depth])
            for depth in range(deepest + 1)
        ]

    def _budget_alone(self) -> Budget:
        if not self._prefilled:
            self._wants_draft = True
            return Budget(0, 0)
        if not self._alone:
            self._alone, self._announced = True, None
            self.inner.skip_round()  # the others' time does not count as its own
            budget = self.inner.budget()
            return budget if budget.decision else replace(budget, decision=self._inner_decision)
        budget = self.inner.budget()
        self._inner_decision = budget.decision or self._inner_decision
        return budget

    def _learn(self, round: Round) -> None:
        proposer, drafted = self.statistics.proposer, round.tree.depth
        if not round.budget.depth:
            self._idle, self._warm = self._idle + 1, False
            return
        proposer.learn(round, self._idle)
        if self._warm:  # else it caught up with the text first
            if not proposer.draft_times.known:
                self._batch.reconsider()
            seconds = round.timing.draft_s / self.statistics.pace.value
            proposer.draft_times.learn(drafted, seconds)
        self._idle, self._warm = 0, True

    def _floors(self, depth: int) -> tuple[float, float]:
        """Return the floors as ``auto.py`` does, for the speed of all requests."""
        if depth < 2:
            return 0.0, 0.0
        proposer, row = self.statistics.proposer, self._batch.row_s()
        return proposer.floors(self._batch.speed, row + proposer.draft_times(depth) / depth, row)

    def _announce(self, depth: int) -> Decision | None:
        """Return the decision if it differs from the one announced last."""
        running = self._batch.running
        if self._announced == (running, depth):
            return None
        self._announced = running, depth
        if depth:
            tokens = "1 token per round" if depth == 1 else f"up to {depth} tokens per round"
            why = (
                f"{running} requests: drafting {tokens}, {times(self._batch.gain)} the total speed"
            )
        else:
            why = f"{running} requests: drafting paused; together they are faster without"
        expected = next(iter(self.statistics.proposer.acceptance_rates()))
        return Decision(depth, why, self._batch.needed(self), expected)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a request's draft of ``depth`` adds to its current one."""

    member: BatchMember
    depth: int
    tokens: float
    rows: int
    seconds: float


def _next_step(
    drafts: Mapping[BatchMember, list[_Draft]],
    depths: Mapping[BatchMember, int],
    verify: list[float],
    rows: int,
) -> _Step | None:
    """Return the step with the most tokens per second; None if a pass with ``rows`` has no room."""
    best, most = None, 0.0
    for member, choices in drafts.items():
        old = choices[depths[member]]
        for depth in range(depths[member] + 1, len(choices)):
            new = choices[depth]
            added = new.rows - old.rows
            if rows + added > MAX_ROWS:
                break
            seconds = verify[rows + added] - verify[rows] + new.seconds - old.seconds
            seconds += 0.0 if depths[member] else member.prefill_s
            tokens = new.tokens - old.tokens
            if tokens / max(seconds, _INSTANT) > most:
                most = tokens / max(seconds, _INSTANT)
                best = _Step(member, depth, tokens, added, seconds)
    return best


def _powers(rate: float) -> Iterator[float]:
    return accumulate(repeat(rate), mul)
