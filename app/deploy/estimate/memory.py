"""The memory that one GPU of a layout needs, and whether it has it.

This is an upper bound: all users have their whole context at once, and the stage with most layers also
has both the embedding and the output head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.deploy.estimate import assumptions
from app.deploy.estimate.network import Layout, Network
from app.deploy.estimate.speed import Setup
from app.deploy.gpus import Gpus
from app.deploy.model import ModelFacts


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
            copies, here = gpus.count // (tensor * pipeline), node // (tensor * pipeline)
            if 0 < here < copies:
                copies -= copies % here  # a start is of a whole node
            copies = min(copies, users)
            in_nodes = node % tensor == 0 or tensor % node == 0
            if in_nodes and (pipelines or pipeline == 1):
                if expert := _whole_experts(target, tensor):
                    yield Layout(tensor, pipeline, copies, expert)
                if attends_apart and pipeline == 1 and 1 < tensor <= users // copies:
                    yield Layout(tensor, 1, copies, tensor, tensor)
            pipeline *= 2
        tensor *= 2


def _whole_experts(target: ModelFacts, tensor: int) -> int:
    """Return on how many GPUs whole experts lie: 1 with a part of each expert on every GPU, ``tensor``
    where such parts are no whole blocks of an FP8 scale, 0 if those of other layers are none either."""
    block, experts = target.block * tensor, target.last_layer.experts
    if not block or tensor == 1:
        return 1
    if any(width % block for width in target.widths):
        return 0
    if not experts or target.expert_width % block == 0:
        return 1
    return tensor if experts % tensor == 0 else 0


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


def memory_of(setup: Setup, target: ModelFacts, users: int) -> Memory:
    """Return the memory on each GPU if ``users`` share a copy of ``target``, whose ``setup`` it is."""
    network, drafter, layout = setup.network, setup.drafter, setup.layout
    tensor, groups, rows = layout.tensor, layout.attention, setup.depth + 1
    stage = -(-target.layers // layout.pipeline) / target.layers
    parts = tensor // groups
    # A state for each row of a round: engines keep as many, to go back to what was accepted (vLLM's
    # MambaSpec, num_speculative_blocks).
    sequence = _cache(setup, network, parts, rows) * stage
    own = tensor if drafter.split else 1
    if drafter.network is not None:
        sequence += _cache(setup, drafter.network, own // groups or 1, 1)
    weights = (network.expert_bytes() / tensor + network.fixed / parts) * stage
    here = -(-users // groups)
    logits = rows * target.vocabulary * LOGIT_BYTES
    # A step's widest activations, beside CUDA's own buffers.
    widest = 2 * (4 * target.hidden + 2 * target.intermediate // tensor)
    work = assumptions.WORKSPACE_BYTES + assumptions.BATCHED_TOKENS * widest
    return Memory(
        weights=int(weights + network.embeddings / tensor),
        drafter=int(drafter.weights / own),
        sequence=int(sequence),
        users=here,
        groups=groups,
        work=work + here * groups * logits,
        logits=logits,
        total=setup.gpu.memory,
    )


def _cache(setup: Setup, network: Network, parts: int, states: int) -> float:
    """Return the bytes of a sequence on one of ``parts``."""
    cache = network.cache
    return cache.bytes(setup.context, setup.kv_width, states) / min(parts, cache.shards)
