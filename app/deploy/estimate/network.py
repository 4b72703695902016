"""Bytes, FLOP and seconds of a forward pass on GPUs.

A roofline (Williams et al. 2009): weights take the longer of reading and multiplying them, attention the
longer of reading the cache and its FLOP; each layer has a fixed time, and tensor parallelism adds two
all-reduces to it. Estimates, by the numbers in ``assumptions``.

Drafters are networks too. A head's size follows from its target's: published heads are one layer as wide
as the target (EAGLE-3, arXiv 2503.01840), a projection and an output table for each token ahead (Medusa,
arXiv 2401.10774), or a few layers over the target's own cache (Gemma 4's assistants). Where checkpoints
differ, a large one was chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from app.deploy.estimate import assumptions
from app.deploy.estimate.counting import Cache
from app.deploy.gpus import BF16, FORMATS, SIXTEEN_BITS, GpuKind, flops
from app.deploy.methods import Method, Needs
from app.deploy.model import ModelFacts
from engine.models.sizes.weight_counts import (
    DFLASH_LAYERS,
    LayerWeights,
    WeightCounts,
    head_weights,
)


@dataclass(frozen=True, slots=True)
class Network:
    """One network in the weight format ``weights``; ``borrowed``: weights of another's table that it
    multiplies with too. ``latent``: its attention is."""

    weights: str
    hidden: int
    counts: WeightCounts
    cache: Cache
    borrowed: int = 0
    latent: bool = False

    @property
    def layers(self) -> int:
        return sum(self.counts.layers.values())

    @property
    def expert_layers(self) -> int:
        return sum(count for layer, count in self.counts.layers.items() if layer.experts)

    @property
    def embeddings(self) -> float:
        """Bytes of embedding and output head."""
        return SIXTEEN_BITS * (self.counts.embedding + self.counts.head)

    @property
    def fixed(self) -> float:
        """Bytes that every pass reads, without tables."""
        form = FORMATS[self.weights]
        width = SIXTEEN_BITS if form.experts_only else form.width
        return (self.counts.fixed + self.counts.rest) * width

    @property
    def read(self) -> float:
        """Bytes that every pass reads, whatever experts its rows choose."""
        table = self.counts.head or self.counts.embedding
        return self.fixed + SIXTEEN_BITS * (table + self.borrowed)

    @property
    def total_weights(self) -> float:
        """Bytes of all weights."""
        return self.embeddings + self.fixed + self.expert_bytes()

    def expert_bytes(self, rows: float = math.inf) -> float:
        """Return the bytes of experts that a pass over ``rows`` reads, which choose evenly."""
        numbers = 0.0
        for layer, count in self.counts.layers.items():
            if layer.experts:
                unread = (1 - layer.chosen / layer.experts) ** rows
                numbers += count * layer.experts * layer.expert * (1 - unread)
        return numbers * FORMATS[self.weights].width


def of_model(facts: ModelFacts) -> Network:
    """Return the network of a model in its weight format."""
    latent = bool(facts.latent)
    return Network(facts.format, facts.hidden, facts.counts, facts.cache, latent=latent)


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


ALONE = Layout(1, 1, 1)


def moving(gpu: GpuKind, tensor: int, moved: float) -> float:
    """Return the seconds that links take for a ring all-reduce of ``moved`` bytes by ``tensor`` GPUs."""
    within = tensor <= gpu.reach
    link = gpu.link if within else min(gpu.link, assumptions.NETWORK_BANDWIDTH)
    return 2 * (tensor - 1) / tensor * moved / link


def all_reduce(gpu: GpuKind, tensor: int, moved: float) -> float:
    """Return the seconds of such an all-reduce with what starts it."""
    if tensor == 1:
        return 0.0
    floor = assumptions.NODES_ALL_REDUCE_SECONDS
    if tensor <= gpu.reach:
        fast = gpu.nvlink
        floor = assumptions.ALL_REDUCE_SECONDS if fast else assumptions.SLOW_ALL_REDUCE_SECONDS
    return floor + moving(gpu, tensor, moved)


def seconds(
    network: Network,
    gpu: GpuKind,
    layout: Layout,
    rows: int,
    sequences: int,
    context: int,
    kv_width: float,
) -> float:
    """Return the seconds of a pass over ``rows`` tokens of ``sequences`` with ``context`` tokens, on the
    GPUs of a stage."""
    tensor, groups, cache = layout.tensor, layout.attention, network.cache
    parts = tensor // groups  # of what all tokens use
    bandwidth = gpu.bandwidth * assumptions.BANDWIDTH_SHARE
    expert_bandwidth = gpu.bandwidth * assumptions.EXPERT_BANDWIDTH_SHARE
    here, rows_here = -(-sequences // groups), -(-rows // groups)
    every, chosen = row_seconds(network, gpu, tensor)
    matrices = max(network.read / parts / bandwidth, every * rows)
    experts = max(network.expert_bytes(rows) / tensor / expert_bandwidth, chosen * rows)
    reading = here * cache.bytes(context, kv_width) / min(parts, cache.shards) / bandwidth
    products = rows_here * cache.numbers(context) * cache.products / parts
    attention = max(reading, products / (gpu.fp16 * assumptions.COMPUTE_SHARE))
    joined = 2 * all_reduce(gpu, tensor, rows * network.hidden * SIXTEEN_BITS)
    latent = assumptions.LATENT_SECONDS if network.latent else 0.0
    fixed = network.layers * (assumptions.LAYER_SECONDS + joined + latent)
    return (
        matrices + experts + attention + fixed + network.expert_layers * assumptions.EXPERTS_SECONDS
    )


def row_seconds(network: Network, gpu: GpuKind, tensor: int) -> tuple[float, float]:
    """Return the seconds that a row's products take: those of all rows, and those with experts."""
    speed, counts = flops(gpu, network.weights) * tensor, network.counts
    every = counts.active + network.borrowed - counts.chosen
    return (
        2.0 * every / (speed * assumptions.COMPUTE_SHARE),
        2.0 * counts.chosen / (speed * assumptions.EXPERT_COMPUTE_SHARE),
    )


ASSISTANT_WEIGHTS, ASSISTANT_LAYERS = 500_000_000, 4
"""Of Gemma 4's assistant, which reads the target's keys and values; at most, as the 31B's has them."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """``network``: None if the method only looks up text. A round makes ``passes`` over ``rows`` tokens a
    sequence. ``split``: it is split over the target's GPUs. ``modules``: so many such layers are in
    memory, of which one is used."""

    network: Network | None
    passes: int
    rows: int = 1
    split: bool = True
    modules: int = 1

    @property
    def weights(self) -> float:
        """Bytes of its weights."""
        return self.modules * self.network.total_weights if self.network else 0.0


def drafter_for(
    method: Method, target: ModelFacts, beside: bool, draft: ModelFacts | None, depth: int
) -> Drafter:
    """Return what ``method`` drafts with; ``draft`` is the draft model, if it needs one. ``beside``: the
    target's MTP layers are a model beside it."""
    if method.needs in (Needs.NOTHING, Needs.TEXT):
        return Drafter(None, 0)
    if draft is not None:
        return Drafter(of_model(draft), depth)
    table, hidden = target.vocabulary * target.hidden, target.hidden
    if method.needs is Needs.MODULE:
        if beside:
            network = _head(target, ASSISTANT_WEIGHTS, ASSISTANT_LAYERS)
            network = replace(network, cache=replace(network.cache, products=0.0))
            return Drafter(network, depth, split=False)
        return Drafter(mtp_layer(target), depth, modules=target.modules)
    cached = hidden if target.latent else target.cached_token
    if method.name == "medusa":
        return Drafter(_head(target, depth * (hidden**2 + table), 1), 1)
    own = head_weights(method.name, target.architecture)
    assert own is not None, method.name
    if method.name in ("dflash", "dspark"):  # DSpark's Markov head beside its layers is small
        network = _head(target, own.parameters, DFLASH_LAYERS, table, DFLASH_LAYERS * cached)
        return Drafter(network, 1, depth + 1)
    borrowed = table if method.name == "eagle" else 0
    return Drafter(_head(target, own.parameters, 1, borrowed, cached), depth)


def _head(target: ModelFacts, own: int, layers: int, borrowed: int = 0, cached: int = 0) -> Network:
    """Return a head with ``own`` 16-bit weights that also reads ``borrowed`` weights of the target."""
    counts = WeightCounts(0, 0, 0, {LayerWeights(own // layers): layers})
    cache = Cache(cached, 2.0 * target.heads / target.kv_heads, target.kv_heads)
    return Network(BF16, target.hidden, counts, cache, borrowed)


def mtp_layer(target: ModelFacts) -> Network:
    """Return one layer of the target's kind and format; embedding and head are the target's."""
    joined = 2 * target.hidden**2 + 3 * target.hidden
    layer = replace(target.last_layer, fixed=target.last_layer.fixed + joined)
    return Network(
        target.format,
        target.hidden,
        WeightCounts(0, 0, 0, {layer: 1}),
        Cache(target.cached_token, target.cache.products, target.cache.shards),
        target.vocabulary * target.hidden,
        bool(target.latent),
    )
