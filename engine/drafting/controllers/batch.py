"""Requests that share passes: what each adds to the others', and who prefills when.

A pass has 16 rows for all requests, and drafts are made one after the other while the others wait. So
each request's controller compares the tokens per second of all together, with what the others add as it
stands (``OtherRequests`` in ``auto.py``). Drafting pays with few requests, and mostly does not with
many: then all rows go to pending tokens, which always count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.decoding.controller import Controller
from engine.drafting.controllers.auto import ASSUMED, Auto, OtherRequests
from engine.drafting.controllers.proposer_statistics import ProposerStatistics
from engine.drafting.controllers.times import Costs
from engine.drafting.preparing import Preparing
from engine.events import Budget, Round
from engine.values import MAX_ROWS

_KEPT_SPEED = 0.5
"""Share of their speed that replies keep while a prompt is prefilled beside them."""
_LEAST_PREFILL = 8
"""Minimum rows of a prefill chunk. Each pass streams all weights, so with fewer rows a prompt would take
many times as long."""
_SHORT = 128
"""Tokens that a proposer prefills at once for a request that runs alone: the wait is short."""
_LEAST_LEFT = 128
"""Tokens that a reply is assumed to go on for, unless its limit is nearer, while its proposer waits."""
_RECENT = 0.2
"""Share of the last round in the mean of recent ones: about five matter."""
_PREFILL_SPEED = 4
"""Assumed speed of prefill in drafted tokens, until it was measured."""


class BatchController:
    """The requests that run on one target."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.changes = 0  # of the set of running requests
        self.running = 0
        self._members: list[BatchMember] = []

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

    def observe_pass(self, rows: int, seconds: float) -> None:
        """Record that a batched forward verified ``rows`` rows in ``seconds``."""
        self.costs.verify.observe_step(rows)
        self.costs.observe([(self.costs.verify, rows, seconds)])

    def prefill_rows(self, verified: int, most: int) -> int:
        """Return the rows of a prefill chunk in a pass of ``most`` rows that verifies ``verified``.

        The pass then takes at most 1 / ``_KEPT_SPEED`` times as long as without the chunk.
        """
        verify = self.costs.verify
        if not verify.known:
            return min(_LEAST_PREFILL, most - verified)
        seconds = verify.table(most)
        fitting = bisect_right(seconds, seconds[verified] / _KEPT_SPEED) - 1
        return min(max(fitting - verified, _LEAST_PREFILL), most - verified)

    @contextmanager
    def deciding(self, member: BatchMember) -> Iterator[None]:
        """Count ``member`` among those that generate."""
        self._members.append(member)
        try:
            yield
        finally:
            self._members.remove(member)

    @property
    def next_prefill(self) -> BatchMember | None:
        """The request whose proposer prefills next; one at a time, because all others wait for it."""
        return next((member for member in self._members if member.must_prefill), None)

    def beside(self, member: BatchMember) -> OtherRequests:
        """Return what all requests but ``member`` add to a pass; those still in their prompt, one row."""
        others = [other.share for other in self._members if other is not member]
        waiting = max(self.running - 1 - len(others), 0)
        others += [OtherRequests(1.0, 1.0, 0.0, 1)] * waiting
        return OtherRequests(*map(sum, zip(*others, strict=True))) if others else OtherRequests()


class BatchMember:
    """A request's controller: ``inner``, told of the requests beside it."""

    def __init__(
        self,
        inner: Controller,
        batch: BatchController,
        statistics: ProposerStatistics,
        deepest: int,
        *,
        may_draft: bool,
    ) -> None:
        """``may_draft``: whether it drafts beside others. ``statistics``: of its proposer's prefill."""
        self.inner, self._batch, self._statistics = inner, batch, statistics
        self._auto = inner if isinstance(inner, Auto) else None
        self._deepest, self._may_draft = deepest, may_draft
        self._seen, self._alone = batch.changes, batch.running < 2
        self._preparing: Preparing | None = None
        self._wants_draft = False
        # Of recent rounds, the mean; recalled text may first show what it brings.
        self._tokens_a_round = float(MAX_ROWS) if self._auto and self._auto.recalls else 0.0
        self._limit = self._emitted = self._undrafted = 0

    @property
    def share(self) -> OtherRequests:
        """What it adds to a pass."""
        option = None if self._auto is None else self._auto.leader
        if option is None or not self._drafts:
            rows = 1.0 if self._auto is not None else 1.0 + self._deepest
            return OtherRequests(1.0, rows, 0.0, 1)
        return OtherRequests(option.tokens, option.rows, option.draft_s, 1)

    def prefills_at_once(self, tokens: int) -> bool:
        """Return whether the proposer prefills ``tokens`` before the first round.

        Otherwise it does so between later rounds, once drafts are expected to pay for it, and to bring
        more than recalled text does: in a short reply to a long prompt, never. With a fixed depth it does
        not wait, since words may depend on the depth (``rejection``), and must not on other requests.
        """
        return self._auto is None or (self._batch.running < 2 and tokens <= _SHORT)

    @property
    def undrafted(self) -> int:
        """Tokens that were decoded while the proposer waited, in this reply and those before it."""
        return 0 if self._prefilled else self._undrafted + self._emitted

    @property
    def _prefilled(self) -> bool:
        return self._preparing is None or self._preparing.finished

    @property
    def _drafts(self) -> bool:
        return self._may_draft and self._prefilled

    @property
    def wants_prefill(self) -> bool:
        """Whether the proposer is to prefill a chunk now, before it may draft."""
        return self._batch.next_prefill is self

    @property
    def must_prefill(self) -> bool:
        """Whether the request is to draft once its proposer has prefilled the text."""
        return self._wants_draft and not self._prefilled

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Record that the proposer prefilled ``tokens`` in ``seconds``."""
        if tokens:
            self._statistics.observe_prefill(tokens, seconds / self._batch.costs.pace)
        self.inner.skip_round()  # the next round does not begin where the last one ended

    @property
    def _prefill_s(self) -> float:
        """The seconds of the proposer's prefill, for which all wait, per remaining token.

        A reply is assumed to go on for as long as it has gone on without drafts: then a useless prefill
        costs no more than was lost by not drafting before.
        """
        if self._preparing is None or self._preparing.finished:
            return 0.0
        assert self._auto is not None
        verify = self._batch.costs.verify
        drafters = [member.draft_times for member in self._auto.members.values()]
        known = (times(1) for times in drafters if times.known)
        token_s = max(known, default=ASSUMED * verify(1))
        unread = self._preparing.left + self._emitted
        seconds = self._statistics.prefill_s(unread, token_s / _PREFILL_SPEED)
        left = max(self._undrafted + self._emitted, _LEAST_LEFT)
        return seconds / max(min(left, self._limit - self._emitted), 1)

    def budget(self) -> Budget:
        batch = self._batch
        self._seen, self._alone = batch.changes, batch.running < 2
        if self._auto is None:
            return self.inner.budget()
        if self._alone:
            budget = self._auto.budget(prefill_s=self._prefill_s)
        elif not self._may_draft:
            return Budget(0, 0)
        else:
            budget = self._auto.budget(batch.beside(self), prefill_s=self._prefill_s)
        if self._prefilled:
            return budget
        leader = self._auto.leader
        brings = leader is not None and leader.tokens > self._tokens_a_round
        self._wants_draft = budget.depth > 0 and brings
        return replace(budget, depth=0, nodes=0)

    def observe(self, round: Round) -> None:
        self._emitted += round.emitted
        self._tokens_a_round += _RECENT * (round.emitted - self._tokens_a_round)
        if self._auto is None:
            self.inner.observe(round)
        elif not (self._alone or self._may_draft):
            self.inner.skip_round()
        else:
            shared = not self._alone or self._seen != self._batch.changes
            self._auto.observe(round, shared=shared)

    def skip_round(self) -> None:
        self.inner.skip_round()

    @contextmanager
    def decoding(self, preparing: Preparing, limit: int, undrafted: int = 0) -> Iterator[None]:
        """Take part in passes, until ``limit`` tokens are decoded. ``undrafted``: those of earlier
        replies, since the proposer had last prefilled the text."""
        self._preparing, self._limit, self._undrafted = preparing, limit, undrafted
        with self._batch.deciding(self):
            yield
