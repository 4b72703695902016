"""Expected speeds of a plan under load, in the steady state of a closed loop.

As in benchmarks of servers (vLLM's ``--max-concurrency``), each user sends the next prompt when a reply
ends. Prompts are processed in chunks beside the running rounds; a sequence runs once its whole context
has room. Times are the estimates of ``network``; who waits follows from Little's law (1961): users =
replies per second x seconds from one prompt to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate.assumptions import BATCHED_TOKENS, FIRST_TOKEN_SECONDS
from app.deploy.estimate.speed import Setup

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
        plain, drafted = (outcome(setup, load, slots, depth) for depth in (0, setup.depth))
        rows.append(Row(users, _of_all(plain, copies), _of_all(drafted, copies)))
    return tuple(rows)


def _of_all(one: Outcome, copies: int) -> Outcome:
    return Outcome(one.total * copies, one.user, one.wait)
