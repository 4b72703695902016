"""What a forward pass takes: bytes held and read, products, and the seconds of both on a GPU.

A roofline (Williams et al. 2009): matrices take the longer of reading them and multiplying them,
attention the longer of reading the cache and its products; each layer has a floor, and GPUs that share
layers wait for each other twice in each. Estimates, by the numbers in ``assumptions``.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.deploy.estimate import assumptions
from app.deploy.formats import FORMATS, SIXTEEN_BITS, flops
from app.deploy.gpus import GpuKind
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Network:
    """One network in one weight format. Bytes; FLOP are of one row, a token that is computed.

    ``embeddings`` are the bytes of tables among ``held``. ``read`` is what every pass reads; of the
    experts, ``expert`` bytes each, it reads those that a row goes to. ``cached``: numbers that a token
    leaves in the KV cache, ``windowed`` those in layers that look back ``window`` tokens only.
    ``cache_products``: FLOP of a row for each number in the cache. ``shards``: into how many parts the
    cache can be split.
    """

    weights: str
    layers: int
    hidden: int
    held: float
    embeddings: float
    read: float
    products: float
    cached: int
    cache_products: float
    shards: int
    windowed: int = 0
    window: int = 0
    expert: float = 0.0
    experts: int = 0
    active_experts: int = 0
    expert_layers: int = 0

    def cache_numbers(self, context: int) -> int:
        """Numbers that a sequence of ``context`` tokens has in the cache."""
        return self.cached * context + self.windowed * min(context, self.window)

    def read_bytes(self, rows: int) -> float:
        """Bytes of weights that a pass over ``rows`` reads, with rows spread evenly over experts."""
        if not self.experts:
            return self.read
        touched = self.experts * (1 - (1 - self.active_experts / self.experts) ** rows)
        return self.read + self.expert_layers * touched * self.expert


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """The GPUs that compute a network together: ``tensor`` of them, each with a part of every layer."""

    gpu: GpuKind
    tensor: int

    def all_reduce(self, moved: float) -> float:
        """Seconds to add up ``moved`` bytes over all of them, in a ring; 0 for one GPU."""
        if self.tensor == 1:
            return 0.0
        fast = self.gpu.nvlink and self.tensor <= self.gpu.node
        floor = assumptions.ALL_REDUCE_SECONDS if fast else assumptions.SLOW_ALL_REDUCE_SECONDS
        within = self.tensor <= self.gpu.node
        link = self.gpu.link if within else min(self.gpu.link, assumptions.NETWORK_BANDWIDTH)
        return floor + 2 * (self.tensor - 1) / self.tensor * moved / link


def cache_products(facts: ModelFacts) -> float:
    """FLOP of a row for each number in the cache: every query head reads them, latent ones twice over."""
    return 4.0 * facts.heads if facts.latent else 2.0 * facts.heads / facts.kv_heads


def cache_shards(facts: ModelFacts) -> int:
    """Into how many parts a layer's cache can be split: by heads, and latent ones not at all."""
    return 1 if facts.latent else facts.kv_heads


def of_model(facts: ModelFacts) -> Network:
    """A whole model in its weight format."""
    form, counts = FORMATS[facts.format], facts.counts
    inner = SIXTEEN_BITS if form.experts_only else form.width
    tables = SIXTEEN_BITS * (counts.embedding + counts.head)
    expert = counts.expert * form.width
    experts = counts.expert_layers * counts.experts
    rest = (counts.layers - experts * counts.expert + counts.final_norm) * inner
    token = facts.cached_token
    return Network(
        weights=facts.format,
        layers=facts.layers,
        hidden=facts.hidden,
        held=tables + rest + experts * expert,
        embeddings=tables,
        read=rest + SIXTEEN_BITS * (counts.head or counts.embedding),
        products=2.0 * counts.active,
        cached=token * (facts.layers - facts.windowed_layers),
        windowed=token * facts.windowed_layers,
        window=facts.window,
        cache_products=cache_products(facts),
        shards=cache_shards(facts),
        expert=expert,
        experts=counts.experts,
        active_experts=counts.active_experts,
        expert_layers=counts.expert_layers,
    )


def seconds(
    network: Network, place: GpuGroup, rows: int, sequences: int, context: int, kv_width: float
) -> float:
    """One pass over ``rows`` tokens of ``sequences`` texts that have ``context`` tokens each."""
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
