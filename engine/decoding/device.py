"""Rounds that run on a device as a whole: queued there, and read by the host one round late.

Where the proposer drafts on the host, it must have read a round before it drafts for the next one, so
that nothing runs ahead. Nor does it beside other requests: their rows are computed in one pass, and only
sampling and acceptance are each request's own, by the same kernels as in its rounds alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from engine.decoding.acceptance import follow
from engine.decoding.constraint import Constraint
from engine.decoding.context import Context
from engine.decoding.loop import RoundOutput
from engine.decoding.proposer import (
    DeviceDrafting,
    DraftProposal,
    Proposer,
    RoundDraft,
    RoundProposer,
)
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import VerifierOutput, ancestries
from engine.decoding.work import SharedClock, VerifyWork, WorkItem
from engine.events import Budget, Timing, Tree
from engine.models.rounds import PendingRound, RoundRunner
from engine.values import RoundResult


@dataclass(frozen=True, slots=True)
class _Running:
    """A round of ``depth`` drafted tokens that was drafted or launched, and not read.

    ``proposal``: the host's draft, made from ``started`` to ``drafted``; None: the round drafts on the
    device. ``launch``: ``RoundRunner.launch`` of this round. ``work``: what a shared pass may compute
    before that.
    """

    budget: Budget
    depth: int
    launch: Callable[..., PendingRound]
    started: float
    drafted: float
    proposal: DraftProposal | None = None
    pending: PendingRound | None = None
    work: VerifyWork | None = None

    @property
    def max_tokens(self) -> int:
        """The most tokens that it may emit."""
        return self.depth + 1


class DeviceLauncher:
    """A ``Launcher`` for a target that runs rounds, see ``Target.runs_rounds``."""

    def __init__(
        self,
        context: Context,
        target: Target,
        proposer: Proposer,
        sampler: Sampler,
        constraint: Constraint | None = None,
        top_logprobs: int = 0,
        *,
        is_alone: Callable[[], bool] = lambda: True,
    ) -> None:
        """The target's state holds the text already, but for the pending token.

        ``is_alone``: whether no other request runs now; beside others, rounds are work items.
        """
        self.context, self.target, self.proposer = context, target, proposer
        self._is_alone, self._clock = is_alone, SharedClock()
        inside = drafting_within(proposer, constraint)
        draft = None if inside is None else inside.draft
        runner = self.runner = target.round_runner(None if draft is None else draft.drafter)
        self.drafter: _NoDraft
        if inside is None:
            self.drafter = _HostDraft(runner, proposer, context, sampler, constraint)
        else:
            self.drafter = (
                _NoDraft(runner)
                if draft is None
                else _DeviceDraft(runner, draft, context, inside.tree_nodes)
            )
        self.running: deque[_Running] = deque()
        runner.begin(
            sampler.sampling, sampler.rule, sampler.seed, context.tokens, context.prompt_length,
            sampler.bias, top_logprobs,
        )  # fmt: skip
        self.drafter.prepare()

    @property
    def ahead(self) -> int:
        return self.drafter.ahead if self._is_alone() else 0

    def launch(self, budget: Budget, started: float) -> bool:
        shared = not self._is_alone()
        if shared and self.running:
            return False
        unread = sum(round.max_tokens for round in self.running)
        # Whoever drafts within rounds drafts nothing beside others.
        drafts = not (shared and self.drafter.ahead)
        most, most_nodes = self.drafter.limits(unread) if drafts else (0, 0)
        depth = deepest(self.runner, min(budget.depth, most))
        if depth and not self.drafter.is_ready(waits=bool(self.running)):
            return False
        nodes = min(budget.nodes, most_nodes) if depth else 0
        round = self.drafter.propose(replace(budget, depth=depth, nodes=nodes), started)
        if shared:
            self._settle()
            tree = Tree() if round.proposal is None else round.proposal.tree
            round = replace(round, work=VerifyWork(self.target, self.context.tokens[-1], tree))
        else:
            round = replace(round, pending=round.launch())
        self.running.append(round)
        return True

    @property
    def work(self) -> WorkItem | None:
        return self.running[0].work

    def read(self) -> RoundOutput:
        running = self.running.popleft()
        pending = running.pending
        if pending is None:
            assert running.work is not None
            logits = running.work.shared_logits
            pending = running.launch(logits=logits)
        result = pending.read()
        self._read = running, result, perf_counter()
        return _round_output(running, result)

    def commit(self, output: RoundOutput) -> Timing:
        running, result, read_at = self._read
        self.drafter.commit(result.tokens[:-1], running.depth)
        if running.work is not None or not self.drafter.ahead:  # heads read up to there
            self.target.advance([self.context.tokens[-1], *result.tokens[:-1]])
        self.proposer.observe(output.verifier_output.acceptance)
        if running.work is not None and (passed := running.work.began) is not None:
            return self._clock.timing(running.started, running.drafted, read_at, passed)
        proposed_s = 0.0 if running.proposal is None else running.drafted - running.started
        verifying_s = result.total_s - result.draft_s
        return Timing(proposed_s + result.draft_s, verifying_s, proposed_s + result.total_s)

    def close(self) -> None:
        self._settle()
        self.target.rewind(len(self.context.tokens) - 1)
        self.drafter.close()

    def _settle(self) -> None:
        """Tell the target's state what rounds have appended, as far as they were read."""
        self.target.advance(self.context.tokens[self.target.length : -1])


def drafting_within(proposer: Proposer, constraint: Constraint | None) -> DeviceDrafting | None:
    """Return how the proposer drafts within rounds; None if it drafts on the host.

    Only the host can evaluate a ``constraint``, so with one every proposer drafts there.
    """
    if constraint is None and isinstance(proposer, RoundProposer):
        return proposer.device_drafting()
    return None


def deepest(runner: RoundRunner, limit: int) -> int:
    """Return the greatest supported depth, at most ``limit``."""
    return max((depth for depth in runner.depths if depth <= limit), default=0)


def _round_output(running: _Running, result: RoundResult) -> RoundOutput:
    drafted = running.proposal
    proposal = DraftProposal(
        Tree(result.chain, result.parents) if drafted is None else drafted.tree,
        None,  # it was weighed already
        result.q if drafted is None else drafted.chosen_q,
        None if drafted is None else drafted.by,
    )
    acceptance = follow(result.tokens, proposal.tree)
    reached = {-1, *acceptance.path}
    nodes = zip(proposal.tree.parents, result.p, strict=True)
    p = tuple(p if parent in reached else None for parent, p in nodes)
    output = VerifierOutput(acceptance, p, result.next_p, top_logprobs=result.top_tokens)
    return RoundOutput(running.budget, proposal, output)


class _NoDraft:
    """Rounds without a draft; the base of rounds that draft on the device or the host."""

    ahead = 1
    """See ``Launcher``."""

    def __init__(self, runner: RoundRunner) -> None:
        self.runner = runner

    def prepare(self) -> None:
        """Capture the rounds of a request that began, which a load does not."""

    def limits(self, unread: int) -> tuple[int, int]:
        """Return how far it may draft after ``unread`` tokens that the host has not read, and of how many
        tokens a tree: 0 for a chain."""
        return 0, 0

    def is_ready(self, *, waits: bool) -> bool:
        """Return whether a round may draft now. ``waits``: whether unread rounds run."""
        return True

    def propose(self, budget: Budget, started: float) -> _Running:
        """Return a round of one of the runner's depths, not launched; ``started`` as in ``Launcher``."""
        depth = budget.depth
        launch = partial(self.runner.launch, depth, drafts=depth > 0)
        return _Running(budget, depth, launch, started, perf_counter())

    def commit(self, accepted: tuple[int, ...], depth: int) -> None:
        """Note that a round of ``depth`` drafted tokens was read, and which were ``accepted``."""

    def close(self) -> None:
        """End the request."""


class _DeviceDraft(_NoDraft):
    """A draft model or a head that runs inside the round."""

    def __init__(
        self, runner: RoundRunner, draft: RoundDraft, context: Context, tree_nodes: int
    ) -> None:
        super().__init__(runner)
        self.draft, self.context = draft, context
        self.tree_nodes = deepest(runner, tree_nodes)
        # Tokens of the text in its state, at least, as far as rounds were read.
        self.known = len(draft.tokens)
        # After rounds without a draft it lacks what these verified.
        self.is_behind = not draft.is_ready(context)

    def prepare(self) -> None:
        if self.tree_nodes:
            self.runner.prepare_trees(self.tree_nodes)

    def limits(self, unread: int) -> tuple[int, int]:
        known, drafter = len(self.context.tokens), self.draft.drafter
        room = 0 if known < 2 else drafter.context - known - unread
        return min(drafter.steps, room), min(self.tree_nodes, room)

    def is_ready(self, *, waits: bool) -> bool:
        """Prefill what it lacks, which must be on the host: unread rounds come first."""
        if self.is_behind and waits:
            return False
        if self.is_behind:
            self.known = max(self.known, len(self.draft.tokens))
            self.close()
            self.draft.read_text(self.context)
            self.known, self.is_behind = len(self.draft.tokens), False
        return True

    def propose(self, budget: Budget, started: float) -> _Running:
        self.is_behind |= not budget.depth
        nodes = deepest(self.runner, budget.nodes)
        if not nodes:
            return super().propose(budget, started)
        levels = min(budget.depth, nodes)
        launch = partial(self.runner.launch, nodes, drafts=True, tree=True, levels=levels)
        return _Running(budget, nodes, launch, started, perf_counter())

    def commit(self, accepted: tuple[int, ...], depth: int) -> None:
        if depth:
            # It was fed the text and all drafted tokens but the last, at least; keep the accepted ones.
            self.known = len(self.context.tokens) + min(depth - 1, len(accepted))

    def close(self) -> None:
        self.draft.set_tokens(self.context.keys[: min(self.known, len(self.context.tokens) - 1)])


class _HostDraft(_NoDraft):
    """A proposer that reads the text; its tokens are copied to the device for each round."""

    ahead = 0

    def __init__(
        self, runner: RoundRunner, proposer: Proposer, context: Context, sampler: Sampler,
        constraint: Constraint | None,
    ) -> None:  # fmt: skip
        super().__init__(runner)
        self.constraint = constraint
        self.proposer, self.context = proposer, context
        self.weighs_q = sampler.rule.weighs_q

    def limits(self, unread: int) -> tuple[int, int]:
        return (self.runner.depths[-1],) * 2

    def propose(self, budget: Budget, started: float) -> _Running:
        proposal = self.proposer.propose(self.context, budget)
        depth = deepest(self.runner, len(proposal.tree))
        # Its first nodes are a tree too.
        tree = Tree(proposal.tree.tokens[:depth], proposal.tree.parents[:depth])
        q = None if proposal.q is None or not (self.weighs_q and depth) else proposal.q[:depth]
        parents = None if tree.is_chain else tree.row_parents
        self.runner.put(tree.tokens, q, parents)
        masked = self.constraint is not None
        if self.constraint is not None:
            self.runner.allow(self.constraint.bits(ancestries(tree)))
        proposal = DraftProposal(tree, q, proposal.chosen_q[:depth], proposal.by)
        launch = partial(
            self.runner.launch,
            depth,
            sampled=q is not None,
            masked=masked,
            tree=parents is not None,
        )
        return _Running(budget, depth, launch, started, perf_counter(), proposal)
