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
    """Bytes on the fullest GPU. ``sequence``: the KV cache of one of its ``users``, who are those of
    one of ``groups`` in a copy. ``logits``: those of ``work`` that each user of a copy adds. ``total``:
    of the GPU, of which ``available`` may be used.
    """

    weights: int
    drafter: int
    sequence: int
    users: int
    work: int
    logits: int
    total: int
    groups: int = 1

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
        """Users of a copy whose whole context fits; 0 if not even the weights do."""
        left = self.available - self.needed
        each = self.sequence + self.groups * self.logits
        return max(0, (self.users + left // each) * self.groups) if each else 0


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
    experts = network.experts * network.expert * network.expert_layers
    rest = network.total_weights - network.embeddings - experts
    # A state for each row of a round: engines keep as many, to go back to what was accepted (vLLM's
    # MambaSpec, num_speculative_blocks).
    parts = layout.tensor // layout.attention
    sequence = _cache(network, parts, context, kv_width, depth + 1) * stage
    drafter_bytes = 0.0
    if drafter.network is not None:
        own = layout.tensor if drafter.split else 1
        drafter_bytes = drafter.network.total_weights / own
        sequence += _cache(drafter.network, own // layout.attention or 1, context, kv_width, 1)
    weights = (experts / layout.tensor + rest / parts) * stage + network.embeddings / layout.tensor
    here = -(-users // layout.attention)
    logits = (depth + 1) * target.vocabulary * LOGIT_BYTES
    return Memory(
        weights=int(weights),
        drafter=int(drafter_bytes),
        sequence=int(sequence),
        users=here,
        groups=layout.attention,
        work=_work(target, layout.tensor) + here * layout.attention * logits,
        logits=logits,
        total=gpu.memory,
    )


def _cache(network: Network, parts: int, context: int, kv_width: float, states: int) -> float:
    return network.cache_bytes(context, kv_width, states) / min(parts, network.shards)


def _work(target: ModelFacts, parts: int) -> int:
    """Return the bytes of CUDA's own buffers and of a step's widest activations."""
    widest = 4 * target.hidden + 2 * target.intermediate // parts
    return assumptions.WORKSPACE_BYTES + assumptions.BATCHED_TOKENS * widest * 2
