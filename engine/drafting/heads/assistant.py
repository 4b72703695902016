"""Gemma 4's assistants (Google 2026): a few narrow layers that read the target's keys and values.

Each token's input is the target's embedding of the token before it beside a state, as wide as the target:
the target's normed hidden state at first, later what the layers themselves give back. Their queries stand
at the pending token's position throughout and see what the target has read. So there is nothing to
prefill and nothing to commit.

The layout is transformers' Gemma4AssistantForCausalLM. A layer reads the target's last layer of its kind
(sliding or global) that makes keys and values. Those of the small models have a head in two steps
(``use_ordered_embeddings``): a row for each group of tokens tells which groups' logits are computed. No
other token is drafted; transformers gives all of them one logit, which is less than the least of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.backends.layer_decoder import add_residual, feed_forward, norm
from engine.backends.linear_factory import LinearFactory
from engine.backends.operations import Operations
from engine.drafting.heads.base import (
    HeadPlan,
    TargetShape,
    check_fits,
    count_parameters,
    other_target,
)
from engine.drafting.heads.layers import layer_source, load_layers
from engine.drafting.heads.stateless import StatelessDraft
from engine.drafting.heads.stored import Stored
from engine.errors import MALFORMED, ModelError, what_failed
from engine.kernels.operands import Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.architecture import Architecture
from engine.models.checkpoints.checkpoint import Checkpoint, describe_config
from engine.models.families import described
from engine.models.families.gemma import gemma4
from engine.models.hidden_states import NORMED, AuxLayer
from engine.models.tensor_shapes import layer_shapes
from engine.models.weight_loading import make_norm
from engine.models.weights import Layer, RmsNorm
from engine.values import MAX_DEPTH

_EMBEDDING, _NORM = "model.embed_tokens.weight", "model.norm.weight"
_CENTROIDS, _ORDERING = "masked_embedding.centroids.weight", "masked_embedding.token_ordering"
_KEPT = 32
"""Groups whose tokens are drafted, if the configuration does not say: transformers' default."""


@dataclass(frozen=True, slots=True)
class AssistantShape:
    """``groups`` of tokens, of which each step drafts from ``kept``; 0 if the head has one step."""

    architecture: Architecture
    groups: int
    kept: int


@dataclass(frozen=True, slots=True)
class AssistantHead:
    """A ``Head``, see the module.

    ``before``: twice the target's width -> hidden; ``behind``: hidden -> its width. ``centroids``: hidden
    -> groups; ``ordering`` int64 (vocabulary,): the token of each of ``output``'s rows. Both are None if
    the head has one step.
    """

    shape: AssistantShape
    layers: tuple[Layer, ...]
    norm: RmsNorm
    before: Linear
    behind: Linear
    output: Linear
    centroids: Linear | None
    ordering: NDArray[np.int64] | None

    kind: ClassVar[str] = "assistant"
    steps: ClassVar[int] = MAX_DEPTH

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]:
        return (NORMED,)

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        a = _architecture(stored)
        width = stored.size("backbone_hidden_size")
        check_fits(stored, target, hidden=width, vocabulary=a.vocabulary)
        _check_keys_values(stored, a, target)
        shapes = {
            f"model.layers.{index}.{name}": size
            for index, spec in enumerate(a.layers)
            for name, size in layer_shapes(a, spec).items()
        }
        shapes |= {_EMBEDDING: (a.vocabulary, a.hidden), _NORM: (a.hidden,)}
        shapes["pre_projection.weight"] = (a.hidden, 2 * width)
        shapes["post_projection.weight"] = (width, a.hidden)
        shape = AssistantShape(a, *_groups(stored, a.vocabulary))
        if shape.groups:
            shapes |= {_CENTROIDS: (shape.groups, a.hidden), _ORDERING: (a.vocabulary,)}
        stored.expect(shapes)
        count = count_parameters(shapes)
        return HeadPlan(cls.kind, stored, (NORMED,), count, shape, a.attentions)

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        stored, shape = plan.stored, plan.shape
        assert isinstance(shape, AssistantShape)
        a, output, centroids, ordering = shape.architecture, stored(_EMBEDDING), None, None
        if shape.groups:
            order = _ordering(stored)
            output, ordering = output[order], order.numpy()
            centroids = linears.linear(stored(_CENTROIDS))
        prefixes = [f"model.layers.{index}." for index in range(len(a.layers))]
        before = stored("pre_projection.weight").float()
        width = before.shape[1] // 2
        before[:, :width] *= width**0.5  # the scale of the target's embedding
        return cls(
            shape,
            load_layers(a, [layer_source(stored, prefix, linears) for prefix in prefixes], linears),
            make_norm(a, linears.vector(stored(_NORM))),
            linears.linear(before),
            linears.linear(stored("post_projection.weight")),
            linears.linear(output),
            centroids,
            ordering,
        )

    def new_groups(self) -> Groups | None:
        """Return the groups that the steps of a draft choose among; None if the head has one step."""
        if self.ordering is None:
            return None
        return Groups(self.ordering, self.shape.groups, self.shape.kept)

    def draft(
        self, ops: Operations, at: Rows, groups: Groups | None, chain: Tokens, state: Tensor
    ) -> Iterator[Tensor]:
        """Yield the logits (1, vocabulary) of each token after ``chain[0]``, whose position is ``at``.

        ``state (1, width of the target)`` is the target's normed hidden state of the token before.
        ``groups`` are ``new_groups``.
        """
        for step in range(self.steps):
            x = ops.linear(self.before, ops.join(ops.embed(None, chain, step), state))
            for index, layer in enumerate(self.layers):
                x = self._layer(ops, index, layer, x, at)
            normed = norm(ops, self.norm, x)
            if groups is None or self.centroids is None:
                yield ops.linear(self.output, normed)
            else:
                scores = ops.linear(self.centroids, normed)
                yield ops.group_logits(self.output, normed, scores, groups)
            state = ops.linear(self.behind, normed)

    def _layer(self, ops: Operations, index: int, layer: Layer, x: Tensor, at: Rows) -> Tensor:
        a, weights = self.shape.architecture, layer.attention
        spec = a.layers[index]
        queries = ops.linear(weights.qkv, norm(ops, layer.mixer_norm, x))
        attended = ops.attend_to_target(queries, spec.attention, a.epsilon, weights.qk_norm, at)
        x = add_residual(ops, x, ops.linear(weights.output, attended), layer.mixer_after)
        x = feed_forward(ops, spec.feed_forward, layer, x)
        return ops.add(x, x, layer.scalar - 1)


class AssistantDraft(StatelessDraft):
    """Drafts for one sequence, which also read where the pending token stands."""

    def __init__(self, head: AssistantHead, ops: Operations) -> None:
        self._last = Number()
        last, pending = (Rows(Number(1), self._last, offset) for offset in (0, 1))
        groups = head.new_groups()
        self.draft = ops.unroll(
            head.steps,
            lambda: ops.aux_hidden_states(NORMED, last),
            partial(head.draft, ops, pending, groups),
            groups,
        )
        self.steps, self.spreads = head.steps, False
        self.drafter = ops.round_drafter(self)

    def places(self, device: torch.device) -> list[Tensor]:
        """See ``RoundHead``."""
        return [self._last.on(device)]


def _groups(stored: Stored, vocabulary: int) -> tuple[int, int]:
    """Return how many groups the tokens form, and how many are kept; 0 for a head of one step."""
    if not stored.flag("use_ordered_embeddings"):
        return 0, 0
    groups = stored.size("num_centroids", 2048)
    if vocabulary % groups:
        raise stored.wrong_key("num_centroids", f"a divisor of {vocabulary:,}, the vocabulary size")
    return groups, min(stored.size("centroid_intermediate_top_k", _KEPT), groups)


def _ordering(stored: Stored) -> Tensor:
    """Return the tokens, one group after the other. Raises ModelError unless each is there once."""
    order = stored(_ORDERING).long()
    if not torch.equal(order.sort().values, torch.arange(len(order))):
        raise ModelError(
            f"In {stored.folder}, {_ORDERING} should list each of {len(order):,} tokens "
            "once. Download the head again."
        )
    return order


def _architecture(stored: Stored) -> Architecture:
    """Return the layers, which all read the target's keys and values."""
    text = stored.config.get("text_config")
    if not isinstance(text, Mapping):
        raise stored.wrong_key("text_config", "a mapping")
    own = {"num_kv_shared_layers": text.get("num_hidden_layers"), "hidden_size_per_layer_input": 0}
    if text.get("sliding_window") == 1:
        raise ModelError(
            f"{stored.config_file}: sliding_window is 1, a row's own position, of which the head has no "
            "key. It must be 2 or more. Use the config.json that was published with the head."
        )
    checkpoint = describe_config(stored.folder, {**stored.config, "text_config": {**text, **own}})
    try:
        return gemma4(checkpoint, checkpoint.context)
    except MALFORMED as error:
        raise ModelError(
            f"{stored.config_file} cannot be used: {what_failed(error)}. Use the config.json that was "
            "published with the head."
        ) from error


def _check_keys_values(stored: Stored, a: Architecture, target: TargetShape) -> None:
    """Raise IncompatiblePair where the target's keys and values have another size, if it is known."""
    theirs = described(target) if isinstance(target, Checkpoint) else None
    if theirs is None:
        return
    for spec in a.attentions:
        slot = theirs.last_slots.get(spec.window is not None)
        kind = "global" if spec.window is None else "sliding"
        if slot is None or theirs.kv_sizes[slot] != (spec.kv_heads, spec.head_dim):
            found = "none" if slot is None else "{} of {} numbers".format(*theirs.kv_sizes[slot])
            raise other_target(
                stored,
                target,
                f"needs {kind} layers with {spec.kv_heads} key heads of size {spec.head_dim}; "
                f"{target.path.name} has {found}",
            )
