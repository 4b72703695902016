"""Events as frozen values: the one stream that UI, server, bench and tests read.

Torch-free, so that any consumer may import it cheaply. A generation yields, in this order::

    Queued*  Started  Prefilled  Emitted*  Finished | Failed

A request that is cancelled while it waits goes from ``Queued`` to ``Finished``; ``Failed`` may come at
any point. An engine elsewhere that does not tell when a prompt was read leaves ``Prefilled`` out.

Nobody finds out where a token came from, or where it stands, by looking at text: every emitted token
carries its origin and its place. An engine elsewhere may tell text and nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where an emitted token came from."""

    DRAFT = "draft"
    """Drafted, and accepted by the target."""
    CORRECTION = "correction"
    """The target's own token, in place of the first rejected one."""
    BONUS = "bonus"
    """The target's own token after everything drafted was accepted (or nothing was drafted)."""


class FinishReason(StrEnum):
    """Why a generation ended. ``STOP`` covers end-of-sequence tokens and stop strings."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Tree:
    """Drafted tokens and, for each, the index of its parent node; -1 is the pending token.

    A chain is ``parents == (-1, 0, 1, ...)``. Parents come before their children.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError("a tree needs one parent for each token")
        if self.is_chain:  # most are, and are soon told from others
            return
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("a parent must come before its child")

    @classmethod
    def chain(cls, tokens: tuple[int, ...] | list[int]) -> Tree:
        """Return the tree with a single branch."""
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)))

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.tokens) - 1))

    @property
    def depths(self) -> tuple[int, ...]:
        """Return each node's depth: 1 for those after the pending token."""
        if self.is_chain:
            return tuple(range(1, len(self.tokens) + 1))
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent < 0 else found[parent] + 1)
        return tuple(found)

    @property
    def depth(self) -> int:
        """Return the length of the longest branch, in tokens."""
        return max(self.depths, default=0)

    def path_of(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes from the root down that have these tokens. Raises ValueError if none have."""
        path: list[int] = []
        nodes = list(zip(self.parents, self.tokens, strict=True))
        for token in tokens:
            path.append(nodes.index((path[-1] if path else -1, token)))
        return tuple(path)

    @property
    def row_parents(self) -> list[int]:
        """Return each row's parent: row 0 is the pending token, with -1, and row n + 1 is node n."""
        return [-1, *(parent + 1 for parent in self.parents)]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Decision:
    """A controller's decision, with its reason as a sentence for people.

    ``depth`` 0 is plain decoding. ``needed`` is the acceptance, alike for every drafted token, from
    which drafting pays; None if not even a perfect draft would. ``expected`` is the one it has.
    """

    depth: int
    why: str
    needed: float | None
    expected: float | None


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a controller lets the proposer draft in one round.

    ``depth`` bounds the longest branch, ``nodes`` the whole tree. ``decision`` is there in rounds
    where the controller changed its mind; a single try while drafting is paused is no such change.

    ``floor``: a draft may end with a token that makes all of them together less likely than this, by
    their proposer's own measure; what is hardly ever accepted costs more than it brings. ``row_floor``,
    which is no more: such a token is verified where they are as likely as this, and else left out.

    For a proposer with several to choose from: ``proposer`` names which drafts. Recalled text takes its
    place where more tokens of it are expected to stand than ``needed`` says for drafts of 1, 2, ...
    tokens. Without these it is the proposer's own choice.

    ``plain_s``: what a round that drafts nothing takes here, as its controller measured, in seconds as
    ``Timing.total_s``; None where nobody measured, and in rounds between two looks at it.
    """

    depth: int
    nodes: int
    decision: Decision | None = None
    floor: float = 0.0
    row_floor: float = 0.0
    proposer: str | None = None
    needed: tuple[float, ...] = ()
    plain_s: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock seconds of one round's parts; ``total_s`` includes everything between them."""

    draft_s: float
    verify_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of the loop: budget, draft, verification, acceptance.

    ``p[i]`` and ``q[i]`` are the target's and the draft's probability of drafted node ``i``, after
    temperature and truncation; None where nobody computed it (a deterministic proposer has no q, and
    nodes behind a rejected one have no meaningful p). ``next_p`` belongs to ``next_token``.
    ``emitted`` says how many of ``tokens`` reached the output: fewer only in the last round, when an
    end-of-sequence token, a stop string or the token limit cuts it.

    ``top_tokens``: the target's most likely tokens in the place of ``next_token`` with their
    probabilities, best first; empty if unknown. ``top_logprobs``: the same for each of ``tokens``, as
    many as were requested, until ``OutputProcessor`` moves them to the ``Token``.
    """

    index: int
    proposer: str
    budget: Budget
    tree: Tree
    accepted_path: tuple[int, ...]
    next_token: int
    origin: Origin
    p: tuple[float | None, ...]
    q: tuple[float | None, ...]
    next_p: float | None
    timing: Timing
    emitted: int
    top_tokens: tuple[tuple[int, float], ...] = ()
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()

    @property
    def accepted(self) -> int:
        """Return how many drafted tokens were accepted and reached the output: those behind an end
        token, a stop string or the token limit do not count."""
        return min(len(self.accepted_path), self.emitted)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Return the round's tokens: the accepted ones, then the target's own."""
        return (*(self.tree.tokens[node] for node in self.accepted_path), self.next_token)


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One of the most likely tokens at a position, and the target's probability of it there."""

    id: int
    text: str
    p: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply. ``text`` may be empty while a UTF-8 character is incomplete.

    ``start``: where ``text`` begins among the texts of all tokens, joined, in Unicode characters, as
    Python counts them. The reply is where these texts begin: a stop string and what follows it are
    left out. ``origin`` and ``p`` are None where the engine does not tell them. ``top_logprobs``: the
    target's likeliest tokens in its place, itself perhaps among them, where a request asks for them.
    """

    id: int
    text: str
    start: int
    origin: Origin | None = None
    p: float | None = None
    top_logprobs: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Queued:
    """Another request is running; ``ahead`` of them come first."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Started:
    """The engine took the request up. ``seed`` makes the reply again, drawn or given.
    ``thinking``: the prompt ends inside a thought, so the reply begins with the rest of it.

    ``prompt_tokens`` and ``seed`` are None where the engine does not tell them.
    """

    model: str
    proposer: str
    acceptance: str
    prompt_tokens: tuple[int, ...] | None
    seed: int | None = 0
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt is in the KV cache; ``reused`` of its tokens were there from an earlier turn.

    It comes again between rounds, with the seconds of both, where the draft has read the prompt later.
    """

    tokens: int
    reused: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """More of the reply; one round's tokens, where the engine shows rounds.

    ``text`` is what a reader may see now: it can lag behind ``tokens`` while a stop string might be
    beginning, and the texts of all events, joined, are the reply, but for the last one's ``tail``.
    ``tokens`` are what was emitted, in order; None where the engine tells no tokens, then in all of
    a reply's events. ``drafted`` are the texts of all nodes of the round's tree, kept or not, and
    ``next_text`` that of its ``next_token``, ``top_texts`` those of the round's ``top_tokens``; without a
    round there are none.
    ``at``: seconds since the request was taken up, from an engine that shows no rounds; None where
    nobody measured. A round has its own ``timing``.
    """

    text: str
    tokens: tuple[Token, ...] | None = None
    round: Round | None = None
    drafted: tuple[str, ...] = ()
    next_text: str = ""
    top_texts: tuple[str, ...] = ()
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts that another engine reported for one reply at its end; None if not reported.

    Names are those of ``engine.stats.Statistics``. ``acceptance_length``: the mean, from an engine that
    tells it and no rounds. ``shared``: what was drafted and accepted is of everyone whom that engine
    answered meanwhile, for it does not count them apart.
    """

    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    completion_tokens: int | None = None
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_at: tuple[int, ...] = ()
    acceptance_length: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The end. ``tail`` is held-back text that turned out not to be a stop string.

    ``token_ids`` are None where the engine tells no tokens. ``counted``: from an engine that counts
    more than its events show. ``stop_string``: the one that ended the reply, if one did and is known.
    """

    reason: FinishReason
    tail: str
    text: str
    token_ids: tuple[int, ...] | None
    counted: Counted | None = None
    stop_string: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine failed: the message says what happened, why, and what to do.

    ``refused``: what was asked is wrong, and asking again will not help. ``wait_s``: it has too much to
    do, and seconds after which asking again may help.
    """

    message: str
    refused: bool = False
    wait_s: float | None = None


Event = Queued | Started | Prefilled | Emitted | Finished | Failed
