"""Trainer of block drafters in DFlash's or DSpark's form (see ``engine.drafting.heads.block``).

Many blocks train at once, at random anchors in the target's replies: each attends to the hidden states of
the text before its anchor, and to itself. Later tokens weigh less in the loss, by exp(-1 / decay) each.
With a Markov head (``markov_rank``) the layout is DSpark's, without one it is DFlash's; a confidence
head is not trained. With a Markov head every token learns after the one that the target chose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.hidden_states import NORMED, AuxLayer
from engine.train.data.batches import Batch, Pairs
from engine.train.heads.block_network import AnchoredBlocks, BlockNetwork, BlockShape
from engine.train.loop import Loss
from engine.train.losses import head_loss
from engine.train.schema import need
from engine.train.trainer import TargetView, write_head


class BlockTrainer:
    """See ``Trainer``."""

    Shape = BlockShape

    def __init__(self, shape: BlockShape, target: TargetView) -> None:
        """Raises RecipeError for what does not fit the target."""
        last = target.info.layers
        if not shape.target_layer_ids:
            entered = (min(2, last), last // 2, max(last - 3, 0), last)
            shape = replace(shape, target_layer_ids=tuple(n - 1 for n in dict.fromkeys(entered)))
        mask = shape.mask_token_id
        self._mask = target.vocabulary - 1 if mask is None else mask
        _check(shape, self._mask, target)
        self._shape, self._target = shape, target
        layers = (layer + 1 for layer in shape.target_layer_ids)
        self.aux_layers = tuple(NORMED if n == last else AuxLayer(n) for n in layers)
        self.first = 0 if shape.markov_rank else 1  # row of a block that predicts a token
        self.depth = shape.block_size - self.first
        network = BlockNetwork(shape, target.hidden, target.vocabulary)
        # The target's output head tells tokens apart by states of this size; a norm learns it slowly.
        nn.init.constant_(network.norm.weight, target.scale)
        self.module = network.to(target.device)

    def loss(self, batch: Batch) -> Loss:
        blocks = self._blocks(batch)
        states = self.states(batch, blocks)
        head = self._head()
        total, count = states.new_zeros(()), 0
        for ahead in range(self.depth):
            pairs = _pairs(batch, blocks, ahead)
            rows = states[:, :, self.first + ahead].flatten(0, 1)[pairs.sources]
            rows = self._with_markov(rows, batch.tokens.flatten()[pairs.goals])
            goal = self._target.teacher(batch, pairs)
            total = total + math.exp(-ahead / self._shape.decay) * head_loss(rows, head, goal)
            count += len(pairs.labels)
        return Loss(total, count)

    def states(self, batch: Batch, blocks: AnchoredBlocks) -> Tensor:
        """Return the states behind the last norm: (rows, anchors, block, hidden)."""
        ids = batch.tokens.new_full((*blocks.anchors.shape, self._shape.block_size), 0)
        ids += self._mask
        ids[:, :, 0] = batch.tokens.gather(1, blocks.anchors)
        read = torch.cat([batch.states[aux_layer] for aux_layer in self.aux_layers], dim=2)
        states: Tensor = self.module(read, blocks.anchors, self._target.embedded(ids))
        return states

    def logits(self, states: Tensor, before: Tensor) -> Tensor:
        """Return the logits of ``states (count, hidden)`` after the tokens ``before (count,)``."""
        return self._with_markov(states, before) @ self._head().T

    def export(self, folder: Path) -> None:
        write_head(folder, self._config(), self.module.state_dict())

    def _blocks(self, batch: Batch) -> AnchoredBlocks:
        """Draw anchors whose next token the target chose; a resumed run draws the same ones."""
        rows, length = batch.tokens.shape
        generator = torch.Generator().manual_seed(int(batch.tokens.sum()) * length + rows)
        chance = torch.rand(rows, length, generator=generator).to(batch.tokens.device)
        fits = torch.zeros_like(batch.state_mask)
        # The first token of a batch has nothing before it to see.
        fits[:, 1:-1] = batch.state_mask[:, 1:-1] & batch.loss_mask[:, 2:]
        taken = min(self._shape.anchors, length)
        ranked = chance.masked_fill(~fits, -1.0).topk(taken, dim=1)
        return AnchoredBlocks(ranked.indices, ranked.values >= 0)

    def _head(self) -> Tensor:
        """Return the matrix that computes logits with the Markov head's: (vocabulary, hidden + rank)."""
        markov = self.module.markov_head
        if markov is None:
            return self._target.head
        return torch.cat([self._target.head, markov["markov_w2"].get_parameter("weight")], dim=1)

    def _with_markov(self, states: Tensor, before: Tensor) -> Tensor:
        """Return the input of ``_head``, after the tokens ``before (count,)``: (count, hidden + rank)."""
        markov = self.module.markov_head
        return states if markov is None else torch.cat([states, markov["markov_w1"](before)], 1)

    def _config(self) -> Mapping[str, Any]:
        shape = self._shape
        own = {"target_layer_ids": list(shape.target_layer_ids), "mask_token_id": self._mask}
        config = {
            "model_type": "qwen3",
            "attention_bias": False,
            "block_size": shape.block_size,
            "dtype": "bfloat16",
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "hidden_size": self._target.hidden,
            "intermediate_size": shape.intermediate_size,
            "layer_types": ["full_attention"] * shape.num_hidden_layers,
            "max_position_embeddings": self._target.info.context,
            "num_attention_heads": shape.num_attention_heads,
            "num_hidden_layers": shape.num_hidden_layers,
            "num_key_value_heads": shape.num_key_value_heads,
            "num_target_layers": self._target.info.layers,
            "rms_norm_eps": shape.rms_norm_eps,
            "rope_theta": shape.rope_theta,
            "vocab_size": self._target.vocabulary,
        }
        if not shape.markov_rank:
            return {**config, "architectures": ["DFlashDraftModel"], "dflash_config": own}
        markov = {"markov_rank": shape.markov_rank, "markov_head_type": "vanilla"}
        config |= {"architectures": ["Qwen3DSparkModel"], "enable_confidence_head": False}
        return {**config, **own, **markov}


def _pairs(batch: Batch, blocks: AnchoredBlocks, ahead: int) -> Pairs:
    """Pair blocks (flattened) with the position ``ahead`` of their anchor, and the token after it."""
    length = batch.tokens.shape[1]
    goal = blocks.anchors + ahead
    inside = goal + 1 < length
    label = (goal + 1).clamp(max=length - 1)
    goal = goal.clamp(max=length - 1)
    fits = (
        blocks.real & inside & batch.state_mask.gather(1, goal) & batch.loss_mask.gather(1, label)
    )
    first = torch.arange(len(goal), device=goal.device)[:, None] * length  # of each row, flattened
    sources = fits.flatten().nonzero()[:, 0]
    return Pairs(sources, (first + goal)[fits], batch.tokens.gather(1, label)[fits])


def _check(shape: BlockShape, mask: int, target: TargetView) -> None:
    """Raise RecipeError for what does not fit the target."""
    layers, tokens = target.info.layers, target.vocabulary
    need(
        all(-1 <= n < layers for n in shape.target_layer_ids),
        "shape.target_layer_ids",
        f"must name layers of the target, -1 (its embedding) to {layers - 1}",
    )
    need(
        0 <= mask < tokens,
        "shape.mask_token_id",
        f"must be a token of the target, 0 to {tokens - 1}, best one that it never writes",
    )
    need(shape.block_size > 1, "shape.block_size", "must be 2 or more")
    need(shape.decay > 0, "shape.decay", "must be above 0")
    need(
        shape.num_attention_heads % shape.num_key_value_heads == 0 and shape.head_dim % 2 == 0,
        "shape.num_attention_heads",
        "must be a multiple of num_key_value_heads, and head_dim must be even",
    )
