"""Drafters as networks: their memory, and their passes in a round.

A head's size follows from its target's: published heads are one layer as wide as the target (EAGLE-3,
arXiv 2503.01840), a projection and an output table for each token ahead (Medusa, arXiv 2401.10774), or a
few layers over the target's own cache (Gemma 4's assistants). Where checkpoints differ, a large one was
chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

from app.deploy.estimate.network import Network, cache_products, cache_shards, of_model
from app.deploy.gpus import BF16, FORMATS, SIXTEEN_BITS
from app.deploy.methods import Method, Needs
from app.deploy.model import ModelFacts
from engine.models.sizes.weight_counts import DFLASH_LAYERS, head_weights

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
