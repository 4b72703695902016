"""A grammar beside the text of one request: logits masked, drafts cut, and drafts of its own.

The mask belongs to the target's distribution, like a penalty: every row of a verification is masked by
what may follow the text and that row's own drafted tokens, before temperature and truncation. So the
words are those that the masked target writes alone, whatever was drafted and by whatever rule.
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
from engine.events import Budget, Round, Tree
from engine.grammar.matcher import Bits, Matcher

GRAMMAR = "grammar"
"""By what name rounds go in which the grammar drafted."""
_WORTH = 2
"""Forced tokens from which the grammar drafts: a single one a model mostly knows, and drafts more."""
_LOOKING_ON = Budget(0, 0)
_BITS = np.arange(256)[:, None] >> np.arange(8) & 1
_OF_BYTES = np.where(_BITS, np.float32(0), np.float32(-np.inf))
"""(256, 8): what is added to the logits of eight tokens, by a byte of a mask."""


class Constraint:
    """What may follow ``context`` by its grammar, read on as the text grows."""

    def __init__(self, matcher: Matcher, context: Context) -> None:
        self._matcher, self._context = matcher, context
        self._ahead: Future[object] | None = None
        self._added = _Bias()

    def precompute(self, drafted: Sequence[Sequence[int]]) -> None:
        """Begins to find out what may follow, while somebody computes the logits behind ``drafted``."""
        matcher = self._current()
        self._ahead = _beside().submit(lambda: [matcher.mask(path) for path in drafted])

    def masked(self, logits: Tensor, drafted: Sequence[Sequence[int]]) -> Tensor:
        """-inf for tokens that may not follow; ``drafted[row]`` stand between the text and a row's token.

        What is returned stands until the next call. A row is left as it is behind tokens that end the
        text or may not stand, where nobody gets, and where nothing would be left: a draft may know none
        of the tokens.
        """
        matcher = self._current()
        masks = [matcher.mask(path) for path in drafted]
        known = next((mask for mask in masks if mask is not None), None)
        if known is None:
            return logits
        anything = np.full_like(known, -1)
        words = np.stack([anything if mask is None else mask for mask in masks])
        masked = self._added.to(logits, words)
        empty = masked.amax(-1, keepdim=True) == float("-inf")
        return torch.where(empty, logits, masked) if bool(empty.any()) else masked

    def bits(self, drafted: Sequence[Sequence[int]]) -> Tensor:
        """``masked`` as bits, for rounds on a device: int32 (rows, words); see ``Bits``."""
        matcher = self._current()
        masks: list[Bits | None] = [matcher.mask(path) for path in drafted]
        known = next((mask for mask in masks if mask is not None), None)
        assert known is not None, "the text has ended"
        anything = np.full_like(known, -1)
        return torch.from_numpy(np.stack([anything if mask is None else mask for mask in masks]))

    def allows(self, drafted: Sequence[int], token: int) -> bool:
        """Whether ``token`` may follow the text and ``drafted``; behind an end nobody reads it."""
        matcher = self._current()
        return matcher.ends(drafted) or matcher.allows(drafted, token)

    def forced(self, drafted: Sequence[int] = ()) -> list[int]:
        """The tokens that alone may follow, one after the other; often none."""
        return self._current().forced(drafted)

    def cut(self, proposal: DraftProposal, depth: int) -> tuple[DraftProposal, tuple[int, ...]]:
        """``proposal`` without what may not stand, and without what would follow it; and which of its
        nodes are left, in their order.

        A drawn token that may not stand has to be rejected, or tokens that others were drawn for would
        come too often: it stays, as the last one. (Few are: what is drawn by a rule that weighs q is
        drawn from masked rows where the draft knows a token that may follow.) What was drafted without
        chance goes on with what is forced in its place, up to ``depth`` tokens.
        """
        matcher, tree = self._current(), proposal.tree
        if not tree.is_chain:
            return _branches(proposal, matcher)
        fits = matcher.count_fitting(tree.tokens)
        if fits == len(tree) > 0:
            return proposal, tuple(range(fits))
        more: list[int] = []
        if proposal.q is None:
            more = matcher.forced(tree.tokens[:fits])[: depth - fits]
        elif not matcher.ends(tree.tokens[:fits]):
            fits += 1
        cut = replace(
            proposal,
            tree=Tree.chain([*tree.tokens[:fits], *more]),
            q=None if proposal.q is None else proposal.q[:fits],
            chosen_q=proposal.chosen_q[:fits] + (None,) * len(more),
            by=proposal.by if fits or not more else GRAMMAR,
        )
        return cut, tuple(range(fits))

    def _current(self) -> Matcher:
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            ahead.result()
        start = self._context.prompt_length + self._matcher.read
        if start < len(self._context.tokens):
            self._matcher.consume(self._context.tokens[start:])
        return self._matcher


class _Bias:
    """Adds 0 to the logits of tokens that may follow, and -inf to the others; in memory of its own, since
    to be given megabytes by the system takes longer than to write them."""

    def __init__(self) -> None:
        self._bias = np.empty((0, 0, 8), np.float32)
        self._sum = torch.empty(0, 0)

    def to(self, logits: Tensor, words: Bits) -> Tensor:
        """``logits (rows, width)`` with ``words (rows, words)``, a bit for each token."""
        bits, (rows, width) = words.view(np.uint8), logits.shape
        if len(self._bias) < rows:
            self._bias = np.empty((rows, bits.shape[1], 8), np.float32)
        # A byte at a time: to fill by a mask of single tokens took many times as long. No byte needs
        # clipping, but other modes copy.
        np.take(_OF_BYTES, bits, axis=0, out=self._bias[:rows], mode="clip")
        bias = torch.from_numpy(self._bias[:rows].reshape(rows, -1))[:, :width]
        if logits.device.type != "cpu" or logits.dtype is not torch.float32:
            return logits + bias.to(logits.device)
        if len(self._sum) < rows or self._sum.shape[1] != width:
            self._sum = torch.empty(rows, width)
        return torch.add(logits, bias, out=self._sum[:rows])


class ConstrainedProposer(Proposer):
    """A proposer whose drafts fit a grammar, which drafts itself where ``Budget.proposer`` names it."""

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, inner: Proposer, constraint: Constraint) -> None:
        self.inner, self.constraint = inner, constraint
        self._kept: tuple[int, ...] = ()  # the other's nodes that are verified, before those added
        self._tokens: tuple[int, ...] = ()

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.inner.begin(context, sampler)

    def prepare(self, context: Context) -> Iterator[None]:
        return self.inner.prepare(context)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        if budget.proposer == GRAMMAR:
            # To the other this is a round in which it may draft nothing: it takes note of the text.
            self.inner.propose(context, _LOOKING_ON)
            tokens = self.constraint.forced()[: budget.depth]
            chosen_q = (None,) * len(tokens)
            proposal, self._kept = DraftProposal(Tree.chain(tokens), None, chosen_q, GRAMMAR), ()
        else:
            drafted = self.inner.propose(context, budget)
            proposal, self._kept = self.constraint.cut(drafted, budget.depth)
        self._tokens = proposal.tree.tokens
        return proposal

    def observe(self, acceptance: Acceptance) -> None:
        """The other hears of its own nodes alone; what was added behind them is the target's to it."""
        own = sum(node < len(self._kept) for node in acceptance.path)
        if own < len(acceptance.path):
            acceptance = replace(acceptance, next_token=self._tokens[acceptance.path[own]])
        path = tuple(self._kept[node] for node in acceptance.path[:own])
        self.inner.observe(replace(acceptance, path=path))

    def close(self) -> None:
        self.inner.close()


class ForcingController:
    """A controller that has the grammar draft what is forced, which is sure to stand and costs nothing.

    The other decides and learns of all other rounds: it would take the proposer for surer than it is.
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
            self.inner.sit_out()
        else:
            self.inner.observe(round)

    def sit_out(self) -> None:
        self.inner.sit_out()


@functools.cache
def _beside() -> ThreadPoolExecutor:
    """One thread for all: requests run one after the other."""
    return ThreadPoolExecutor(1, "masks")


def _branches(proposal: DraftProposal, matcher: Matcher) -> tuple[DraftProposal, tuple[int, ...]]:
    """The nodes of a tree that may stand."""
    tree = proposal.tree
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    places = {-1: -1}
    for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        if parent in paths and matcher.allows(paths[parent], token):
            paths[node], places[node] = (*paths[parent], token), len(places) - 1
    kept = tuple(node for node in range(len(tree)) if node in paths)
    cut = replace(
        proposal,
        tree=Tree(
            tuple(tree.tokens[node] for node in kept),
            tuple(places[tree.parents[node]] for node in kept),
        ),
        q=None,  # no rule weighs branches
        chosen_q=tuple(proposal.chosen_q[node] for node in kept),
    )
    return cut, kept
