"""``draft``: a small model with the target's vocabulary writes ahead, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.acceptance import Acceptance
from engine.context import Context
from engine.events import Budget, Tree
from engine.models.base import GreedyModel
from engine.models.cuda.cache import DeviceCache
from engine.prefix import common_prefix, parts
from engine.proposers.base import DRAFT, NOTHING, DraftProposal, Resources
from engine.proposers.drawing import Chain
from engine.sampling import Sampler


class DraftModelProposer:
    """Keeps the draft's own KV cache, which catches up with the text before each draft."""

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose: the draft comes with the loaded pair."""

    needs: ClassVar[frozenset[str]] = frozenset({DRAFT})

    def __init__(self, options: Options, resources: Resources) -> None:
        assert resources.draft is not None
        self.model = resources.draft
        self.cache = self.model.new_cache(self.model.info.context)
        self.tokens: list[int] = []  # what the cache holds
        self._known = 0  # how many of them were text, not draft, in the last proposal

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler
        self._crop(common_prefix(self.tokens, context.tokens[:-1]))

    def prepare(self, context: Context) -> Iterator[None]:
        if len(context.tokens) >= self.model.info.context:
            return  # nothing will be drafted
        for part in parts(context.tokens[len(self.tokens) : -1]):
            yield
            self._forward(part, last=0)

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        known = self._known = len(context.tokens)
        depth = min(budget.depth, self.model.info.context - known)
        if depth < 1:
            return NOTHING
        if self.sampler.takes_likeliest and isinstance(self.model, GreedyModel):
            return self._continued(self.model, context.tokens[len(self.tokens) :], depth)
        chain = Chain(self.sampler, known)
        token = chain.draw(self._forward(context.tokens[len(self.tokens) :]))
        while len(chain.tokens) < depth:
            token = chain.draw(self._forward([token]))
        return chain.proposal()

    def observe(self, acceptance: Acceptance) -> None:
        # The last drafted token was never fed to the draft; what was fed and then rejected goes.
        self._crop(min(len(self.tokens), self._known + len(acceptance.path)))

    def adopt(self, tokens: Sequence[int]) -> None:
        """Takes over what rounds on the device have left in the cache, which is a ``DeviceCache``."""
        assert isinstance(self.cache, DeviceCache)
        self.tokens = list(tokens)
        self.cache.settle(len(self.tokens))

    def close(self) -> None:
        self.tokens.clear()

    def _continued(self, model: GreedyModel, new: Sequence[int], depth: int) -> DraftProposal:
        """What ``propose`` drafts where nothing is drawn and nothing penalised, in one call."""
        drafted, likely = model.continue_greedily(
            self._known_to_draft(new), self.cache, depth, self.sampler.vocabulary
        )
        self.tokens += [*new, *drafted[:-1]]
        return DraftProposal(Tree.chain(drafted), None, tuple(likely))

    def _forward(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        """Feeds ``tokens``; returns the ``last`` ones' logits (last, vocabulary of the draft)."""
        logits = self.model.forward(self._known_to_draft(tokens), self.cache, last=last)
        self.tokens.extend(tokens)
        return logits

    def _known_to_draft(self, tokens: Sequence[int]) -> list[int]:
        """The target may have a few rows more (padding, reserved tokens); the draft is fed token 0
        in place of one it lacks, which can only make its guess worse."""
        rows = self.model.info.vocabulary
        return [token if token < rows else 0 for token in tokens]

    def _crop(self, length: int) -> None:
        self.cache.crop(length)
        del self.tokens[length:]
