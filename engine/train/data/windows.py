"""Batches of recorded replies: windows of tokens with the hidden states behind them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.models.hidden_states import AuxLayer
from engine.train.data.recording import Kept, Recording


@dataclass(frozen=True, slots=True)
class Pairs:
    """Positions that predict, and what they are to predict, as indices into flattened rows.

    ``sources``: where a drafter stands; ``goals``: the later position whose next token it is to name;
    ``labels``: that token. All (count,) int64.
    """

    sources: Tensor
    goals: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """Parts of replies, one in a row.

    tokens    (rows, length) int64, zeros behind a row's end
    known     (rows, length) bool: a token whose hidden states are there
    spoken    (rows, length) bool: a token that the target chose
    states    of each aux layer (rows, length, hidden) float32, zeros where not known
    """

    tokens: Tensor
    known: Tensor
    spoken: Tensor
    states: Mapping[AuxLayer, Tensor]

    @property
    def positions(self) -> int:
        """How many there are, padding included."""
        return self.tokens.numel()

    @property
    def learned(self) -> int:
        """Tokens of the target's own."""
        return int(self.spoken.sum())

    def pairs(self, ahead: int) -> Pairs:
        """Every position with the one ``ahead`` tokens on, where the target said what comes then."""
        rows, length = self.tokens.shape
        last = length - ahead - 1  # the label must be inside, too
        if last <= 0:
            none = self.tokens.new_zeros(0)
            return Pairs(none, none, none)
        goal = slice(ahead, ahead + last)
        label = slice(ahead + 1, ahead + 1 + last)
        fits = self.known[:, :last] & self.known[:, goal] & self.spoken[:, label]
        index = torch.arange(rows * length, device=self.tokens.device).view(rows, length)
        return Pairs(index[:, :last][fits], index[:, goal][fits], self.tokens[:, label][fits])

    def to(self, device: torch.device) -> Window:
        states = {layer: rows.to(device) for layer, rows in self.states.items()}
        return Window(self.tokens.to(device), self.known.to(device), self.spoken.to(device), states)


def windows(
    recording: Recording,
    learned: Sequence[Kept],
    aux_layers: Sequence[AuxLayer],
    longest: int,
    size: int,
    rng: random.Random,
    *,
    prompts: bool = False,
) -> Iterator[Callable[[], Window]]:
    """Batches without end, every reply once a round: rows of about one length, ``size`` tokens in all.

    Each is read from the disk when it is called. ``prompts``: their tokens are learned from too.
    """
    while True:
        order = list(learned)
        rng.shuffle(order)
        order.sort(
            key=lambda kept: min(kept.length, longest) // 32
        )  # stable: mixed within a length
        groups = list(_groups(order, longest, size))
        rng.shuffle(groups)
        for group in groups:
            yield partial(
                window_of, recording, group, aux_layers, longest, rng.getrandbits(62), prompts
            )


def window_of(
    recording: Recording,
    group: Sequence[Kept],
    aux_layers: Sequence[AuxLayer],
    longest: int,
    seed: int,
    prompts: bool = False,
) -> Window:
    """One window of each reply: where it is longer, a part with as much of the answer as fits.

    ``prompts``: what the target was asked counts as spoken.
    """
    rng = random.Random(seed)
    parts = [_part(kept, longest, rng) for kept in group]
    length = max(len(range(*part)) for part in parts)
    hidden = recording.states(aux_layers[0], group[0]).shape[1]
    tokens = torch.zeros(len(group), length, dtype=torch.int64)
    known = torch.zeros(len(group), length, dtype=torch.bool)
    spoken = torch.zeros(len(group), length, dtype=torch.bool)
    found = {aux_layer: torch.zeros(len(group), length, hidden) for aux_layer in aux_layers}
    for row, (kept, (start, end)) in enumerate(zip(group, parts, strict=True)):
        count = end - start
        tokens[row, :count] = recording.tokens(kept)[start:end]
        known[row, : min(end, kept.length - 1) - start] = True
        spoken[row, 0 if prompts else max(0, kept.start - start) : count] = True
        for aux_layer, states in found.items():
            states[row, :count] = recording.states(aux_layer, kept)[start:end].float()
    return Window(tokens, known, spoken, found)


def _part(kept: Kept, longest: int, rng: random.Random) -> tuple[int, int]:
    """Where the window of a reply starts and ends."""
    if kept.length <= longest:
        return 0, kept.length
    # From so far before the answer that half of the window is what was asked.
    earliest = min(max(0, kept.start - longest // 2), kept.length - longest)
    start = rng.randint(earliest, kept.length - longest)
    return start, start + longest


def _groups(order: Sequence[Kept], longest: int, size: int) -> Iterator[list[Kept]]:
    group: list[Kept] = []
    widest = 0
    for kept in order:
        widest = max(widest, min(kept.length, longest))
        if group and widest * (len(group) + 1) > size:
            yield group
            group, widest = [], min(kept.length, longest)
        group.append(kept)
    if group:
        yield group
