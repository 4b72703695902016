"""Drafters as networks: their memory, and their passes in a round.

A head's size follows from its target's: published heads are one layer as wide as the target (EAGLE-3,
arXiv 2503.01840), a projection and an output table for each token ahead (Medusa, arXiv 2401.10774), or a
chain of small projections over one table (MLP speculators, arXiv 2404.19124). Where checkpoints differ, a
large one was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from app.deploy.estimate.network import Network, cache_products, cache_shards, of_model
from app.deploy.formats import BF16, FORMATS, SIXTEEN_BITS
from app.deploy.methods import Method, Needs
from app.deploy.model import ModelFacts

EAGLE3_VOCABULARY = 32_000
"""``draft_vocab_size`` of yuhuili's published heads."""

DFLASH_LAYERS = 5
"""``num_hidden_layers`` of z-lab/Qwen3-8B-DFlash-b16."""

DFLASH_AUX_LAYERS = 5
"""Layers of the target whose hidden states a DFlash drafter reads."""


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
    network = _HEADS[method.name](target, depth)
    together = method.name == "medusa"
    block = method.name == "dflash"
    return Drafter(
        name,
        network,
        1 if together or block else depth,
        depth + 1 if block else 1,
        method.name != "mlp_speculator",
    )


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


def _layer(target: ModelFacts, joined: int) -> int:
    """Return the weights of a Llama layer whose attention reads ``joined`` hidden states."""
    hidden = target.hidden
    queries, keys = target.heads * target.head_dim, target.kv_heads * target.head_dim
    if target.latent:  # heads for such targets are Llama layers: four products of the full width
        queries, keys = hidden, hidden // 2
    attention = joined * hidden * (queries + 2 * keys) + queries * hidden
    return attention + 3 * hidden * target.intermediate


def _cached(target: ModelFacts) -> int:
    return target.hidden if target.latent else target.cached_token


def _table(target: ModelFacts) -> int:
    return target.vocabulary * target.hidden


def _eagle(target: ModelFacts, depth: int) -> Network:
    own = _layer(target, 1) + 2 * target.hidden**2
    return _head(target, own, 1, borrowed=_table(target), cached=_cached(target))


def _eagle3(target: ModelFacts, depth: int) -> Network:
    own = _layer(target, 2) + 3 * target.hidden**2 + EAGLE3_VOCABULARY * target.hidden
    return _head(target, own, 1, cached=_cached(target))


def _medusa(target: ModelFacts, depth: int) -> Network:
    return _head(target, depth * (target.hidden**2 + _table(target)), 1)


def _mlp(target: ModelFacts, depth: int) -> Network:
    """Return one projection and one table, tied over all positions, as wide as the target.

    It has neither attention nor cache; its input table is stored but hardly read.
    """
    network = _head(target, 2 * target.hidden**2 + _table(target), 1)
    total_weights = network.total_weights + _table(target) * SIXTEEN_BITS
    return replace(network, total_weights=total_weights, cache_products=0.0, shards=1)


def _dflash(target: ModelFacts, depth: int) -> Network:
    own = DFLASH_LAYERS * _layer(target, 1) + DFLASH_AUX_LAYERS * target.hidden**2
    cached = DFLASH_LAYERS * _cached(target)
    return _head(target, own, DFLASH_LAYERS, borrowed=_table(target), cached=cached)


def _mtp(target: ModelFacts, depth: int) -> Network:
    """Return one layer of the target's kind and format; embedding and head are the target's."""
    counts, width = target.counts, FORMATS[target.format].width
    join = 2 * target.hidden**2
    mixer = counts.router_and_shared if counts.experts else counts.dense
    fixed = counts.attention + mixer + join
    used = fixed + counts.active_experts * counts.expert
    return Network(
        weights=target.format,
        layers=1,
        hidden=target.hidden,
        total_weights=target.next_token_weights * width,
        embeddings=0.0,
        read=fixed * width + _table(target) * SIXTEEN_BITS,
        products=2.0 * (used + _table(target)),
        cached=target.cached_token,
        cache_products=cache_products(target),
        shards=cache_shards(target),
        expert=counts.expert * width,
        experts=counts.experts,
        active_experts=counts.active_experts,
        expert_layers=1 if counts.experts else 0,
    )


_HEADS: MappingProxyType[str, Callable[[ModelFacts, int], Network]] = MappingProxyType(
    {
        "eagle": _eagle,
        "eagle3": _eagle3,
        "medusa": _medusa,
        "mlp_speculator": _mlp,
        "dflash": _dflash,
        "mtp": _mtp,
    }
)
