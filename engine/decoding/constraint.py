"""Constrain a request to a grammar: mask logits, truncate drafts, and draft forced tokens.

The mask is part of the target's distribution, like a penalty. Each row of a verification is masked by
the tokens that may follow the text and that row's drafted tokens, before temperature and truncation. So
the output is that of the masked target alone, under any draft and any rule.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.controller import Controller
from engine.decoding.proposer import DraftProposal, Proposer
from engine.decoding.sampling import Sampler
from engine.decoding.thinking import ThinkingMatcher
from engine.events import Budget, Round, Tree
from engine.grammar.matcher import Bits, Matcher

GRAMMAR = "grammar"
"""The proposer's name in rounds that the grammar drafted."""
_WORTH = 2
"""Fewest forced tokens that the grammar drafts: a model mostly predicts a single one, and drafts more."""
_NO_DRAFT = Budget(0, 0)
_BITS = np.arange(256)[:, None] >> np.arange(8) & 1
_OF_BYTES = np.where(_BITS, np.float32(0), np.float32(-np.inf))
"""(256, 8): the biases of eight tokens' logits, by a byte of a mask."""


class Constraint:
    """The tokens that a grammar, or a limit of thinking, allows after ``context``, which may grow."""

    def __init__(self, matcher: Matcher | ThinkingMatcher, context: Context) -> None:
        self._matcher, self._context = matcher, context
        self._ahead: Future[object] | None = None
        self._bias = _Bias()

    def precompute(self, drafted: Sequence[Sequence[int]]) -> None:
        """Start computing the masks of ``drafted`` on another thread."""
        matcher = self._current()
        self._ahead = _mask_thread().submit(lambda: [matcher.mask(path) for path in drafted])

    def masked(self, logits: Tensor, drafted: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits with -inf for forbidden tokens. The result is valid until the next call.

        ``drafted[row]`` are the tokens between the text and that row's token. A row is not masked after
        drafted tokens that end the text or are forbidden, since no round reaches it; nor if no token
        would be left, since a draft's vocabulary may lack all allowed tokens.
        """
        matcher = self._current()
        masks = [matcher.mask(path) for path in drafted]
        masks = [None if mask is matcher.free else mask for mask in masks]
        some = next((mask for mask in masks if mask is not None), None)
        if some is None:
            return logits
        unmasked = np.full_like(some, -1)
        words = np.stack([unmasked if mask is None else mask for mask in masks])
        masked = self._bias.apply(logits, words)
        empty = masked.amax(-1, keepdim=True) == float("-inf")
        return torch.where(empty, logits, masked) if bool(empty.any()) else masked

    def bits(self, drafted: Sequence[Sequence[int]]) -> Tensor:
        """Return the masks for rounds on a device: int32 (rows, words); see ``Bits``."""
        matcher = self._current()
        masks: list[Bits | None] = [matcher.mask(path) for path in drafted]
        some = next((mask for mask in masks if mask is not None), None)
        assert some is not None, "the text has ended"
        unmasked = np.full_like(some, -1)
        return torch.from_numpy(np.stack([unmasked if mask is None else mask for mask in masks]))

    def allows(self, drafted: Sequence[int], token: int) -> bool:
        """Return whether ``token`` may follow the text and ``drafted``; after an end, True."""
        matcher = self._current()
        return matcher.ends(drafted) or matcher.allows(drafted, token)

    def forced(self, drafted: Sequence[int] = ()) -> list[int]:
        """Return the tokens that must follow ``drafted``, in order; often none."""
        return self._current().forced(drafted)

    def truncate(
        self, proposal: DraftProposal, depth: int
    ) -> tuple[DraftProposal, tuple[int, ...]]:
        """Return ``proposal`` up to its first forbidden token, and its remaining nodes in order.

        A sampled forbidden token is kept last, so that verification rejects it and the distribution stays
        exact. (This is rare: drafts are sampled from masked rows if the draft knows an allowed token.) A
        deterministic chain continues with the forced tokens instead, up to ``depth`` tokens; recalled
        text may be longer than that already.
        """
        matcher, tree = self._current(), proposal.tree
        if not tree.is_chain:
            return _branches(proposal, matcher)
        fits = matcher.count_fitting(tree.tokens)
        if fits == len(tree) > 0:
            return proposal, tuple(range(fits))
        more: list[int] = []
        if proposal.q is None:
            more = matcher.forced(tree.tokens[:fits])[: max(0, depth - fits)]
        elif not matcher.ends(tree.tokens[:fits]):
            fits += 1
        truncated = replace(
            proposal,
            tree=Tree.chain([*tree.tokens[:fits], *more]),
            q=None if proposal.q is None else proposal.q[:fits],
            chosen_q=proposal.chosen_q[:fits] + (None,) * len(more),
            by=proposal.by if fits or not more else GRAMMAR,
        )
        return truncated, tuple(range(fits))

    def _current(self) -> Matcher | ThinkingMatcher:
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead.result()
        start = self._context.prompt_length + self._matcher.read
        if start < len(self._context.tokens):
            self._matcher.consume(self._context.tokens[start:])
        return self._matcher


class _Bias:
    """Adds 0 to the logits of allowed tokens and -inf to the others, in buffers that are reused:
    allocating megabytes takes longer than writing them."""

    def __init__(self) -> None:
        self._bias = np.empty((0, 0, 8), np.float32)
        self._sum = torch.empty(0, 0)

    def apply(self, logits: Tensor, words: Bits) -> Tensor:
        """Mask ``logits (rows, width)`` by ``words (rows, words)``, a bit for each token."""
        bits, (rows, width) = words.view(np.uint8), logits.shape
        if len(self._bias) < rows:
            self._bias = np.empty((rows, bits.shape[1], 8), np.float32)
        # A byte at a time: a mask of single tokens took many times as long. No byte needs clipping, but
        # other modes copy.
        np.take(_OF_BYTES, bits, axis=0, out=self._bias[:rows], mode="clip")
        bias = torch.from_numpy(self._bias[:rows].reshape(rows, -1))[:, :width]
        if logits.device.type != "cpu" or logits.dtype is not torch.float32:
            return logits + bias.to(logits.device)
        if len(self._sum) < rows or self._sum.shape[1] != width:
            self._sum = torch.empty(rows, width)
        return torch.add(logits, bias, out=self._sum[:rows])


class ConstrainedProposer(Proposer):
    """Truncates a proposer's drafts by a grammar, which drafts if ``Budget.proposer`` names it."""

    @dataclass(frozen=True, slots=True)
    class Options:
        """There are none."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, inner: Proposer, constraint: Constraint) -> None:
        self.inner, self.constraint = inner, constraint
        # The inner proposer's nodes that are left; forced ones follow.
        self._kept: tuple[int, ...] = ()
        self._tokens: tuple[int, ...] = ()

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.inner.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[int]:
        return self.inner.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        if budget.proposer == GRAMMAR:
            # With an empty budget the inner proposer drafts nothing but reads the text.
            self.inner.propose(context, _NO_DRAFT)
            tokens = self.constraint.forced()[: budget.depth]
            chosen_q = (None,) * len(tokens)
            proposal, self._kept = DraftProposal(Tree.chain(tokens), None, chosen_q, GRAMMAR), ()
        else:
            drafted = self.inner.propose(context, budget)
            proposal, self._kept = self.constraint.truncate(drafted, budget.depth)
        self._tokens = proposal.tree.tokens
        return proposal

    def observe(self, acceptance: Acceptance) -> None:
        """Report only its own nodes to the inner proposer; a forced token counts as the target's."""
        own = sum(node < len(self._kept) for node in acceptance.path)
        if own < len(acceptance.path):
            acceptance = replace(acceptance, next_token=self._tokens[acceptance.path[own]])
        path = tuple(self._kept[node] for node in acceptance.path[:own])
        self.inner.observe(replace(acceptance, path=path))

    def close(self) -> None:
        self.inner.close()


class ForcingController:
    """Lets the grammar draft forced tokens, which are always accepted and cost nothing.

    The inner controller does not see these rounds: they would raise its acceptance rate.
    """

    def __init__(self, inner: Controller, constraint: Constraint, deepest: int) -> None:
        self.inner, self.constraint, self.deepest = inner, constraint, deepest

    def budget(self) -> Budget:
        forced = min(len(self.constraint.forced()), self.deepest)
        if forced >= _WORTH:
            return Budget(forced, forced, proposer=GRAMMAR)
        return self.inner.budget()

    def observe(self, round: Round) -> None:
        if round.proposer == GRAMMAR:
            self.inner.skip_round()
        else:
            self.inner.observe(round)

    def skip_round(self) -> None:
        self.inner.skip_round()


@functools.cache
def _mask_thread() -> ThreadPoolExecutor:
    """Return the pool of one thread that all requests share; they run one at a time."""
    return ThreadPoolExecutor(1, "masks")


def _branches(
    proposal: DraftProposal, matcher: Matcher | ThinkingMatcher
) -> tuple[DraftProposal, tuple[int, ...]]:
    """Return a tree without its forbidden nodes, and the remaining nodes."""
    tree = proposal.tree
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    places = {-1: -1}
    for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        if parent in paths and matcher.allows(paths[parent], token):
            paths[node], places[node] = (*paths[parent], token), len(places) - 1
    kept = tuple(node for node in range(len(tree)) if node in paths)
    truncated = replace(
        proposal,
        tree=Tree(
            tuple(tree.tokens[node] for node in kept),
            tuple(places[tree.parents[node]] for node in kept),
        ),
        q=None,  # no rule weighs branches
        chosen_q=tuple(proposal.chosen_q[node] for node in kept),
    )
    return truncated, kept
