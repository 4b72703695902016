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

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from app.deploy.estimate import assumptions
from app.deploy.gpus import BF16, FORMATS, SIXTEEN_BITS, GpuKind, flops
from app.deploy.methods import Method, Needs
from app.deploy.model import ModelFacts
from engine.models.sizes.weight_counts import DFLASH_LAYERS, head_weights


@dataclass(frozen=True, slots=True)
class Network:
    """One network in one weight format, in bytes and in FLOP of one row, a computed token.

    ``total_weights``: all weights, with ``embeddings``. ``read``: read in every pass; of the experts, of
    ``expert`` bytes each, a pass reads the chosen ones. ``cached``: numbers that a token adds to the KV
    cache, ``windowed`` those of layers with a sliding ``window``. ``cache_products``: FLOP of a row for
    each number in the cache. ``shards``: into how many parts the cache can be split. ``state``: bytes of
    a sequence's recurrent states. ``chosen_products``: those of ``products`` with experts.
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
    chosen_products: float = 0.0
    latent_layers: int = 0

    def cache_numbers(self, context: int) -> int:
        """Return the numbers in the cache of a sequence of ``context`` tokens."""
        return self.cached * context + self.windowed * min(context, self.window)

    def cache_bytes(self, context: int, kv_width: float, states: int = 1) -> float:
        """Return the bytes of a sequence: its cache, and each of its ``states`` of recurrent layers."""
        return self.cache_numbers(context) * kv_width + states * self.state

    def expert_bytes(self, rows: float) -> float:
        """Return the bytes of experts that a pass over ``rows`` reads, which choose evenly."""
        if not self.experts:
            return 0.0
        unread: float = (1 - self.active_experts / self.experts) ** rows
        return self.expert_layers * self.experts * (1 - unread) * self.expert


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """``tensor`` GPUs that compute a network together, each with a part of every layer. ``attention``:
    into how many groups sequences are divided, each with the whole of what all tokens use."""

    gpu: GpuKind
    tensor: int
    attention: int = 1

    def all_reduce(self, moved: float) -> float:
        """Return the seconds of a ring all-reduce of ``moved`` bytes."""
        if self.tensor == 1:
            return 0.0
        within = self.tensor <= self.gpu.reach
        floor = assumptions.NODES_ALL_REDUCE_SECONDS
        if within:
            fast = self.gpu.nvlink
            floor = assumptions.ALL_REDUCE_SECONDS if fast else assumptions.SLOW_ALL_REDUCE_SECONDS
        return floor + self.moving(moved)

    def moving(self, moved: float) -> float:
        """Return the seconds that the links take for an all-reduce of ``moved`` bytes."""
        within = self.tensor <= self.gpu.reach
        link = self.gpu.link if within else min(self.gpu.link, assumptions.NETWORK_BANDWIDTH)
        return 2 * (self.tensor - 1) / self.tensor * moved / link


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
    return Network(
        weights=facts.format,
        layers=facts.layers,
        hidden=facts.hidden,
        total_weights=tables + rest + experts * expert,
        embeddings=tables,
        read=rest + SIXTEEN_BITS * (counts.head or counts.embedding),
        products=2.0 * counts.active,
        cached=facts.cached,
        windowed=facts.windowed,
        window=facts.window,
        cache_products=cache_products(facts),
        shards=cache_shards(facts),
        state=facts.state_bytes,
        expert=expert,
        experts=mixtures[0].experts if mixtures else 0,
        active_experts=mixtures[0].chosen if mixtures else 0,
        expert_layers=expert_layers,
        chosen_products=2.0
        * sum(n * each.chosen * each.expert for each, n in counts.layers.items()),
        latent_layers=facts.layers if facts.latent else 0,
    )


def seconds(
    network: Network, place: GpuGroup, rows: int, sequences: int, context: int, kv_width: float
) -> float:
    """Return the seconds of a pass over ``rows`` tokens of ``sequences`` with ``context`` tokens."""
    gpu, groups = place.gpu, place.attention
    parts = place.tensor // groups  # of what all tokens use
    bandwidth = gpu.bandwidth * assumptions.BANDWIDTH_SHARE
    here, rows_here = -(-sequences // groups), -(-rows // groups)
    all_rows, chosen = products(network, place)
    matrices = max(network.read / parts / bandwidth, all_rows * rows)
    matrices += max(
        network.expert_bytes(rows)
        / place.tensor
        / (gpu.bandwidth * assumptions.EXPERT_BANDWIDTH_SHARE),
        chosen * rows,
    )
    attention = max(
        here * network.cache_bytes(context, kv_width) / min(parts, network.shards) / bandwidth,
        rows_here
        * network.cache_numbers(context)
        * network.cache_products
        / parts
        / (gpu.fp16 * assumptions.COMPUTE_SHARE),
    )
    return matrices + attention + fixed_seconds(network, place, rows)


def products(network: Network, place: GpuGroup) -> tuple[float, float]:
    """Return the seconds that a row's products take: those of all rows, and those with experts."""
    speed = flops(place.gpu, network.weights) * place.tensor
    return (
        (network.products - network.chosen_products) / (speed * assumptions.COMPUTE_SHARE),
        network.chosen_products / (speed * assumptions.EXPERT_COMPUTE_SHARE),
    )


def fixed_seconds(network: Network, place: GpuGroup, rows: float) -> float:
    """Return the seconds of a pass that weights and caches have no part in."""
    joined = 2 * place.all_reduce(rows * network.hidden * SIXTEEN_BITS)
    return (
        network.layers * (assumptions.LAYER_SECONDS + joined)
        + network.expert_layers * assumptions.EXPERTS_SECONDS
        + network.latent_layers * assumptions.LATENT_SECONDS
    )


ASSISTANT_WEIGHTS, ASSISTANT_LAYERS = 500_000_000, 4


@dataclass(frozen=True, slots=True)
class Drafter:
    """``network``: None if the method only looks up text. A round makes ``passes`` over ``rows`` tokens a
    sequence. ``split``: it is split over the target's GPUs."""

    name: str | None
    network: Network | None
    passes: int
    rows: int = 1
    split: bool = True


def drafter_for(
    method: Method, target: ModelFacts, name: str | None, draft: ModelFacts | None, depth: int
) -> Drafter:
    """Return what ``method`` drafts with; ``draft`` is the draft model, if it needs one."""
    if method.needs in (Needs.NOTHING, Needs.TEXT):
        return Drafter(None, None, 0)
    if draft is not None:
        return Drafter(name, of_model(draft), depth)
    if method.needs is Needs.MODULE and name is not None:
        return Drafter(name, _assistant(target), depth, split=False)
    network = _HEADS[method.name](target, depth)
    block = method.name in ("dflash", "dspark")
    together = block or method.name == "medusa"
    return Drafter(name, network, 1 if together else depth, depth + 1 if block else 1)


def _head(
    target: ModelFacts, own: int, layers: int, *, borrowed: int = 0, cached: int = 0
) -> Network:
    """Return a head with ``own`` 16-bit weights that also reads ``borrowed`` weights of the target."""
    return Network(
        weights=BF16,
        layers=layers,
        hidden=target.hidden,
        total_weights=own * SIXTEEN_BITS,
        embeddings=0.0,
        read=(own + borrowed) * SIXTEEN_BITS,
        products=2.0 * (own + borrowed),
        cached=cached,
        cache_products=2.0 * target.heads / target.kv_heads,
        shards=target.kv_heads,
    )


def _own(target: ModelFacts, method: str) -> int:
    """Return the weights of a published head."""
    found = head_weights(method, target.architecture)
    assert found is not None, method
    return found.parameters


def _cached(target: ModelFacts) -> int:
    return target.hidden if target.latent else target.cached_token


def _table(target: ModelFacts) -> int:
    return target.vocabulary * target.hidden


def _assistant(target: ModelFacts) -> Network:
    """Return Gemma 4's assistant, which reads the target's keys and values: 0.5 B weights at most, as the
    31B's has them."""
    network = _head(target, ASSISTANT_WEIGHTS, ASSISTANT_LAYERS)
    return replace(network, cache_products=0.0)


def _block(target: ModelFacts, depth: int) -> Network:
    """Return DFlash's layers; DSpark's Markov head beside them is small."""
    cached = DFLASH_LAYERS * _cached(target)
    return _head(
        target, _own(target, "dflash"), DFLASH_LAYERS, borrowed=_table(target), cached=cached
    )


def _mtp(target: ModelFacts, depth: int) -> Network:
    """Return one layer of the target's kind and format; embedding and head are the target's."""
    layer, width = target.last_layer, FORMATS[target.format].width
    join = 2 * target.hidden**2
    return Network(
        weights=target.format,
        layers=1,
        hidden=target.hidden,
        total_weights=target.next_token_weights * width,
        embeddings=0.0,
        read=(layer.fixed + join) * width + _table(target) * SIXTEEN_BITS,
        products=2.0 * (layer.active + join + _table(target)),
        cached=target.cached_token,
        cache_products=cache_products(target),
        shards=cache_shards(target),
        expert=layer.expert * width,
        experts=layer.experts,
        active_experts=layer.chosen,
        expert_layers=1 if layer.experts else 0,
        chosen_products=2.0 * layer.chosen * layer.expert,
        latent_layers=1 if target.latent else 0,
    )


_HEADS: MappingProxyType[str, Callable[[ModelFacts, int], Network]] = MappingProxyType(
    {
        "eagle": lambda t, depth: _head(
            t, _own(t, "eagle"), 1, borrowed=_table(t), cached=_cached(t)
        ),
        "eagle3": lambda t, depth: _head(t, _own(t, "eagle3"), 1, cached=_cached(t)),
        "medusa": lambda t, depth: _head(t, depth * (t.hidden**2 + _table(t)), 1),
        "dflash": _block,
        "dspark": _block,
        "mtp": _mtp,
    }
)
