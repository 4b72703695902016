"""``none``: plain decoding, which is the loop with an empty tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DraftProposal, InRound
from engine.drafting.proposers.drawing import BaseProposer
from engine.drafting.resources import Resources
from engine.events import Budget


class NoneProposer(BaseProposer):
    """Drafts nothing."""

    @dataclass(frozen=True, slots=True)
    class Options:
        """No options."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Options, resources: Resources) -> None: ...

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        return NOTHING

    def in_round(self) -> InRound:
        return InRound()
