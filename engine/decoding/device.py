"""Rounds that run on a device as a whole: queued there, and read by the host one round late.

Where the proposer drafts on the host, it must have read a round before it drafts for the next one, so
that nothing runs ahead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from time import perf_counter

from engine.decoding.acceptance import Acceptance
from engine.decoding.constraint import Constraint
from engine.decoding.context import Context
from engine.decoding.loop import Verified
from engine.decoding.proposer import DraftProposal, Proposer, RoundDraft, RoundProposer
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.decoding.verifier import VerifierOutput
from engine.decoding.work import WorkItem
from engine.events import Budget, Origin, Timing, Tree
from engine.models.rounds import PendingRound, RoundRunner
from engine.values import RoundResult


@dataclass(frozen=True, slots=True)
class _Running:
    """A round of ``depth`` drafted tokens that was launched and not read.

    ``proposal``: what the host drafted, which took ``proposed_s``; None: the round drafts itself.
    """

    budget: Budget
    depth: int
    pending: PendingRound
    proposal: DraftProposal | None = None
    proposed_s: float = 0.0

    @property
    def most(self) -> int:
        """Tokens it may emit."""
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
    ) -> None:
        """The target's cache holds the text already, but for the pending token.

        What may follow by a ``constraint`` the host alone knows, so with one it drafts, whoever drafts.
        """
        self.context, self.target, self.proposer = context, target, proposer
        inside = None
        if constraint is None and isinstance(proposer, RoundProposer):
            inside = proposer.in_round()
        draft = None if inside is None else inside.draft
        runner = self.runner = target.round_runner(draft)
        self.drafter: _Drafter
        if inside is None:
            self.drafter = _OnHost(runner, proposer, context, target, sampler, constraint)
        else:
            self.drafter = _Drafter(runner) if draft is None else _InRound(runner, draft, context)
        self.ahead = self.drafter.ahead
        self.running: deque[_Running] = deque()
        runner.begin(
            sampler.sampling, sampler.rule, sampler.seed, context.tokens, context.prompt_length
        )

    def launch(self, budget: Budget, started: float) -> bool:
        unread = sum(round.most for round in self.running)
        depth = deepest(self.runner, min(budget.depth, self.drafter.room(unread)))
        if depth and not self.drafter.is_ready(waits=bool(self.running)):
            return False
        budget = replace(budget, depth=depth, nodes=depth)
        self.running.append(self.drafter.launch(budget, started))
        return True

    @property
    def work(self) -> WorkItem | None:
        return None  # nobody can compute it but the device, for one sequence at a time

    def read(self) -> Verified:
        running = self.running.popleft()
        result = running.pending.read()
        self._read = running, result
        return _verified(running, result)

    def commit(self, verified: Verified) -> Timing:
        running, result = self._read
        self.drafter.commit(result.tokens[:-1], running.depth)
        self.proposer.observe(verified.output.acceptance)
        drafting_s = running.proposed_s + result.draft_s
        verifying_s = result.total_s - result.draft_s
        return Timing(drafting_s, verifying_s, running.proposed_s + result.total_s)

    def close(self) -> None:
        known = self.context.tokens[:-1]
        self.target.advance(known[self.target.length :])
        self.target.rewind(len(known))
        self.drafter.close()


def deepest(runner: RoundRunner, limit: int) -> int:
    """How many tokens a round may draft where ``limit`` are wanted at most."""
    return max((depth for depth in runner.depths if depth <= limit), default=0)


def _verified(running: _Running, result: RoundResult) -> Verified:
    accepted, proposal = result.accepted, running.proposal
    proposal = DraftProposal(
        Tree.chain(result.chain),
        None,  # it was weighed already
        result.q if proposal is None else proposal.chosen_q,
        None if proposal is None else proposal.by,
    )
    origin = Origin.BONUS if accepted == running.depth else Origin.CORRECTION
    acceptance = Acceptance(tuple(range(accepted)), result.tokens[-1], origin)
    p = tuple(p if node <= accepted else None for node, p in enumerate(result.p))
    return Verified(running.budget, proposal, VerifierOutput(acceptance, p, result.next_p))


class _Drafter:
    """Who drafts: the host, the round itself, or nobody, which is this."""

    ahead = 1
    """See ``Launcher``."""

    def __init__(self, runner: RoundRunner) -> None:
        self.runner = runner

    def room(self, unread: int) -> int:
        """How far it may draft behind so many tokens that the host has not read."""
        return 0

    def is_ready(self, *, waits: bool) -> bool:
        """Whether a round may draft now; with ``waits``, others run that could be read first."""
        return True

    def launch(self, budget: Budget, started: float) -> _Running:
        """Begins a round of one of the runner's depths; ``started`` as in ``Launcher``."""
        pending = self.runner.launch(budget.depth, drafts=budget.depth > 0)
        return _Running(budget, budget.depth, pending)

    def commit(self, accepted: tuple[int, ...], depth: int) -> None:
        """A round of ``depth`` drafted tokens was read; the text goes on with the ``accepted`` ones."""

    def close(self) -> None:
        """The request is over."""


class _InRound(_Drafter):
    """A draft model that the round runs."""

    def __init__(self, runner: RoundRunner, draft: RoundDraft, context: Context) -> None:
        super().__init__(runner)
        self.draft, self.context = draft, context
        self.known = len(draft.tokens)  # the text's tokens in its cache, as far as was read
        # A round feeds it the last two tokens itself; after plain rounds it may miss more.
        self.is_behind = self.known < len(context.tokens) - 2

    def room(self, unread: int) -> int:
        known = len(self.context.tokens)
        return 0 if known < 2 else self.draft.model.info.context - known - unread

    def is_ready(self, *, waits: bool) -> bool:
        """Where it is behind it first reads what it missed, which must be on the host."""
        if self.is_behind and waits:
            return False
        if self.is_behind:
            self.close()
            for _ in self.draft.prepare(self.context):
                pass
            self.known, self.is_behind = len(self.draft.tokens), False
        return True

    def launch(self, budget: Budget, started: float) -> _Running:
        self.is_behind |= not budget.depth
        return super().launch(budget, started)

    def commit(self, accepted: tuple[int, ...], depth: int) -> None:
        if depth:
            # It was fed the text and all drafted tokens but the last; those on the path stand.
            self.known = len(self.context.tokens) + min(depth - 1, len(accepted))

    def close(self) -> None:
        self.draft.set_tokens(self.context.keys[: min(self.known, len(self.context.tokens) - 1)])


class _OnHost(_Drafter):
    """A proposer that reads the text; its tokens are copied to the device for each round."""

    ahead = 0

    def __init__(
        self, runner: RoundRunner, proposer: Proposer, context: Context, target: Target,
        sampler: Sampler, constraint: Constraint | None,
    ) -> None:  # fmt: skip
        super().__init__(runner)
        self.constraint = constraint
        self.proposer, self.context, self.target = proposer, context, target
        self.weighs_q = sampler.rule.weighs_q

    def room(self, unread: int) -> int:
        return self.runner.depths[-1]

    def launch(self, budget: Budget, started: float) -> _Running:
        proposal = self.proposer.propose(self.context, budget)
        if not proposal.tree.is_chain:
            raise ValueError("rounds on the device verify chains only")
        depth = deepest(self.runner, len(proposal.tree))
        chain = Tree.chain(proposal.tree.tokens[:depth])
        q = None if proposal.q is None or not (self.weighs_q and depth) else proposal.q[:depth]
        self.runner.put(chain.tokens, q)
        masked = self.constraint is not None
        if self.constraint is not None:
            rows = [chain.tokens[:node] for node in range(depth + 1)]
            self.runner.allow(self.constraint.bits(rows))
        proposal = DraftProposal(chain, q, proposal.chosen_q[:depth], proposal.by)
        proposed_s = perf_counter() - started
        pending = self.runner.launch(depth, drawn=q is not None, masked=masked)
        return _Running(budget, depth, pending, proposal, proposed_s)

    def commit(self, accepted: tuple[int, ...], depth: int) -> None:
        self.target.advance([self.context.tokens[-1], *accepted])  # heads read as far as it goes
