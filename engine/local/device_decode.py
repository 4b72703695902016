"""The loop of ``engine.decoding.loop`` for a target whose whole round runs on the device.

The same rounds come out. The host reads a round while the next one runs already, so what it learns
(an end, a stop string, a cancelled request, what a controller makes of a round) acts one round late: at
most one round is computed for nothing, and nobody sees its tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from time import perf_counter

from engine.backends.cuda.cache import DeviceCache
from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.graphs import Pending, Runner
from engine.backends.cuda.round import DeviceRound, Mode
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.loop import Ending, cut
from engine.decoding.proposer import NOTHING, DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.decoding.target import Target
from engine.drafting.draft_reader import SameVocabulary
from engine.drafting.proposers.draft import DraftModelProposer
from engine.drafting.proposers.none import NoneProposer
from engine.events import Budget, Origin, Round, Timing, Tree
from engine.kernels.cuda.acceptance import Outcome
from engine.kernels.cuda.acceptance_kernel import Rule
from engine.request import AcceptanceRule

DEPTHS = (0, 1, 2, 3, 4, 5, 7, 10, 15)
"""Depths that rounds have: each is a graph, which takes memory and a moment to capture."""
_RULES = {
    AcceptanceRule.GREEDY: Rule.GREEDY,
    AcceptanceRule.COUPLED: Rule.COUPLED,
    AcceptanceRule.REJECTION: Rule.REJECTION,
    AcceptanceRule.BLOCK: Rule.BLOCK,
}


def decode_on_device(
    context: Context,
    target: Target,
    proposer: Proposer,
    controller: Controller,
    sampler: Sampler,
    runner: Runner,
    ending: Ending,
    name: str,
) -> Generator[Round]:
    """Yields rounds until ``ending``, as ``decode``; cache and context agree once it is closed.

    ``runner`` holds the target's cache and the draft proposer's. Other proposers draft on the host, so
    nothing runs ahead of them. Raises ModelError for logits that are no numbers.
    """
    drafter: _Drafter
    reader = _reader_there(proposer)
    if reader is not None:
        drafter = _OnDevice(reader, context)
    elif isinstance(proposer, NoneProposer):
        drafter = _Nobody()
    else:
        drawn = sampler.rule.weighs_q
        drafter = _OnHost(proposer, context, target, runner, drawn=drawn)
    loop = _Loop(context, controller, drafter, sampler, runner, ending, name)
    try:
        yield from loop.rounds()
    finally:
        target.adopt(context.tokens[:-1])
        drafter.settle()


def runner_for(
    target: Target, proposer: Proposer, kept: Runner | None, captures: bool = True
) -> Runner:
    """``kept`` where it holds what ``proposer`` drafts with, else a new one. ``captures`` as there."""
    assert isinstance(target.model, CudaDecoder) and isinstance(target.cache, DeviceCache)
    draft, cache = None, None
    reader = _reader_there(proposer)
    if reader is not None:
        assert isinstance(reader.model, CudaDecoder) and isinstance(reader.cache, DeviceCache)
        draft, cache = reader.model, reader.cache
    if kept is not None and (cache is None or kept.round.draft_cache is cache):
        return kept
    return Runner(DeviceRound(target.model, target.cache, draft, cache), captures)


def _reader_there(proposer: Proposer) -> SameVocabulary | None:
    """The draft model that rounds can run themselves: on the device, with the target's tokens."""
    reader = proposer.reader if isinstance(proposer, DraftModelProposer) else None
    if isinstance(reader, SameVocabulary) and isinstance(reader.cache, DeviceCache):
        return reader
    return None


def deepest(limit: int) -> int:
    """The largest of ``DEPTHS`` that is no larger."""
    return max((depth for depth in DEPTHS if depth <= limit), default=0)


@dataclass(frozen=True, slots=True)
class _Running:
    """A round that was launched and not read; ``proposed_s`` is what drafting on the host took."""

    budget: Budget
    proposal: DraftProposal
    proposed_s: float
    pending: Pending

    @property
    def most(self) -> int:
        """Tokens it may emit."""
        return self.pending.depth + 1


class _Loop:
    """One request's rounds, launched and read."""

    def __init__(
        self, context: Context, controller: Controller, drafter: _Drafter, sampler: Sampler,
        runner: Runner, ending: Ending, name: str,
    ) -> None:  # fmt: skip
        self.context, self.controller, self.drafter = context, controller, drafter
        self.runner, self.ending, self.name = runner, ending, name
        self.rule = _RULES[sampler.rule]
        self.running: deque[_Running] = deque()
        self.budget: Budget | None = None  # decided, not launched yet
        sampling = sampler.sampling
        if self.rule is Rule.GREEDY:
            sampling = replace(sampling, top_k=0, top_p=1.0, min_p=0.0)
        runner.round.begin(sampling, sampler.seed, context.tokens, context.prompt_length)

    def rounds(self) -> Generator[Round]:
        index, done = 0, False
        while not done:
            while len(self.running) < self.drafter.ahead and self._launch():
                pass
            if not self.running:
                return
            round, done = self._read(self.running.popleft(), index)
            yield round
            index += 1

    def _launch(self) -> bool:
        """Queues one more round, unless none is wanted, or the draft must know the last one first."""
        # Each running round emits one token at least, and this one adds one to what it drafts.
        room = self.ending.limit - self.context.generated - len(self.running)
        if room < 1:
            return False
        budget = self.budget = self.budget or self.controller.budget()
        unread = sum(round.most for round in self.running)
        depth = deepest(min(budget.depth, room - 1, self.drafter.room(unread)))
        if depth and not self.drafter.is_ready(waits=bool(self.running)):
            return False
        budget = replace(budget, depth=depth, nodes=depth)
        started = perf_counter()
        proposal = self.drafter.propose(budget)
        proposed_s = perf_counter() - started
        if self.drafter.drafts:
            mode = Mode(depth, self.rule, drafts=depth > 0)
        else:
            mode = Mode(len(proposal.tree), self.rule, drawn=proposal.q is not None)
        self.running.append(_Running(budget, proposal, proposed_s, self.runner.launch(mode)))
        self.budget = None
        return True

    def _read(self, running: _Running, index: int) -> tuple[Round, bool]:
        """Waits for the oldest round; appends its tokens to the text. Whether it was the last one."""
        result = running.pending.read()
        outcome = result.outcome
        before = len(self.context.tokens)
        emitted, ended = cut(list(outcome.tokens), self.ending.eos)
        room = self.ending.limit - self.context.generated
        emitted = min(emitted, room)
        self.context.tokens.extend(outcome.tokens[:emitted])
        path = tuple(range(outcome.accepted))
        origin = Origin.BONUS if outcome.accepted == running.pending.depth else Origin.CORRECTION
        acceptance = Acceptance(path, outcome.tokens[-1], origin)
        self.drafter.observe(acceptance, running.pending.depth, before)
        round = Round(
            index=index,
            proposer=self.name,
            budget=running.budget,
            tree=Tree.chain(outcome.chain),
            accepted_path=path,
            next_token=acceptance.next_token,
            origin=origin,
            p=_judged(outcome),
            q=outcome.q if self.drafter.drafts else running.proposal.chosen_q,
            next_p=outcome.next_p,
            timing=Timing(
                running.proposed_s + result.draft_s,
                result.total_s - result.draft_s,
                running.proposed_s + result.total_s,
            ),
            emitted=emitted,
        )
        self.controller.observe(round)
        return round, ended or emitted == room


def _judged(outcome: Outcome) -> tuple[float | None, ...]:
    """The target's probabilities of what it judged: behind the first rejected token they mean nothing."""
    return tuple(p if node <= outcome.accepted else None for node, p in enumerate(outcome.p))


class _Drafter:
    """Who drafts: on the device, on the host, or nobody, which is this."""

    ahead = 2
    """Rounds that are launched before the first of them is read."""
    drafts = True
    """Whether the round itself drafts."""

    def room(self, unread: int) -> int:
        """How far it may draft behind so many tokens that the host has not read."""
        return 0

    def is_ready(self, *, waits: bool) -> bool:
        """Whether a round may draft now; with ``waits``, others run that must be read first."""
        return True

    def propose(self, budget: Budget) -> DraftProposal:
        """What is verified, where the round does not draft itself."""
        return NOTHING

    def observe(self, acceptance: Acceptance, depth: int, before: int) -> None:
        """What became of a round that drafted ``depth`` tokens behind ``before`` ones."""

    def settle(self) -> None:
        """The request is over."""


class _Nobody(_Drafter):
    """Plain decoding."""


class _OnDevice(_Drafter):
    """The draft model, within the round."""

    def __init__(self, reader: SameVocabulary, context: Context) -> None:
        self.reader, self.context = reader, context
        self.known = len(reader.tokens)  # the text's tokens in its cache, as far as was read
        # A round feeds it the last two tokens itself; after plain rounds it may miss more.
        self.is_behind = self.known < len(context.tokens) - 2

    def room(self, unread: int) -> int:
        known = len(self.context.tokens)
        return 0 if known < 2 else self.reader.model.info.context - known - unread

    def is_ready(self, *, waits: bool) -> bool:
        """Where it is behind it first reads what it missed, which must be on the host."""
        if self.is_behind and waits:
            return False
        if self.is_behind:
            self.settle()
            for _ in self.reader.prepare(self.context):
                pass
            self.known, self.is_behind = len(self.reader.tokens), False
        return True

    def propose(self, budget: Budget) -> DraftProposal:
        self.is_behind |= not budget.depth
        return NOTHING

    def observe(self, acceptance: Acceptance, depth: int, before: int) -> None:
        if depth:
            # It was fed the text and all drafted tokens but the last; those on the path stand.
            fed = before + min(depth - 1, len(acceptance.path))
            self.known = min(fed, len(self.context.tokens) - 1)

    def settle(self) -> None:
        self.reader.adopt(self.context.tokens[: self.known])


class _OnHost(_Drafter):
    """A proposer that reads the text; its tokens are copied to the device for each round."""

    ahead, drafts = 1, False

    def __init__(
        self, proposer: Proposer, context: Context, target: Target, runner: Runner, *, drawn: bool
    ) -> None:
        """``drawn``: whether it matters to the rule what a token was drawn from."""
        self.proposer, self.context, self.target = proposer, context, target
        self.round, self.drawn = runner.round, drawn

    def room(self, unread: int) -> int:
        return DEPTHS[-1]

    def propose(self, budget: Budget) -> DraftProposal:
        proposal = self.proposer.propose(self.context, budget)
        if not proposal.tree.is_chain:
            raise ValueError("rounds on the device verify chains only")
        depth = deepest(len(proposal.tree))
        chain = Tree.chain(proposal.tree.tokens[:depth])
        q = proposal.q[:depth] if self.drawn and depth and proposal.q is not None else None
        self.round.put(chain.tokens, q)
        return DraftProposal(chain, q, proposal.chosen_q[:depth])

    def observe(self, acceptance: Acceptance, depth: int, before: int) -> None:
        self.target.adopt(self.context.tokens[:-1])  # heads read as far as it goes
        self.proposer.observe(acceptance)
