"""A plan: all decisions for a request, ready to be rendered."""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate.layout import Layout
from app.deploy.estimate.memory import Memory
from app.deploy.estimate.speed import Estimate, Setup
from app.deploy.methods import NONE, TRTLLM, VLLM, Method
from app.deploy.model import ModelFacts
from app.deploy.request import PlanRequest
from app.deploy.targets import Service

SCHEDULED = ("eagle", "eagle3", "dflash")
"""Methods that vLLM's dynamic speculative decoding was tested with."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``target``: the checkpoint to load, in its format; ``quantised_online``: the engine converts it to
    that format while loading. ``draft``: the name of the drafter, None where the method needs none.

    ``schedule``: ranges of users of one copy (first, last, depth), each with its fastest depth.
    ``service``: what is reached of the targets, if there are any.
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
    service: Service | None = None

    @property
    def method(self) -> Method:
        return self.request.of_method

    @property
    def drafts(self) -> bool:
        return self.request.method != NONE

    @property
    def depth(self) -> int:
        return self.setup.depth

    @property
    def sequences(self) -> int:
        """Users of one copy, at most; of a rate, those of a burst."""
        if self.request.by_rate:
            return self.memory.users * self.memory.groups
        return self.layout.users(self.request.users)

    @property
    def nodes(self) -> int:
        """Nodes of one copy."""
        return self.layout.nodes(self.request.gpus.kind.node)

    @property
    def idle(self) -> int:
        """GPUs that are not used."""
        return self.request.gpus.count - self.layout.gpus

    @property
    def copies_per_start(self) -> int:
        """Copies that one run of the script starts."""
        if self.nodes > 1:
            return 1
        on_a_node = max(1, self.request.gpus.kind.node // self.layout.copy)
        return min(self.layout.replicas, on_a_node)

    @property
    def starts(self) -> int:
        """How many times the script is run, on other nodes each time."""
        return -(-self.layout.replicas // self.copies_per_start)

    @property
    def started_by_rank(self) -> bool:
        """True if one copy runs on several nodes and is started on each; MPI starts all at once."""
        return self.nodes > 1 and self.request.computes != TRTLLM

    @property
    def scheduled(self) -> bool:
        """True if the best depth depends on the load, and vLLM can follow it with this method."""
        return self.request.method in SCHEDULED and len(self.schedule) > 1 and self.has_ground

    @property
    def data_parallel(self) -> int:
        """Copies that one server has; each of Dynamo's workers is one."""
        return self.copies_per_start if self.request.engine == VLLM else 1

    @property
    def has_ground(self) -> bool:
        """Whether speeds were held to published runs on such GPUs, or to this server itself."""
        return self.request.gpus.kind.runs or self.request.measured is not None

    @property
    def adapts(self) -> bool:
        """Whether vLLM is told to follow the load with the depth, which it cannot for several copies."""
        return self.request.computes == VLLM and self.scheduled and self.data_parallel == 1

    @property
    def drafts_up_to(self) -> int | None:
        """Users of one copy up to which drafting is faster; None if always, or not known."""
        stops = self.estimate.stops_at if self.has_ground else None
        return stops - 1 if self.drafts and stops is not None else None
