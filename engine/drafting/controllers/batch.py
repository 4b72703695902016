"""The batch controller: how far each request drafts while several share passes.

It maximises the tokens per second of all requests together:

    tokens/s = (requests + sum E[accepted]) / (T_verify(requests + sum drafted) + sum T_draft)

A pass has 16 rows for all requests. Drafts are made one after the other while the other requests wait.
So drafting pays with few requests, and mostly does not with many: then all rows go to pending tokens,
which always stand. Times and acceptance are those that ``auto.py`` measures for one request, which goes
on with them once it is alone again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, repeat
from operator import mul

from engine.decoding.context import PREFILL_PART
from engine.decoding.controller import Controller, budget_to
from engine.drafting.controllers.auto import LIKELIEST, NEXT, least
from engine.drafting.controllers.controller_statistics import ControllerStatistics, Drafter
from engine.events import Budget, Decision, Round
from engine.values import MAX_ROWS

_GAIN = 1.05
"""Minimum gain in tokens per second for any request to draft. A paused proposer is hardly tried again, so
noise must not decide."""
_KEPT = 0.5
"""Share of their speed that replies keep while a prompt is prefilled beside them."""
_LEAST_READ = 8
"""Minimum rows of a prefill chunk. Each pass streams all weights, so with fewer rows a prompt would take
many times as long."""
_DECIDE_EVERY = 8
"""Passes between two decisions while the same requests run."""
_LEAST_LEFT = 16
"""Minimum rounds that a reply is assumed to go on for when its proposer must prefill first."""
_TRIED = 2
"""Maximum depth of a proposer whose times are not measured yet."""
_INSTANT = 1e-9
"""Seconds assumed for what is not measured yet."""


class BatchController:
    """Decides the depth of every request that runs on one target."""

    def __init__(self, statistics: ControllerStatistics) -> None:
        """``statistics``: the times of passes, which are read and updated."""
        self.statistics = statistics
        self.changes = 0  # in who runs
        self.running = 0
        self.gain = 1.0  # of the last decision, over drafting nothing
        self._members: list[BatchMember] = []
        self._depths: dict[BatchMember, int] = {}
        self._speed, self._rows = 0.0, 1
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

    def passed(self, rows: int, seconds: float) -> None:
        """Record that a batched forward verified ``rows`` rows in ``seconds``."""
        self.statistics.pace.observe([(self.statistics.verify, rows, seconds)])
        self._passes += 1
        if self._passes % _DECIDE_EVERY == 0:
            self._due = True

    def prompt_rows(self, verified: int, most: int) -> int:
        """Return the rows of a prefill chunk in a pass that verifies ``verified`` rows and has ``most``.

        The pass then takes at most 1 / ``_KEPT`` times as long as without the chunk.
        """
        verify = self.statistics.verify
        if not verify.known:
            return min(_LEAST_READ, most - verified)
        seconds = verify.table(most)
        fitting = bisect_right(seconds, seconds[verified] / _KEPT) - 1
        return min(max(fitting - verified, _LEAST_READ), most - verified)

    def reconsider(self) -> None:
        """Decide anew: something is known that was not."""
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
    def reader(self) -> BatchMember | None:
        """The request whose proposer prefills next; one at a time, since all others wait for it."""
        return next((member for member in self._members if member.unread), None)

    def needed(self, member: BatchMember) -> float | None:
        """Return the break-even acceptance rate of ``member``'s drafts in this batch; None if no rate
        pays."""
        verify, views = self.statistics.verify.table(MAX_ROWS), member.view(1.0)
        count = min(max(self.running, 1), MAX_ROWS)

        def pays(rate: float) -> bool:
            """Return whether some depth pays at this rate."""
            return any(
                (count + tokens) * verify[count]
                > _GAIN * count * (verify[count + view.rows] + view.seconds)
                for view, tokens in zip(views[1:], accumulate(_powers(rate)), strict=False)
                if count + view.rows <= MAX_ROWS
            )

        return least(pays) if pays(1.0) else None

    def depth(self, member: BatchMember) -> int:
        """Return how many tokens ``member`` drafts next."""
        if self._due:
            self._due = False
            self._decide()
        return self._depths.get(member, 0)

    @property
    def speed(self) -> float:
        """Expected tokens per second of all requests together, by the last decision."""
        return self._speed

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
        views = {member: member.view() for member in self._trying()}
        depths = dict.fromkeys(self._members, 0)
        while plain and (found := _next_draft(views, depths, verify, rows)) is not None:
            if found.tokens <= found.seconds * tokens / seconds:
                break
            depths[found.member] = found.depth
            rows, tokens, seconds = (
                rows + found.rows,
                tokens + found.tokens,
                seconds + found.seconds,
            )
        speed = tokens / seconds if plain else 0.0
        self.gain = speed / plain if plain else 1.0
        if self.gain <= _GAIN:
            depths, self.gain, speed = dict.fromkeys(self._members, 0), 1.0, plain
        self._depths, self._speed, self._rows = depths, speed, rows

    def _trying(self) -> Iterator[BatchMember]:
        """Yield the requests that may draft. While a proposer's times are unknown, one tries it."""
        unknown: set[Drafter] = set()
        for member in self._members:
            drafter = member.statistics.drafter
            if member.may_draft and drafter not in unknown:
                yield member
                if not drafter.drafts.known:
                    unknown.add(drafter)


class _View:
    """What a draft of some depth brings to its request, and what it takes."""

    __slots__ = ("rows", "seconds", "tokens")

    def __init__(self, tokens: float, rows: int, seconds: float) -> None:
        self.tokens, self.rows, self.seconds = tokens, rows, seconds


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

        ``may_draft``: whether it drafts beside others. ``statistics`` is that of its proposer.
        """
        self.inner, self.statistics, self._batch = inner, statistics, batch
        self.deepest, self.measures, self.may_draft = deepest, measures, measures and may_draft
        self.rows = 1 if measures else 1 + deepest
        self._alone = batch.running < 2  # in this round
        self._seen = batch.changes
        self._warm, self._idle = False, 0
        self._said: tuple[int, int] | None = None  # how many were told of, and how far it drafted
        self._own: Decision | None = None  # the inner's last
        # Beside others the proposer reads the prompt once it is to draft: often it never is.
        self.prefills_at_once = not measures or batch.running < 2
        self._read, self._to_draft = self.prefills_at_once, False
        self._unread = self._rounds = 0  # tokens of the prompt, and rounds so far

    @property
    def wants_prefill(self) -> bool:
        """Whether the proposer is to prefill a chunk now, before it may draft."""
        return self._batch.reader is self

    @property
    def unread(self) -> bool:
        """Whether the request is to draft once its proposer has prefilled the text."""
        return self._to_draft and not self._read

    def read(self, seconds: float, *, finished: bool) -> None:
        """Record that the proposer prefilled a chunk in ``seconds``; the last one if ``finished``."""
        part = min(self._unread, PREFILL_PART)
        if part:
            self.statistics.drafter.has_read(part, seconds / self.statistics.pace.value)
        self._unread -= part
        self._read = finished

    @property
    def reading_s(self) -> float:
        """Seconds that all wait for what its proposer has to read, spread over the rounds that follow.

        A reply is taken to go on for as long as it has gone on: then reading for nothing costs no more
        than drafting has left out before.
        """
        left = max(self._rounds, _LEAST_LEFT)
        return self.statistics.drafter.reading_s(self._unread) / left

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
        if depth and not self._read:
            self._to_draft = True
            return Budget(0, 0)
        verify = self.statistics.verify
        plain = verify(min(batch.running, MAX_ROWS)) * self.statistics.pace.value
        return budget_to(depth, self._news(depth), *self._floors(depth), plain or None)

    def observe(self, round: Round) -> None:
        self._rounds += 1
        undisturbed = self._alone and self._seen == self._batch.changes
        if undisturbed or not self.measures:
            self.inner.observe(round)
        else:
            self._learn(round)
            self.inner.sit_out()

    def sit_out(self) -> None:
        self._warm = False
        self.inner.sit_out()

    @contextmanager
    def decoding(self, prompt: int = 0) -> Iterator[None]:
        """Take part in the batch controller's decisions. ``prompt``: tokens that the proposer may have
        to prefill."""
        self._unread = 0 if self._read else prompt
        self._batch.add(self)
        try:
            yield
        finally:
            self._batch.remove(self)

    def view(self, stands: float | None = None) -> list[_View]:
        """Return a view per depth, 0 first. ``stands``: assumed acceptance, not the measured one."""
        drafter = self.statistics.drafter
        deepest = self.deepest if drafter.drafts.known else min(self.deepest, _TRIED)
        rates = drafter.stands() if stands is None else repeat(stands)
        chances = map(mul, drafter.goes_on(), rates)
        alive = list(accumulate(chances, mul))[:deepest]
        seconds = drafter.drafts.table(deepest)
        tokens = [0.0, *accumulate(alive)]
        return [
            _View(tokens[depth], drafter.nodes(depth), seconds[depth])
            for depth in range(deepest + 1)
        ]

    def _budget_alone(self) -> Budget:
        if not self._read:
            self._to_draft = True
            return Budget(0, 0)
        if not self._alone:
            self._alone, self._said = True, None
            self.inner.sit_out()  # what others took was none of its time
            budget = self.inner.budget()
            return budget if budget.decision else replace(budget, decision=self._own)
        budget = self.inner.budget()
        self._own = budget.decision or self._own
        return budget

    def _learn(self, round: Round) -> None:
        drafter, drafted = self.statistics.drafter, round.tree.depth
        if not round.budget.depth:
            self._idle, self._warm = self._idle + 1, False
            return
        drafter.learn(round, self._idle)
        if self._warm:  # else it first read what it had missed
            if not drafter.drafts.known:
                self._batch.reconsider()
            drafter.drafts.learn(drafted, round.timing.draft_s / self.statistics.pace.value)
        self._idle, self._warm = 0, True

    def _floors(self, depth: int) -> tuple[float, float]:
        """As in ``auto.py``: how likely a draft must be to be worth its time, which is everybody's."""
        drafter, batch = self.statistics.drafter, self._batch
        if depth < 2 or not (drafter.stops_early and drafter.calibration.known):
            return 0.0, 0.0
        row = batch.row_s()
        token = row + drafter.drafts(depth) / depth
        chances = (batch.speed * token / NEXT, batch.speed * row)
        floor, row_floor = (drafter.calibration.said_of(min(one, LIKELIEST)) for one in chances)
        return floor, row_floor

    def _news(self, depth: int) -> Decision | None:
        """What is decided, where that is another thing than was said last."""
        running = self._batch.running
        if self._said == (running, depth):
            return None
        self._said = running, depth
        if depth:
            tokens = "1 token a round" if depth == 1 else f"up to {depth} tokens a round"
            why = (
                f"beside {running - 1} more: drafting {tokens}, "
                f"{self._batch.gain:.2f} times as many tokens for all together"
            )
        else:
            why = f"beside {running - 1} more: drafting paused, for the rows of all bring more"
        expected = next(iter(self.statistics.drafter.stands()))
        return Decision(depth, why, self._batch.needed(self), expected)


@dataclass(frozen=True, slots=True)
class _More:
    """A deeper draft of one request: what it brings, and takes, more than the one it has."""

    member: BatchMember
    depth: int
    tokens: float
    rows: int
    seconds: float


def _next_draft(
    views: Mapping[BatchMember, list[_View]],
    depths: Mapping[BatchMember, int],
    verify: list[float],
    rows: int,
) -> _More | None:
    """The one with most tokens for its time; None where a pass with ``rows`` has room for none."""
    found, most = None, 0.0
    for member, view in views.items():
        had = view[depths[member]]
        for depth in range(depths[member] + 1, len(view)):
            new = view[depth]
            more = new.rows - had.rows
            if rows + more > MAX_ROWS:
                break
            took = verify[rows + more] - verify[rows] + new.seconds - had.seconds
            took += 0.0 if depths[member] else member.reading_s
            brings = new.tokens - had.tokens
            if brings / max(took, _INSTANT) > most:
                most = brings / max(took, _INSTANT)
                found = _More(member, depth, brings, more, took)
    return found


def _powers(rate: float) -> Iterator[float]:
    return accumulate(repeat(rate), mul)
