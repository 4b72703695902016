"""Expected speeds of a plan under load, in the steady state of a closed loop.

As in benchmarks of servers (vLLM's ``--max-concurrency``), each user sends the next prompt when a reply
ends. Prompts are processed in chunks beside the running rounds; a sequence runs once its whole context
has room. Times are the estimates of ``network``; who waits follows from Little's law (1961): users =
replies per second x seconds from one prompt to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate.assumptions import BATCHED_TOKENS
from app.deploy.estimate.speed import Setup
from app.deploy.plan import Plan
from engine.stats import expected_tokens

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
    tokens = min(expected_tokens(setup.acceptance, depth), load.reply)
    rounds = load.reply / tokens
    read = load.prompt / rounds  # prompt tokens in a round, for each sequence that decodes
    # A sequence's prompt takes one round more, and all rows of a round have to fit into a batch.
    decoding = min(
        min(load.users, max(1, slots)) * rounds / (rounds + 1), BATCHED_TOKENS / (1 + depth + read)
    )
    sequences = max(1, round(decoding))
    seconds = setup.round_seconds(sequences, depth) + setup.prompt_seconds(sequences * read)
    total = decoding * tokens / seconds
    wait = load.users * load.reply / total - (rounds - 1) * seconds
    return Outcome(total, tokens / seconds, wait)


def table(
    plan: Plan, prompt: int, reply: int, loads: tuple[int, ...] = LOADS
) -> tuple[tuple[Row, ...], int]:
    """Return the figures of all copies under each load, and the sequences that one copy has room for."""
    slots = plan.memory.most_users
    rows = []
    for users in loads:
        copies = min(plan.layout.replicas, users)
        load = Load(-(-users // copies), prompt, reply)
        plain, drafted = (outcome(plan.setup, load, slots, depth) for depth in (0, plan.depth))
        rows.append(Row(users, _of_all(plain, copies), _of_all(drafted, copies)))
    return tuple(rows), slots


def _of_all(one: Outcome, copies: int) -> Outcome:
    return Outcome(one.total * copies, one.user, one.wait)
