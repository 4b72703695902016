"""What proposers share: their base, deterministic drafts, and chains sampled from logits with their q."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from engine.backends.operations import Draft
from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DeviceDrafting, DraftProposal
from engine.decoding.sampling import Sampler
from engine.events import Budget, Tree
from engine.models.rounds import RoundDrafter
from engine.noise import Draws, Stream, place_in_draft


class BaseProposer:
    """A proposer that needs and prefills nothing, learns nothing from acceptance and holds no memory."""

    @dataclass(frozen=True, slots=True)
    class NoOptions:
        """No options."""

    Options: ClassVar[type] = NoOptions
    needs: ClassVar[frozenset[str]] = frozenset()
    sampler: Sampler

    def begin(self, context: Context, sampler: Sampler) -> None:
        self.sampler = sampler

    def prepare(self, context: Context) -> Iterator[int]:
        return iter(())

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...


class HeadProposer(BaseProposer, ABC):
    """A head's proposer, which is also its ``RoundDraft`` where ``drafts`` may run inside rounds.

    ``text``: the content keys of the tokens that it has read, if it keeps anything of them.
    """

    drafts: Any
    text: list[int]

    def device_drafting(self) -> DeviceDrafting | None:
        return None if self.drafts.drafter is None else DeviceDrafting(self)

    @property
    def drafter(self) -> RoundDrafter:
        """See ``RoundDraft``."""
        drafter: RoundDrafter = self.drafts.drafter
        return drafter

    @property
    def tokens(self) -> Sequence[int]:
        """See ``RoundDraft``."""
        return self.text

    def is_ready(self, context: Context) -> bool:
        """Return False: what it read of a text's last token is not kept."""
        return False

    @abstractmethod
    def read_text(self, context: Context) -> None:
        """See ``RoundDraft``."""

    def set_tokens(self, keys: Sequence[int]) -> None:
        """See ``RoundDraft``."""
        self.text[:] = keys


def option(default: Any, help: str, **limits: Any) -> Any:
    """Return a field of Options. ``limits``: ``range`` or ``choices``, see ``Proposer``."""
    return field(default=default, metadata={"help": help, **limits})


def deterministic(tokens: tuple[int, ...] | list[int], by: str | None = None) -> DraftProposal:
    """Return a chain without q; ``by`` names the proposer if there are tokens."""
    if not tokens:
        return NOTHING
    return DraftProposal(Tree.chain(tokens), None, (None,) * len(tokens), by)


def stream_of(sampler: Sampler) -> Stream:
    """Return the noise stream that drafts are drawn with.

    Under ``coupled`` it is the target's, so that both tend to choose alike. ``rejection`` and ``block``
    need draws that are independent of the target's.
    """
    return Stream.DRAFT if sampler.rule.weighs_q else Stream.CHOICE


def draws_of(sampler: Sampler, position: int, depth: int) -> Draws | None:
    """Return the draws of ``depth`` tokens from ``position`` on; None if each is the argmax."""
    return sampler.draws(places_of(sampler, position, range(depth)), stream_of(sampler))


def places_of(sampler: Sampler, position: int, indices: Iterable[int]) -> list[int]:
    """Return the places of the noise for tokens of a draft from ``position`` on."""
    if sampler.rule.weighs_q:
        return [place_in_draft(position, index) for index in indices]
    return [position + index for index in indices]


class Floors(NamedTuple):
    """Minimum joint probabilities of a draft's tokens, as in ``Budget``."""

    floor: float = 0.0
    row_floor: float = 0.0

    def ended(self, probabilities: Iterable[float]) -> bool:
        """Return whether tokens with these probabilities end the draft."""
        return any(joint < self.floor for joint in accumulate(probabilities, mul))

    def count(self, probabilities: Iterable[float]) -> int:
        """Return how many tokens, up to the one that ends the draft, are worth a row of verification.

        NaN is worth one.
        """
        count = 0
        for joint in accumulate(probabilities, mul):
            if joint < self.row_floor:
                break
            count += 1
            if joint < self.floor:
                break
        return count


def floors_of(sampler: Sampler, budget: Budget) -> Floors:
    """Return the floors of a round. Rules that weigh q have none: see ``Chain``."""
    return Floors() if sampler.rule.weighs_q else Floors(budget.floor, budget.row_floor)


class Chain:
    """Samples a chain of tokens from ``position`` on, as far as ``floors`` allow.

    A row's logits may depend on tokens drawn before it, but not on later ones, and no drawn token may
    decide whether it is drafted. Otherwise ``rejection`` and ``block`` would not preserve the target's
    distribution.
    """

    def __init__(self, sampler: Sampler, position: int, floors: Floors) -> None:
        self._sampler, self._position, self._stream = sampler, position, stream_of(sampler)
        self._floors = floors
        self.tokens: list[int] = []
        self._probabilities: list[float] = []  # of each token
        self._q: list[Tensor] = []

    @property
    def ended(self) -> bool:
        """Whether the floors end the draft here."""
        return self._floors.ended(self._probabilities)

    def draw(self, logits: Tensor) -> int:
        """Sample the next token from ``logits (1, vocabulary of the draft)``."""
        self._draw(logits)
        return self.tokens[-1]

    def draw_all(self, logits: Tensor) -> None:
        """Sample a token from each row of ``logits``; the rows do not depend on one another."""
        # With a penalty or a grammar a row does depend on the tokens before it.
        for rows in logits.split(1 if self._sampler.uses_context else len(logits)):
            self._draw(rows)

    def _draw(self, logits: Tensor) -> None:
        first = len(self.tokens)
        indices = range(first, first + len(logits))
        positions = places_of(self._sampler, self._position, indices)
        sampled = self._sampler.sample_raw(logits, positions, self._stream)
        if sampled is not None:
            self.tokens += sampled.tokens
            self._probabilities += sampled.probabilities(enumerate(sampled.tokens))
            return
        adjusted = self._sampler.adjusted(logits, [self.tokens] * len(logits))
        p = self._sampler.probabilities(adjusted)
        tokens = self._sampler.choose(adjusted, p, positions, self._stream)
        self.tokens += tokens
        self._probabilities += p[range(len(tokens)), tokens].tolist()
        self._q.append(p)

    def proposal(self) -> DraftProposal:
        """Return the tokens above the floors, with q where it was computed."""
        q = torch.cat(self._q) if self._q else None  # (nodes, vocabulary)
        return above_floors(self.tokens, self._probabilities, self._floors, q)


def above_floors(
    tokens: list[int], probabilities: list[float], floors: Floors, q: Tensor | None = None
) -> DraftProposal:
    """Return a proposal of the first tokens, as many as ``floors`` allow."""
    count = floors.count(probabilities)
    if not count:
        return NOTHING
    q = None if q is None else q[:count]
    return DraftProposal(Tree.chain(tokens[:count]), q, tuple(probabilities[:count]))


def executor_samples(draft: Draft, sampler: Sampler) -> bool:
    """Return whether the head's executor may sample the tokens itself."""
    return sampler.samples_raw and (draft.draws or sampler.takes_argmax)


def draft_chain(
    draft: Draft,
    sampler: Sampler,
    position: int,
    depth: int,
    floors: Floors,
    on_target: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> DraftProposal:
    """Return a chain that a head drafts from ``position`` on, as far as ``floors`` allow.

    ``on_target`` maps the head's logits to the target's vocabulary.
    """
    if executor_samples(draft, sampler):
        draws = draws_of(sampler, position, depth)
        return above_floors(*draft.write(depth, draws, floors.floor), floors)
    chain = Chain(sampler, position, floors)
    for step in range(depth):
        draft.chain[step + 1] = chain.draw(on_target(draft.logits(step)))
        if chain.ended:
            break
    return chain.proposal()
