"""The memory that one GPU of a layout needs, and whether it has it.

This is an upper bound: all users have their whole context at once, and the stage with most layers also
has both the embedding and the output head.
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
    """Bytes on the fullest GPU. ``sequence``: the KV cache of one of its ``users``.

    ``total``: of the GPU, of which ``available`` may be used.
    """

    weights: int
    drafter: int
    sequence: int
    users: int
    work: int
    total: int

    @property
    def cache(self) -> int:
        """The KV cache of all users."""
        return self.sequence * self.users

    @property
    def needed(self) -> int:
        return self.weights + self.drafter + self.cache + self.work

    @property
    def available(self) -> int:
        """What an engine may use."""
        return int(self.total * assumptions.MEMORY_SHARE)

    @property
    def fits(self) -> bool:
        return self.needed <= self.available

    @property
    def most_users(self) -> int:
        """Users whose whole context fits; 0 if not even the weights do."""
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
    """Return the memory on each GPU if ``users`` share a copy of ``network``, which is ``target``'s."""
    stage = -(-target.layers // layout.pipeline) / target.layers
    layers = (network.total_weights - network.embeddings) * stage
    sequence = _cache(network, layout.tensor, context, kv_width) * stage
    drafter_bytes = 0.0
    if drafter.network is not None:
        parts = layout.tensor if drafter.split else 1
        drafter_bytes = drafter.network.total_weights / parts
        sequence += _cache(drafter.network, parts, context, kv_width)
    return Memory(
        weights=int((layers + network.embeddings) / layout.tensor),
        drafter=int(drafter_bytes),
        sequence=int(sequence),
        users=users,
        work=_work(target, layout.tensor, users * (depth + 1)),
        total=gpu.memory,
    )


def _cache(network: Network, parts: int, context: int, kv_width: float) -> float:
    return network.cache_numbers(context) * kv_width / min(parts, network.shards)


def _work(target: ModelFacts, parts: int, rows: int) -> int:
    """Return the bytes of CUDA's own buffers, a step's widest activations, and the logits of ``rows``."""
    widest = 4 * target.hidden + 2 * target.intermediate // parts
    activations = assumptions.BATCHED_TOKENS * widest * 2
    return assumptions.WORKSPACE_BYTES + activations + rows * target.vocabulary * LOGIT_BYTES
