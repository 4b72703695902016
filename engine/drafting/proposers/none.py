"""``none``: plain decoding, which is the loop with an empty tree."""

from __future__ import annotations

from engine.decoding.context import Context
from engine.decoding.proposer import NOTHING, DeviceDrafting, DraftProposal
from engine.drafting.proposers.drawing import BaseProposer
from engine.drafting.resources import Resources
from engine.events import Budget


class NoneProposer(BaseProposer):
    """Drafts nothing."""

    def __init__(self, options: object, resources: Resources) -> None: ...

    def propose(self, context: Context, budget: Budget) -> DraftProposal:
        return NOTHING

    def device_drafting(self) -> DeviceDrafting:
        return DeviceDrafting()
