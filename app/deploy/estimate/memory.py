"""The memory that one GPU of a layout needs, and whether it has it.

This is an upper bound: all users have their whole context at once, and the stage with most layers also
has both the embedding and the output head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.deploy.estimate import assumptions
from app.deploy.estimate.network import Drafter, Network
from app.deploy.gpus import GpuKind, Gpus
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Layout:
    """``replicas`` copies, each with tensor and pipeline parallelism. ``expert``: whole experts lie on
    so many GPUs, instead of a part of each on all. ``attention``: so many groups of GPUs attend for
    their own sequences each."""

    tensor: int
    pipeline: int
    replicas: int
    expert: int = 1
    attention: int = 1

    @property
    def copy(self) -> int:
        return self.tensor * self.pipeline

    @property
    def gpus(self) -> int:
        return self.copy * self.replicas

    def users(self, users: int) -> int:
        """Return the most users of one copy."""
        return -(-users // self.replicas)

    def nodes(self, node: int) -> int:
        """Return the nodes, of ``node`` GPUs each, of one copy."""
        return -(-self.copy // node)


def layouts(
    target: ModelFacts, gpus: Gpus, users: int, pipelines: bool, attends_apart: bool = False
) -> Iterator[Layout]:
    """Yield every layout, with no more copies than users. Tensor parallelism is a power of two that
    divides the attention heads, as engines need it; ``pipelines``: allow stages; ``attends_apart``: allow
    data-parallel attention, which latent attention needs to divide its cache."""
    tensor, node = 1, gpus.kind.node
    while tensor <= gpus.count and target.heads % tensor == 0:
        pipeline = 1
        while tensor * pipeline <= gpus.count and pipeline <= target.layers:
            copies = min(gpus.count // (tensor * pipeline), users)
            in_nodes = node % tensor == 0 or tensor % node == 0
            if in_nodes and (pipelines or pipeline == 1):
                yield from _ways(target, tensor, pipeline, copies)
                if attends_apart and pipeline == 1 and 1 < tensor <= users // copies:
                    yield Layout(tensor, 1, copies, tensor, tensor)
            pipeline *= 2
        tensor *= 2


def _ways(target: ModelFacts, tensor: int, pipeline: int, copies: int) -> Iterator[Layout]:
    """Yield the layout with a part of each expert on every GPU, or, where those are no whole blocks of an
    FP8 scale, with whole experts; none if parts of other layers are no whole blocks."""
    block, layer = target.block, target.last_layer
    if not block or tensor == 1:
        yield Layout(tensor, pipeline, copies)
        return
    if any(width % (block * tensor) for width in target.widths):
        return
    if not layer.experts or target.expert_width % (block * tensor) == 0:
        yield Layout(tensor, pipeline, copies)
    elif layer.experts % tensor == 0:
        yield Layout(tensor, pipeline, copies, tensor)


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
