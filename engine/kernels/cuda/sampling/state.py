"""What one sequence keeps on the device between rounds, and where in it everything accepted.

A CUDA graph replays fixed addresses, so everything that changes between rounds is in tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.values import MAX_ROWS
from engine.values.sampling import Sampling

TILE = 2048
"""Tokens of one program."""
BINS = 2048
"""Bins of the histogram of weights: 64 an octave, down to 2^-32."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SamplingState:
    """The sampling state of one sequence on the device. Kernels read it; acceptance advances it.

    ``numbers`` int64 (3,): seed, position of row 0 (the number of tokens in the text), top-k.
    ``settings`` float64 (6,): temperature, top-p, min-p, repetition, presence, frequency penalty.
    ``drafted`` int32 (16,): the chain of this round.
    ``seen`` int32 (vocabulary,): 0 for a token that is not in the text, else 1 + its count in the output.
    ``bias`` float32 (vocabulary,): what is added to the logits.
    """

    numbers: Tensor
    settings: Tensor
    drafted: Tensor
    seen: Tensor
    bias: Tensor

    @classmethod
    def empty(cls, vocabulary: int, device: torch.device | str) -> SamplingState:
        return cls(
            torch.zeros(3, dtype=torch.int64, device=device),
            torch.ones(6, dtype=torch.float64, device=device),
            torch.zeros(MAX_ROWS, dtype=torch.int32, device=device),
            torch.zeros(vocabulary, dtype=torch.int32, device=device),
            torch.zeros(vocabulary, device=device),
        )

    def begin(
        self, sampling: Sampling, seed: int, tokens: list[int], prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
    ) -> None:  # fmt: skip
        """Write a new request: its settings, the text so far, and the bias of some tokens."""
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
        counts = torch.bincount(ids[prompt_length:], minlength=len(self.seen))
        counts[ids] += 1
        self.seen.copy_(counts)
        biases = torch.zeros(len(self.bias))
        for token, value in bias:
            biases[token] = value
        self.bias.copy_(biases)

    def put(self, chain: Sequence[int]) -> None:
        """Write a chain that was drafted on the host."""
        self.drafted[: len(chain)].copy_(torch.tensor(chain, dtype=torch.int32))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Rows of truncated probabilities: p = weight / mass where the weight reaches the threshold.

    ``weights`` float32 (rows, vocabulary), 1 for the most likely token. A token stays if the bits of its
    weight, as an integer, reach ``threshold`` int32 (rows,). ``mass`` float32 (rows,) is the sum of the
    weights that stay.
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
        """Return one row, in the same memory, for a draft step to write."""
        part = slice(index, index + 1)
        return Distribution(self.weights[part], self.threshold[part], self.mass[part])

    def top(self, rows: int, count: int) -> tuple[Tensor, Tensor]:
        """Return the ``count`` most likely tokens of the first rows, and their probabilities.

        Both (rows, count), best first.
        """
        weights, tokens = self.weights[:rows].topk(count)
        kept = weights.view(torch.int32) >= self.threshold[:rows, None]
        return tokens, torch.where(kept, weights / self.mass[:rows, None], 0.0)

    def dense(self) -> Tensor:
        """Return the probabilities: float32 (rows, vocabulary)."""
        kept = self.weights.view(torch.int32) >= self.threshold[:, None]
        return torch.where(kept, self.weights / self.mass[:, None], 0.0)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory that kernels pass to one another within a round; ``tiles`` programs share a row.

    ``finished`` and ``done`` are zero before and after every launch.
    """

    tile_max: Tensor  # float32 (rows, tiles): each tile's largest logit, inf if one is NaN
    tile_argmax: Tensor  # int32 (rows, tiles)
    bins: Tensor  # int64 (2, rows, BINS): number of tokens and their mass, heaviest bin first
    totals: Tensor  # int64 (rows,): mass of all tokens
    candidates: Tensor  # int32 (rows, vocabulary): weights in the bin where a threshold falls
    candidate_count: Tensor  # int32 (rows,): number of candidates
    times: Tensor  # float32 (2, rows, tiles): winning times of the race, by residual and by p
    winners: Tensor  # int32 (2, rows, tiles): their tokens
    residuals: Tensor  # int64 (rows, tiles): mass of the residual
    finished: Tensor  # int32 (rows,): programs of a row that have finished
    done: Tensor  # int32 (1,): programs of a launch that have finished

    @classmethod
    def empty(cls, rows: int, vocabulary: int, device: torch.device | str) -> Scratch:
        tiles = -(-vocabulary // TILE)
        int32, int64 = torch.int32, torch.int64
        return cls(
            torch.zeros(rows, tiles, device=device),
            torch.zeros(rows, tiles, dtype=int32, device=device),
            torch.zeros(2, rows, BINS, dtype=int64, device=device),
            torch.zeros(rows, dtype=int64, device=device),
            torch.zeros(rows, vocabulary, dtype=int32, device=device),
            torch.zeros(rows, dtype=int32, device=device),
            torch.zeros(2, rows, tiles, device=device),
            torch.zeros(2, rows, tiles, dtype=int32, device=device),
            torch.zeros(rows, tiles, dtype=int64, device=device),
            torch.zeros(rows, dtype=int32, device=device),
            torch.zeros(1, dtype=int32, device=device),
        )
