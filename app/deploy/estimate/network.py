"""Bytes, FLOP and seconds of a forward pass on GPUs.

A roofline (Williams et al. 2009): weights take the longer of reading and multiplying them, attention the
longer of reading the cache and its FLOP; each layer has a fixed time, and tensor parallelism adds two
all-reduces to it. Estimates, by the numbers in ``assumptions``.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate import assumptions
from app.deploy.formats import FORMATS, SIXTEEN_BITS, flops
from app.deploy.gpus import GpuKind
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Network:
    """One network in one weight format, in bytes and in FLOP of one row, a computed token.

    ``total_weights``: all weights, with ``embeddings``. ``read``: read in every pass; of the experts, of
    ``expert`` bytes each, a pass reads the chosen ones. ``cached``: numbers that a token adds to the KV
    cache, ``windowed`` those of layers with a sliding ``window``. ``cache_products``: FLOP of a row for
    each number in the cache. ``shards``: into how many parts the cache can be split. ``state``: numbers
    of a sequence's recurrent states.
    """

    weights: str
    layers: int
    hidden: int
    total_weights: float
    embeddings: float
    read: float
    products: float
    cached: int
    cache_products: float
    shards: int
    state: int = 0
    windowed: int = 0
    window: int = 0
    expert: float = 0.0
    experts: int = 0
    active_experts: int = 0
    expert_layers: int = 0

    def cache_numbers(self, context: int) -> int:
        """Return the numbers in the cache of a sequence of ``context`` tokens."""
        return self.cached * context + self.windowed * min(context, self.window) + self.state

    def read_bytes(self, rows: int) -> float:
        """Return the bytes of weights that a pass over ``rows`` reads; rows choose experts evenly."""
        if not self.experts:
            return self.read
        touched = self.experts * (1 - (1 - self.active_experts / self.experts) ** rows)
        return self.read + self.expert_layers * touched * self.expert


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """``tensor`` GPUs that compute a network together, each with a part of every layer."""

    gpu: GpuKind
    tensor: int

    def all_reduce(self, moved: float) -> float:
        """Return the seconds of a ring all-reduce of ``moved`` bytes."""
        if self.tensor == 1:
            return 0.0
        fast = self.gpu.nvlink and self.tensor <= self.gpu.node
        floor = assumptions.ALL_REDUCE_SECONDS if fast else assumptions.SLOW_ALL_REDUCE_SECONDS
        within = self.tensor <= self.gpu.node
        link = self.gpu.link if within else min(self.gpu.link, assumptions.NETWORK_BANDWIDTH)
        return floor + 2 * (self.tensor - 1) / self.tensor * moved / link


def cache_products(facts: ModelFacts) -> float:
    """Return a row's FLOP for each number in the cache; latent attention reads each twice."""
    return 4.0 * facts.heads if facts.latent else 2.0 * facts.heads / facts.kv_heads


def cache_shards(facts: ModelFacts) -> int:
    """Return into how many parts a layer's cache can be split: by heads, and not if latent."""
    return 1 if facts.latent else facts.kv_heads


def of_model(facts: ModelFacts) -> Network:
    """Return the network of a model in its weight format."""
    form, counts = FORMATS[facts.format], facts.counts
    inner = SIXTEEN_BITS if form.experts_only else form.width
    tables = SIXTEEN_BITS * (counts.embedding + counts.head)
    mixtures = [layer for layer in counts.layers if layer.experts]
    expert = mixtures[0].expert * form.width if mixtures else 0.0
    expert_layers = sum(counts.layers[layer] for layer in mixtures)
    fixed = sum(count * layer.fixed for layer, count in counts.layers.items())
    rest = (fixed + counts.rest) * inner
    experts = expert_layers * mixtures[0].experts if mixtures else 0
    token = facts.cached_token
    return Network(
        weights=facts.format,
        layers=facts.layers,
        hidden=facts.hidden,
        total_weights=tables + rest + experts * expert,
        embeddings=tables,
        read=rest + SIXTEEN_BITS * (counts.head or counts.embedding),
        products=2.0 * counts.active,
        cached=token * (facts.layers - facts.windowed_layers - facts.linear_layers),
        windowed=token * facts.windowed_layers,
        window=facts.window,
        cache_products=cache_products(facts),
        shards=cache_shards(facts),
        state=facts.state * facts.linear_layers,
        expert=expert,
        experts=mixtures[0].experts if mixtures else 0,
        active_experts=mixtures[0].chosen if mixtures else 0,
        expert_layers=expert_layers,
    )


def seconds(
    network: Network, place: GpuGroup, rows: int, sequences: int, context: int, kv_width: float
) -> float:
    """Return the seconds of a pass over ``rows`` tokens of ``sequences`` with ``context`` tokens."""
    gpu, parts = place.gpu, place.tensor
    bandwidth = gpu.bandwidth * assumptions.BANDWIDTH_SHARE
    units = assumptions.COMPUTE_SHARE
    matrices = max(
        network.read_bytes(rows) / parts / bandwidth,
        network.products * rows / parts / (flops(gpu, network.weights) * units),
    )
    numbers = network.cache_numbers(context)
    attention = max(
        sequences * numbers * kv_width / min(parts, network.shards) / bandwidth,
        rows * numbers * network.cache_products / parts / (gpu.fp16 * units),
    )
    joined = 2 * place.all_reduce(rows * network.hidden * SIXTEEN_BITS)
    return matrices + attention + network.layers * (assumptions.LAYER_SECONDS + joined)
