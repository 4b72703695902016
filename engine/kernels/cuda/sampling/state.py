"""What one sequence keeps on the device between rounds, and where in it everything stands.

A CUDA graph replays fixed addresses, so all that changes between rounds lies in tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.values import MAX_ROWS
from engine.values.sampling import Sampling

BLOCK = 2048
"""Tokens that one program works on."""
BINS = 2048
"""Weights are first sorted into 64 bins an octave, down to 2^-32, then searched within one."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class State:
    """One sequence on the device. The kernels read all of it, and a commit writes it on.

    ``numbers`` int64 (3,): seed, position of row 0 (the tokens in the text), top-k.
    ``settings`` float64 (6,): temperature, top-p, min-p, repetition, presence, frequency penalty.
    ``drafted`` int32 (16,): the chain of this round.
    ``seen`` int32 (vocabulary,): 0 for a token the text does not hold, else 1 + its times in the
    output.
    """

    numbers: Tensor
    settings: Tensor
    drafted: Tensor
    seen: Tensor

    @classmethod
    def empty(cls, vocabulary: int, device: torch.device | str) -> State:
        return cls(
            torch.zeros(3, dtype=torch.int64, device=device),
            torch.ones(6, dtype=torch.float64, device=device),
            torch.zeros(MAX_ROWS, dtype=torch.int32, device=device),
            torch.zeros(vocabulary, dtype=torch.int32, device=device),
        )

    def begin(self, sampling: Sampling, seed: int, tokens: list[int], prompt_length: int) -> None:
        """Writes a new request: its settings, and the text so far."""
        signed = (seed & _MASK) - ((seed & _MASK) >> 63 << 64)
        self.numbers.copy_(torch.tensor([signed, len(tokens), sampling.top_k]))
        chosen = (sampling.temperature, sampling.top_p, sampling.min_p)
        penalties = (
            sampling.repetition_penalty,
            sampling.presence_penalty,
            sampling.frequency_penalty,
        )
        self.settings.copy_(torch.tensor([*chosen, *penalties], dtype=torch.float64))
        ids = torch.tensor(tokens, dtype=torch.long)
        times = torch.bincount(ids[prompt_length:], minlength=len(self.seen))
        times[ids] += 1
        self.seen.copy_(times)

    def put(self, chain: Sequence[int]) -> None:
        """Writes a chain that was drafted on the host."""
        self.drafted[: len(chain)].copy_(torch.tensor(chain, dtype=torch.int32))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Rows of truncated probabilities, as the kernels leave them: p = weight / mass where kept.

    ``weights`` float32 (rows, vocabulary), the likeliest token at 1; kept are those whose bits, read
    as an integer, reach ``threshold`` int32 (rows,). ``mass`` float32 (rows,) is the sum of the kept.
    """

    weights: Tensor
    threshold: Tensor
    mass: Tensor

    @classmethod
    def empty(cls, rows: int, vocabulary: int, device: torch.device | str) -> Distribution:
        return cls(
            torch.zeros(rows, vocabulary, device=device),
            torch.zeros(rows, dtype=torch.int32, device=device),
            torch.ones(rows, device=device),
        )

    def row(self, index: int) -> Distribution:
        """One row, in the same memory: where a draft step puts its own."""
        part = slice(index, index + 1)
        return Distribution(self.weights[part], self.threshold[part], self.mass[part])

    def dense(self) -> Tensor:
        """The probabilities: float32 (rows, vocabulary)."""
        kept = self.weights.view(torch.int32) >= self.threshold[:, None]
        return torch.where(kept, self.weights / self.mass[:, None], 0.0)


@dataclass(frozen=True, slots=True)
class Scratch:
    """What the kernels hand to one another within a round; ``blocks`` programs share a row.

    ``finished`` and ``done`` are zero before and after every launch.
    """

    peaks: Tensor  # float32 (rows, blocks): each block's largest logit, inf if one is NaN
    peak_tokens: Tensor  # int32 (rows, blocks)
    bins: Tensor  # int64 (2, rows, BINS): tokens, and their mass, from the likeliest bin down
    totals: Tensor  # int64 (rows,): mass of all tokens
    found: Tensor  # int32 (rows, vocabulary): weights in the bin where a threshold falls
    gathered: Tensor  # int32 (rows,): how many they are
    times: Tensor  # float32 (2, rows, blocks): first clocks to ring, of residual and of p
    winners: Tensor  # int32 (2, rows, blocks): whose they are
    residuals: Tensor  # int64 (rows, blocks): mass of the residual
    finished: Tensor  # int32 (rows,): programs of a row that are through
    done: Tensor  # int32 (1,): programs of a launch that are through

    @classmethod
    def empty(cls, rows: int, vocabulary: int, device: torch.device | str) -> Scratch:
        blocks = -(-vocabulary // BLOCK)
        int32, int64 = torch.int32, torch.int64
        return cls(
            torch.zeros(rows, blocks, device=device),
            torch.zeros(rows, blocks, dtype=int32, device=device),
            torch.zeros(2, rows, BINS, dtype=int64, device=device),
            torch.zeros(rows, dtype=int64, device=device),
            torch.zeros(rows, vocabulary, dtype=int32, device=device),
            torch.zeros(rows, dtype=int32, device=device),
            torch.zeros(2, rows, blocks, device=device),
            torch.zeros(2, rows, blocks, dtype=int32, device=device),
            torch.zeros(rows, blocks, dtype=int64, device=device),
            torch.zeros(rows, dtype=int32, device=device),
            torch.zeros(1, dtype=int32, device=device),
        )
