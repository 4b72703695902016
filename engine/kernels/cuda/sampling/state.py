"""What one sequence keeps on the device between rounds, and where in it everything accepted.

A CUDA graph replays fixed addresses, so everything that changes between rounds is in tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.cuda.trees import TREE_SHAPE, tree_table
from engine.values import MAX_ROWS
from engine.values.sampling import Sampling


@dataclass(frozen=True, slots=True)
class SamplingState:
    """The sampling state of one sequence on the device. Acceptance advances it.

    ``seed_and_length`` int64 (3,): seed, tokens in the text (the position of row 0), rank of the last
    token by top-k. ``sampling_params`` float64 (6,): temperature, top-p (1.5 if off: never reached),
    min-p, repetition, presence, frequency penalty.
    ``drafted`` int32 (16,): the tokens of this round's chain or tree; ``tree``: see ``trees``.
    ``token_counts`` int32 (vocabulary,): 0 for a token that is not in the text, else 1 + its count in the
    output. ``bias`` float32 (vocabulary,): what is added to the logits.

    What launches pass on, for each of 16 rows: ``max_logits`` float32 and their tokens ``argmax`` int64;
    ``winners`` int64 (2, 16), of the races by residual and by p; ``residual_mass`` int64; ``scales``
    float64, of the prefix before the row. ``accepted_rows`` int64: those of a tree's accepted path, from
    the root down; then any.
    """

    seed_and_length: Tensor
    sampling_params: Tensor
    drafted: Tensor
    token_counts: Tensor
    bias: Tensor
    max_logits: Tensor
    argmax: Tensor
    winners: Tensor
    residual_mass: Tensor
    scales: Tensor
    tree: Tensor
    accepted_rows: Tensor

    @property
    def length(self) -> Tensor:
        """Return the number of tokens in the text: int64 (1,), a view."""
        return self.seed_and_length[1:2]

    @classmethod
    def empty(cls, vocabulary: int, device: torch.device | str) -> SamplingState:
        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            zeros(3), zeros(6, dtype=torch.float64), zeros(MAX_ROWS, dtype=torch.int32),
            zeros(vocabulary, dtype=torch.int32), zeros(vocabulary, dtype=torch.float32),
            zeros(MAX_ROWS, dtype=torch.float32), zeros(MAX_ROWS), zeros(2, MAX_ROWS), zeros(MAX_ROWS),
            zeros(MAX_ROWS, dtype=torch.float64), zeros(*TREE_SHAPE, dtype=torch.int32), zeros(MAX_ROWS),
        )  # fmt: skip

    def begin(
        self, sampling: Sampling, seed: int, tokens: list[int], prompt_length: int,
        bias: Sequence[tuple[int, float]] = (),
    ) -> None:  # fmt: skip
        """Write a new request: its settings, the text so far, and the bias of some tokens."""
        signed = (seed + (1 << 63)) % (1 << 64) - (1 << 63)
        last = min(sampling.top_k or len(self.token_counts), len(self.token_counts)) - 1
        self.seed_and_length.copy_(torch.tensor([signed, len(tokens), last]))
        top_p = sampling.top_p if sampling.top_p < 1 else 1.5
        settings = (
            sampling.temperature, top_p, sampling.min_p, sampling.repetition_penalty,
            sampling.presence_penalty, sampling.frequency_penalty,
        )  # fmt: skip
        self.sampling_params.copy_(torch.tensor(settings, dtype=torch.float64))
        ids = torch.tensor(tokens, dtype=torch.long)
        counts = torch.bincount(ids[prompt_length:], minlength=len(self.token_counts))
        counts[ids] += 1
        self.token_counts.copy_(counts)
        biases = torch.zeros(len(self.bias))
        for token, value in bias:
            biases[token] = value
        self.bias.copy_(biases)

    def put(self, drafted: Sequence[int], parents: Sequence[int] | None = None) -> None:
        """Write what was drafted on the host: a chain, or a tree with the ``parents`` of its rows."""
        self.drafted[: len(drafted)].copy_(torch.tensor(drafted, dtype=torch.int32))
        if parents is not None:
            self.tree.copy_(tree_table(parents))
