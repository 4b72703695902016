"""Batches of recorded replies: tokens with the hidden states at each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.models.hidden_states import AuxLayer
from engine.train.data.recording import Recording, StoredReply


@dataclass(frozen=True, slots=True)
class Pairs:
    """Positions and their targets, as indices into flattened rows. All (count,) int64.

    A drafter at ``sources`` is to predict ``labels``, the tokens after the later positions ``goals``.
    """

    sources: Tensor
    goals: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """One slice of a reply per row.

    tokens      (rows, length) int64, zero-padded
    state_mask  (rows, length) bool: the token's hidden states are in ``states``
    loss_mask   (rows, length) bool: the token is learned
    states      of each aux layer (rows, length, hidden) float32, zero-padded
    """

    tokens: Tensor
    state_mask: Tensor
    loss_mask: Tensor
    states: Mapping[AuxLayer, Tensor]

    @property
    def positions(self) -> int:
        """The number of positions, padding included."""
        return self.tokens.numel()

    @property
    def learned(self) -> int:
        return int(self.loss_mask.sum())

    def pairs(self, ahead: int) -> Pairs:
        """Pair every position with the one ``ahead`` tokens on, where the token after that is learned."""
        rows, length = self.tokens.shape
        last = length - ahead - 1  # the label must be inside, too
        if last <= 0:
            none = self.tokens.new_zeros(0)
            return Pairs(none, none, none)
        goal = slice(ahead, ahead + last)
        label = slice(ahead + 1, ahead + 1 + last)
        usable = self.state_mask[:, :last] & self.state_mask[:, goal] & self.loss_mask[:, label]
        index = torch.arange(rows * length, device=self.tokens.device).view(rows, length)
        return Pairs(index[:, :last][usable], index[:, goal][usable], self.tokens[:, label][usable])

    def to(self, device: torch.device) -> Batch:
        states = {layer: rows.to(device) for layer, rows in self.states.items()}
        return Batch(
            self.tokens.to(device), self.state_mask.to(device), self.loss_mask.to(device), states
        )


def batches(
    recording: Recording,
    learned: Sequence[StoredReply],
    aux_layers: Sequence[AuxLayer],
    longest: int,
    size: int,
    rng: random.Random,
    *,
    prompts: bool = False,
) -> Iterator[Callable[[], Batch]]:
    """Yield batches without end, each reply once an epoch: rows of similar length, ``size`` tokens.

    Each is read from disk when it is called. ``prompts``: learn from the prompts' tokens too.
    """
    while True:
        order = list(learned)
        rng.shuffle(order)
        # Stable: mixed within a length.
        order.sort(key=lambda reply: min(reply.length, longest) // 32)
        groups = list(_groups(order, longest, size))
        rng.shuffle(groups)
        for group in groups:
            yield partial(
                batch_of, recording, group, aux_layers, longest, rng.getrandbits(62), prompts
            )


def batch_of(
    recording: Recording,
    group: Sequence[StoredReply],
    aux_layers: Sequence[AuxLayer],
    longest: int,
    seed: int,
    prompts: bool = False,
) -> Batch:
    """Make a batch of one slice of each reply: all of it, or ``longest`` tokens at a random place.

    ``prompts``: the loss mask covers the prompts too.
    """
    rng = random.Random(seed)
    parts = [_part(reply, longest, rng) for reply in group]
    length = max(len(range(*part)) for part in parts)
    hidden = recording.states(aux_layers[0], group[0]).shape[1]
    tokens = torch.zeros(len(group), length, dtype=torch.int64)
    state_mask = torch.zeros(len(group), length, dtype=torch.bool)
    loss_mask = torch.zeros(len(group), length, dtype=torch.bool)
    states_of = {aux_layer: torch.zeros(len(group), length, hidden) for aux_layer in aux_layers}
    for row, (reply, (start, end)) in enumerate(zip(group, parts, strict=True)):
        count = end - start
        tokens[row, :count] = recording.tokens(reply)[start:end]
        state_mask[row, : min(end, reply.length - 1) - start] = True
        loss_mask[row, 0 if prompts else max(0, reply.start - start) : count] = True
        for aux_layer, states in states_of.items():
            states[row, :count] = recording.states(aux_layer, reply)[start:end].float()
    return Batch(tokens, state_mask, loss_mask, states_of)


def _part(reply: StoredReply, longest: int, rng: random.Random) -> tuple[int, int]:
    """Return where the slice of a reply starts and ends."""
    if reply.length <= longest:
        return 0, reply.length
    # At the earliest half of the slice is the prompt.
    earliest = min(max(0, reply.start - longest // 2), reply.length - longest)
    start = rng.randint(earliest, reply.length - longest)
    return start, start + longest


def _groups(order: Sequence[StoredReply], longest: int, size: int) -> Iterator[list[StoredReply]]:
    group: list[StoredReply] = []
    widest = 0
    for reply in order:
        widest = max(widest, min(reply.length, longest))
        if group and widest * (len(group) + 1) > size:
            yield group
            group, widest = [], min(reply.length, longest)
        group.append(reply)
    if group:
        yield group
