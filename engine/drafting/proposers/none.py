"""``none``: drafts nothing. Plain decoding is the same loop with an empty tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from engine.decoding.acceptance import Acceptance
from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal, InRound
from engine.decoding.sampling import Sampler
from engine.drafting.resources import Resources
from engine.events import Budget


class NoneProposer:
    """Every token is the target's own."""

    @dataclass(frozen=True, slots=True)
    class Options:
        """Nothing to choose."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Options, resources: Resources) -> None: ...

    def begin(self, context: Context, sampler: Sampler) -> None: ...

    def prepare(self, context: Context) -> Iterator[None]:
        return iter(())

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        return NOTHING

    def in_round(self) -> InRound:
        return InRound()

    def observe(self, acceptance: Acceptance) -> None: ...

    def close(self) -> None: ...
