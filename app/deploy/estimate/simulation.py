"""Simulate a plan under load, step by step.

A closed loop, as in benchmarks of servers (vLLM's ``--max-concurrency``): each user sends the next prompt
when a reply ends. Prompts are processed in chunks beside the running rounds; a sequence runs once its
whole context has room. Accepted tokens are drawn for every round with the plan's acceptance. Times are
the estimates of ``network``, so the result is an estimate, the same for the same seed.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass

from app.deploy.estimate.assumptions import BATCHED_TOKENS
from app.deploy.estimate.speed import Setup
from app.deploy.plan import Plan

REPLIES = 3
"""Replies of every user in a run, on average; the first are not counted."""

SEED = 20261122


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens of every prompt and reply, and the ``users`` of one copy."""

    users: int
    prompt: int
    reply: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of one copy. ``total``: tokens/s of all replies; ``user``: of one user during a reply.

    ``running``: mean sequences in a step. ``wait``: mean seconds to a reply's first token.
    """

    total: float
    user: float
    running: float
    wait: float


@dataclass(slots=True)
class _Sequence:
    """A request: when it was sent, tokens left of reply and prompt, when the first round ended, and the
    tokens since then."""

    sent: float
    left: int
    unread: int
    first: float | None = None
    since: int = 0


@dataclass(slots=True)
class _Sums:
    """Sums over the counted part of a run."""

    since: float = 0.0
    tokens: int = 0
    replies: int = 0
    after_first: int = 0
    answering: float = 0.0
    waiting: float = 0.0
    running: int = 0
    steps: int = 0


def simulate(setup: Setup, load: Load, slots: int, depth: int, seed: int = SEED) -> Outcome:
    """Run the load at one ``depth`` with room for ``slots`` sequences, at least one.

    Counting begins with the average user's second reply, when prompts and replies have mixed.
    """
    run = _Run(setup, load, max(1, slots), depth, seed)
    while run.replies < load.users:
        run.step()
    run.sums = _Sums(since=run.now)
    while run.sums.replies < load.users * (REPLIES - 1):
        run.step()
    return run.outcome()


class _Run:
    def __init__(self, setup: Setup, load: Load, slots: int, depth: int, seed: int) -> None:
        self.setup, self.load, self.slots, self.depth = setup, load, slots, depth
        self.random = random.Random(seed)
        self.now, self.replies = 0.0, 0
        self.sums = _Sums()
        # First replies differ in length: otherwise all users would stay in step.
        self.waiting = deque(
            self._ask(self.random.randint(1, load.reply)) for _ in range(load.users)
        )
        self.running: list[_Sequence] = []
        self.rounds: dict[tuple[int, int], float] = {}

    def step(self) -> None:
        """Run one round of all decoding sequences, with a part of the waiting prompts."""
        while self.waiting and len(self.running) < self.slots:
            self.running.append(self.waiting.popleft())
        decoding = [each for each in self.running if not each.unread]
        prompts = self._read(BATCHED_TOKENS - len(decoding) * (1 + self.depth))
        self.now += self._seconds(len(decoding), prompts)
        for each in decoding:
            self._advance(each)
        self.running = [each for each in self.running if each.left]
        self.sums.running += len(decoding)
        self.sums.steps += 1

    def _ask(self, reply: int) -> _Sequence:
        return _Sequence(self.now, reply, self.load.prompt)

    def _read(self, room: int) -> int:
        """Take up to ``room`` prompt tokens, first come first served; return how many."""
        taken = 0
        for each in self.running:
            part = min(each.unread, max(0, room - taken))
            each.unread -= part
            taken += part
        return taken

    def _seconds(self, decoding: int, prompts: int) -> float:
        """Return the seconds of a round with prompt tokens in the same pass."""
        key = (decoding, prompts)
        if key not in self.rounds:
            time = self.setup.round_seconds(decoding, self.depth) if decoding else 0.0
            self.rounds[key] = time + self.setup.prompt_seconds(prompts)
        return self.rounds[key]

    def _advance(self, each: _Sequence) -> None:
        made = min(each.left, 1 + self._accepted())
        if each.first is None:
            each.first = self.now
        else:
            each.since += made
        each.left -= made
        self.sums.tokens += made
        if not each.left:
            self._end(each)

    def _accepted(self) -> int:
        """Draw the number of accepted tokens: geometric, cut at the depth."""
        share = self.setup.acceptance
        if not self.depth or not share:
            return 0
        if share >= 1:
            return self.depth
        drawn = math.log(1 - self.random.random()) / math.log(share)
        return min(self.depth, int(drawn))

    def _end(self, each: _Sequence) -> None:
        assert each.first is not None
        self.waiting.append(self._ask(self.load.reply))
        self.replies += 1
        self.sums.replies += 1
        self.sums.after_first += each.since
        self.sums.answering += self.now - each.first
        self.sums.waiting += each.first - each.sent

    def outcome(self) -> Outcome:
        """Return the averages since counting began."""
        sums = self.sums
        return Outcome(
            total=sums.tokens / (self.now - sums.since),
            user=sums.after_first / sums.answering if sums.answering else math.inf,
            running=sums.running / sums.steps,
            wait=sums.waiting / sums.replies,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: ``users`` of all copies, plain and with drafts."""

    users: int
    plain: Outcome
    drafted: Outcome

    @property
    def gain(self) -> float:
        return self.drafted.total / self.plain.total


LOADS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Users of the table's rows."""


def table(
    plan: Plan, prompt: int, reply: int, loads: tuple[int, ...] = LOADS
) -> tuple[tuple[Row, ...], int]:
    """Return the figures of all copies under each load, and the sequences that one copy has room for."""
    slots = plan.memory.most_users
    rows = []
    for users in loads:
        copies = min(plan.layout.replicas, users)
        load = Load(-(-users // copies), prompt, reply)
        plain, drafted = (
            _of_all(simulate(plan.setup, load, slots, depth), copies) for depth in (0, plan.depth)
        )
        rows.append(Row(users, plain, drafted))
    return tuple(rows), slots


def _of_all(one: Outcome, copies: int) -> Outcome:
    return Outcome(one.total * copies, one.user, one.running * copies, one.wait)
