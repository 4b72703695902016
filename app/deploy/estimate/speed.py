"""Expected tokens/s with and without drafts, and the load from which drafts do not pay.

tokens/s of a user = E[tokens of a round] / (T_verify + T_draft), with the seconds of ``network``. With
more users in a pass, verifying 1 + depth rows for each becomes compute-bound, and speculation gains
less. Estimates.

``table``: speeds under load, in the steady state of a closed loop. As in benchmarks of servers (vLLM's
``--max-concurrency``), each user sends the next prompt when a reply ends. Prompts are processed in
chunks beside the running rounds; a sequence runs once its whole context has room. Who waits follows from
Little's law (1961): users = replies per second x seconds from one prompt to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.deploy.estimate import assumptions
from app.deploy.estimate.assumptions import BATCHED_TOKENS, FIRST_TOKEN_SECONDS
from app.deploy.estimate.network import (
    ALONE,
    Drafter,
    Layout,
    Network,
    moving,
    row_seconds,
    seconds,
)
from app.deploy.gpus import SIXTEEN_BITS, GpuKind
from engine.values.memory import largest


@dataclass(frozen=True, slots=True)
class Setup:
    """One copy of a target and its drafter, on its GPUs. ``fades``: what the acceptance is multiplied
    with at each position. ``measured``: how many times as long as estimated a step takes;
    ``first_token``: a prompt, which others' prompts hold up."""

    network: Network
    drafter: Drafter
    gpu: GpuKind
    layout: Layout
    depth: int
    acceptance: float
    context: int
    kv_width: float
    fades: float = 1.0
    measured: float = 1.0
    first_token: float = 1.0

    def tokens(self, depth: int) -> float:
        """Return the expected tokens of a round: 1 + a + a (a f) + a (a f) (a f^2) + ..."""
        tokens, reached, accepted = 1.0, 1.0, self.acceptance
        for _ in range(depth):
            reached *= accepted
            tokens += reached
            accepted *= self.fades
        return tokens

    def round_seconds(self, users: int, depth: int) -> float:
        """Return the seconds of a round with ``depth`` drafted tokens a user; 0 is plain decoding."""
        batch = -(-users // self.layout.pipeline)  # the other stages work on other users meanwhile
        hops = (self.layout.pipeline - 1) * assumptions.SLOW_ALL_REDUCE_SECONDS
        host = assumptions.ROW_SECONDS * batch * (1 + depth)
        verify = self._pass(self.network, self.layout, batch * (1 + depth), batch)
        drafter, draft = self.drafter, 0.0
        if depth and drafter.network is not None:
            layout = self.layout if drafter.split else ALONE
            one = self._pass(drafter.network, layout, batch * drafter.rows, batch)
            draft = min(drafter.passes, depth) * one
        return (verify + draft + hops + host) * self.measured

    def _pass(self, network: Network, layout: Layout, rows: int, users: int) -> float:
        return seconds(network, self.gpu, layout, rows, users, self.context, self.kv_width)

    def prompt_seconds(self, tokens: float) -> float:
        """Return the seconds that prompt tokens add to a step: products and what the links carry, as
        weights are read anyway."""
        network, tensor = self.network, self.layout.tensor
        moved = moving(self.gpu, tensor, tokens * network.hidden * SIXTEEN_BITS)
        products = tokens * sum(row_seconds(network, self.gpu, tensor))
        return (products + 2 * network.layers * moved) * self.measured

    def tokens_a_second(self, users: int, depth: int) -> float:
        """Return tokens/s of all ``users`` of the copy."""
        return users * self.tokens(depth) / self.round_seconds(users, depth)

    def of_all(self, users: int, depth: int) -> float:
        """Return tokens/s of ``users`` of all copies."""
        here = self.layout.users(users)
        return self.tokens_a_second(here, depth) / here * users

    def gain(self, users: int, depth: int) -> float:
        """Return the speed-up over plain decoding."""
        return self.tokens_a_second(users, depth) / self.tokens_a_second(users, 0)

    def best_depth(self, users: int) -> int:
        """Return the fastest depth for so many users, up to the plan's; 0 is plain decoding."""
        return max(
            range(self.depth + 1), key=lambda depth: (self.tokens_a_second(users, depth), -depth)
        )


def stops_paying(setup: Setup, most: int) -> int | None:
    """Return the number of users of one copy from which drafts are not faster; 1: never faster; None:
    always faster, up to ``most`` users.
    """

    def pays(users: int) -> bool:
        return setup.gain(users, setup.depth) > 1

    return None if not setup.depth or pays(most) else 1 + largest(most - 1, pays)


def schedule(setup: Setup, most: int) -> tuple[tuple[int, int, int], ...]:
    """Return ranges of users (first, last, depth) up to ``most``, by powers of two, with the fastest
    depth for the last user of each; equal neighbours are joined."""
    ranges: list[tuple[int, int, int]] = []
    first = 1
    while first <= most:
        last = min(most, 2 * first - 1)
        depth = setup.best_depth(last)
        if ranges and ranges[-1][2] == depth:
            ranges[-1] = (ranges[-1][0], last, depth)
        else:
            ranges.append((first, last, depth))
        first = last + 1
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens/s of one user and of all at the plan's load, plain and with drafts."""

    plain_user: float
    drafted_user: float
    plain_all: float
    drafted_all: float
    tokens_a_round: float
    plain_step: float
    drafted_round: float
    best_depth: int
    stops_at: int | None

    @property
    def gain(self) -> float:
        return self.drafted_all / self.plain_all


def estimate(setup: Setup, users: int, most: int) -> Estimate:
    """Return the estimate for ``users`` of all copies, each with room for ``most``."""
    here = setup.layout.users(users)
    plain, drafted = (setup.of_all(users, depth) for depth in (0, setup.depth))
    return Estimate(
        plain_user=plain / users,
        drafted_user=drafted / users,
        plain_all=plain,
        drafted_all=drafted,
        tokens_a_round=setup.tokens(setup.depth),
        plain_step=setup.round_seconds(here, 0),
        drafted_round=setup.round_seconds(here, setup.depth),
        best_depth=setup.best_depth(here),
        stops_at=stops_paying(setup, most),
    )


LOADS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Users of the table's rows."""


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens of every prompt and reply, and the ``users`` of one copy."""

    users: int
    prompt: int
    reply: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """``total``: tokens/s of all replies; ``user``: of one user during a reply; ``wait``: seconds to a
    reply's first token."""

    total: float
    user: float
    wait: float


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: ``users`` of all copies, plain and with drafts."""

    users: int
    plain: Outcome
    drafted: Outcome

    @property
    def gain(self) -> float:
        return self.drafted.total / self.plain.total


def outcome(setup: Setup, load: Load, slots: int, depth: int) -> Outcome:
    """Return the figures of one copy at one ``depth``, with room for ``slots`` sequences."""
    tokens = min(setup.tokens(depth), load.reply)
    rounds = load.reply / tokens
    read = load.prompt / rounds  # prompt tokens in a round, for each sequence that decodes
    # A sequence's prompt takes one round more, and all rows of a round have to fit into a batch.
    decoding = min(
        min(load.users, max(1, slots)) * rounds / (rounds + 1), BATCHED_TOKENS / (1 + depth + read)
    )
    sequences = max(1, round(decoding))
    seconds = setup.round_seconds(sequences, depth) + setup.prompt_seconds(sequences * read)
    most = decoding * tokens / seconds
    waiting = load.users * load.reply / most - rounds * seconds  # for room
    first = FIRST_TOKEN_SECONDS + setup.prompt_seconds(load.prompt) + seconds
    wait, user = max(0.0, waiting) + setup.first_token * first, tokens / seconds
    return Outcome(load.users * load.reply / (wait + (load.reply - 1) / user), user, wait)


def table(
    setup: Setup, slots: int, prompt: int, reply: int, loads: tuple[int, ...] = LOADS
) -> tuple[Row, ...]:
    """Return the figures of all copies under each load; each copy has room for ``slots`` sequences."""
    rows = []
    for users in loads:
        copies = min(setup.layout.replicas, users)
        load = Load(-(-users // copies), prompt, reply)
        found = (outcome(setup, load, slots, depth) for depth in (0, setup.depth))
        # Some copies may have one user fewer.
        totals = (replace(one, total=one.total / load.users * users) for one in found)
        rows.append(Row(users, *totals))
    return tuple(rows)
