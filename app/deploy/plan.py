"""A plan: everything that was decided for a request, ready to be rendered."""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate.layout import Layout
from app.deploy.estimate.memory import Memory
from app.deploy.estimate.speed import Estimate, Setup
from app.deploy.methods import NONE, Method
from app.deploy.model import ModelFacts
from app.deploy.request import PlanRequest


@dataclass(frozen=True, slots=True)
class Plan:
    """``target`` is the checkpoint to load, in its format; ``quantised_online``: the engine makes that
    format of it while loading. ``draft`` is the name of what drafts, None where the method needs none.

    ``schedule``: ranges of users of one copy (first, last, depth) and the depth that is fastest for them.
    """

    request: PlanRequest
    target: ModelFacts
    quantised_online: bool
    draft: str | None
    draft_model: ModelFacts | None
    layout: Layout
    memory: Memory
    setup: Setup
    estimate: Estimate
    schedule: tuple[tuple[int, int, int], ...]

    @property
    def method(self) -> Method:
        """How it drafts."""
        return self.request.of_method

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted."""
        return self.request.method != NONE

    @property
    def depth(self) -> int:
        """Tokens drafted in a round, at most."""
        return self.setup.depth

    @property
    def sequences(self) -> int:
        """Users of one copy."""
        return self.memory.users

    @property
    def nodes(self) -> int:
        """Machines that one copy lies on."""
        return self.layout.nodes(self.request.gpus.kind.node)

    @property
    def idle(self) -> int:
        """GPUs that nothing runs on."""
        return self.request.gpus.count - self.layout.gpus

    @property
    def drafts_up_to(self) -> int | None:
        """Users of one copy up to which drafts pay; None where they always do."""
        stops = self.estimate.stops_at
        return stops - 1 if self.drafts and stops is not None else None
