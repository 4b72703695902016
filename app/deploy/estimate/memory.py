"""What one GPU of a layout has to hold, and whether it can.

Everything is counted as if all users had their whole context at once, and the stage with most layers also
had both tables: a plan that fits here has room in life.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.drafters import Drafter
from app.deploy.estimate import assumptions
from app.deploy.estimate.layout import Layout
from app.deploy.estimate.network import Network
from app.deploy.gpus import GpuKind
from app.deploy.model import ModelFacts

LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest GPU. ``sequence``: one user's cache there, of target and drafter.

    ``users``: that this GPU serves. ``total`` is the GPU's own, of which ``available`` may be used.
    """

    weights: int
    drafter: int
    sequence: int
    users: int
    work: int
    total: int

    @property
    def cache(self) -> int:
        """For everybody's tokens."""
        return self.sequence * self.users

    @property
    def needed(self) -> int:
        """All of it."""
        return self.weights + self.drafter + self.cache + self.work

    @property
    def available(self) -> int:
        """What an engine may use of the GPU."""
        return int(self.total * assumptions.MEMORY_SHARE)

    @property
    def fits(self) -> bool:
        """Whether there is room for all users."""
        return self.needed <= self.available

    @property
    def most_users(self) -> int:
        """Users whose whole context there is room for; 0 where not even the weights fit."""
        left = self.available - self.weights - self.drafter - self.work
        return max(0, left // self.sequence) if self.sequence else 0


def memory_of(
    target: ModelFacts,
    network: Network,
    drafter: Drafter,
    gpu: GpuKind,
    layout: Layout,
    *,
    users: int,
    context: int,
    kv_width: float,
    depth: int,
) -> Memory:
    """What each GPU holds where ``users`` share a copy of ``network``, which is ``target``'s."""
    stage = -(-target.layers // layout.pipeline) / target.layers
    layers = (network.held - network.embeddings) * stage
    sequence = _cache(network, layout.tensor, context, kv_width) * stage
    held = 0.0
    if drafter.network is not None:
        parts = layout.tensor if drafter.split else 1
        held = drafter.network.held / parts
        sequence += _cache(drafter.network, parts, context, kv_width)
    return Memory(
        weights=int((layers + network.embeddings) / layout.tensor),
        drafter=int(held),
        sequence=int(sequence),
        users=users,
        work=_work(target, layout.tensor, users * (depth + 1)),
        total=gpu.memory,
    )


def _cache(network: Network, parts: int, context: int, kv_width: float) -> float:
    return network.cache_numbers(context) * kv_width / min(parts, network.shards)


def _work(target: ModelFacts, parts: int, rows: int) -> int:
    """CUDA's own, the widest activations of a step, and logits for ``rows``."""
    widest = 4 * target.hidden + 2 * target.intermediate // parts
    activations = assumptions.BATCHED_TOKENS * widest * 2
    return assumptions.WORKSPACE_BYTES + activations + rows * target.vocabulary * LOGIT_BYTES
