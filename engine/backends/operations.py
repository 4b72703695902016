"""The operations in which heads are written, with three executors.

The eager executor (torch/eager.py) computes an operation when it is called, on any device. The traced one
(native/traced.py) records all operations once; the compiled step then runs them in one call. The captured
one (cuda/heads.py) computes them within a GPU's rounds, which CUDA records once. So which operations a
head calls must not depend on computed numbers. Values are float32 tensors (rows, width), in captured
rounds bf16; no operation changes its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from engine.backends.support import GATED_MLP, HEAD_ATTENTION, HEAD_EXPERTS, Support
from engine.kernels.operands import Candidates, Groups, Number, Rows, Tokens
from engine.kernels.torch.linear import Linear
from engine.models.activations import ACTIVATIONS
from engine.models.architecture import Architecture, Attention, Experts
from engine.models.hidden_states import AuxLayer
from engine.models.rounds import RoundDrafter
from engine.models.weights import ExpertsWeights
from engine.noise import Draws

R = TypeVar("R")

_FIRST_ROOM = 256

SUPPORT = Support(
    "A head",
    HEAD_ATTENTION,
    {**GATED_MLP, **HEAD_EXPERTS},
    ACTIVATIONS,
    ("fp32",),
    options=frozenset({"centred_norms"}),
)
"""What layers of heads may have. Both executors compute it, for layers with keys and values alike."""


class Arithmetic(Protocol):
    """Operations on values alone; training and torch's decoder use them too."""

    def linear(self, linear: Linear, x: Tensor, count: Number | None = None) -> Tensor:
        """Return ``linear`` of the first ``count`` rows of ``x``, or of all."""

    def norm(
        self,
        x: Tensor,
        epsilon: float,
        *,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """Return the RMS norm, times ``scale`` and ``weight``, plus ``bias``."""

    def add(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        """Return ``x + scale * y``; a narrower ``y`` is added to each part of ``x`` of its width."""

    def activate(self, function: str, x: Tensor, times: Tensor | None = None) -> Tensor:
        """Return ``function`` (transformers' name or ``sigmoid``) of ``x``, multiplied by ``times``."""

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply elementwise."""

    def join(self, *parts: Tensor) -> Tensor:
        """Concatenate ``parts`` along their width."""


class Memory(Protocol):
    """Keys and values of a head's own layers for one sequence; it grows as they are stored."""

    def reserve(self, rows: int) -> None:
        """Reserve room for ``rows`` in all, keeping the stored ones."""

    def clear(self) -> None:
        """Free all rows."""


class Draft(Protocol):
    """Tokens drafted one by one after ``chain[0]``; a deep draft begins with the tokens of a shallow one.

    They are drafted in one call, or step by step with tokens sampled elsewhere.
    """

    chain: Tokens
    """Step k chooses ``chain[k + 1]``, which the steps after it read."""
    draws: bool
    """True if ``write`` can sample tokens; otherwise it only takes the most likely ones."""

    def read(self) -> None:
        """Run the operations before the first step alone."""

    def begin(self, pending: int, *, read: bool = True) -> None:
        """Begin a draft after ``pending``; ``read``: run the operations before the first step again."""

    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        """Return the first ``depth`` tokens and their probabilities.

        Each is the most likely one or, with ``draws``, sampled as by ``noise.sample``. The draft ends
        early with the token that makes their joint probability less than ``floor``.
        """

    def logits(self, step: int) -> Tensor:
        """Return float32 (1, vocabulary of the draft), valid until the next step.

        Call steps in order, and set the token in ``chain`` after each.
        """

    def all_logits(self, depth: int) -> Tensor:
        """Return (depth, vocabulary of the draft), if no step depends on chosen tokens."""


class RoundHead(Protocol):
    """A head of which rounds on a device set the operands, there; see ``RoundDrafter``.

    steps, spreads  as in ``RoundDrafter``
    """

    steps: int
    spreads: bool

    @property
    def draft(self) -> Draft: ...

    def places(self, device: torch.device) -> Sequence[Tensor]:
        """Return the operands that a draft reads and ``place`` sets."""

    def place(self, start: Tensor, emitted: Tensor, accepted: Tensor) -> None:
        """Set the operands of ``draft.read``, for ``RoundDrafter.read``."""

    def begin_round(self, depth: int, pending: Tensor) -> None:
        """Set the operands of a draft of ``depth`` tokens after ``pending`` int64 (1,)."""

    def on_target(self, logits: Tensor) -> Tensor:
        """Return the draft's ``logits`` over the target's vocabulary."""


class Operations(Arithmetic, Protocol):
    """Operations that need the target, a memory or positions in the text."""

    chunk: int
    """Rows of a text that are best computed at once."""

    def aux_hidden_states(self, aux_layer: AuxLayer, rows: Rows) -> Tensor:
        """Return the target's hidden states of the tokens at ``rows``."""

    def new_table(self, aux_layer: AuxLayer) -> Tensor:
        """Return zeros, float32: a row more than ``aux_layer`` has, as wide."""

    def keep(self, x: Tensor, table: Tensor, rows: Rows) -> None:
        """Write ``x`` to the rows of ``table`` at the positions of ``rows``."""

    def take(self, table: Tensor, rows: Rows) -> Tensor:
        """Return the rows of ``table`` at the positions of ``rows``."""

    def pick(self, x: Tensor, number: Number) -> Tensor:
        """Return row ``number``: (1, width)."""

    def embed(
        self, table: Tensor | None, tokens: Tokens, first: int = 0, rows: Rows | None = None
    ) -> Tensor:
        """Return rows of ``table`` (None: the target's) for ``rows`` tokens from ``first`` on, or one."""

    def target_logits(
        self, states: Tensor, count: Number, candidates: Candidates | None = None
    ) -> Tensor:
        """Return (count, vocabulary of the target): its output head on normed ``states``.

        An executor may compute those of ``candidates`` alone. ``unroll`` must know them then.
        """

    def convolve(self, x: Tensor, factors: Tensor, base: Tensor, group: int) -> Tensor:
        """Return sums over the rows of ``x`` and those before, one for each tap: (rows, width).

        Tap t has row r - t of ``x`` times ``base[t]`` plus ``factors[r]``. ``base`` is (taps, width),
        ``factors`` (rows, taps * width / group): one for ``group`` columns.
        """

    def rank_candidates(
        self, logits: Tensor, context: Tensor, table: Tensor, candidates: Candidates, count: int
    ) -> Tensor:
        """Return the ``count`` highest ``logits``, each plus ``context (1, rank)`` times its token's row.

        That row is of ``table (vocabulary, rank)``. Others are -inf, or absent, as for ``group_logits``.
        """

    def group_logits(self, output: Linear, x: Tensor, scores: Tensor, groups: Groups) -> Tensor:
        """Return logits (1, vocabulary): ``output`` of ``x``, for the groups of highest ``scores``.

        ``output`` has its tokens in the order of ``groups``; ``scores`` are (1, groups). Other tokens'
        logits are -inf, or absent, as ``target_logits`` has candidates.
        """

    def new_memory(self, architecture: Architecture, device: torch.device) -> Memory:
        """Return a memory for layers that compute on ``device``."""

    def remember(self, keys_values: Tensor, memory: Memory, norms: Tensor, rows: Rows) -> None:
        """Store keys and values of all layers, whose columns are keys, values, keys, ...

        ``norms`` (layers, kv_heads, head_dim) are weights for the keys, which are then rotated.
        """

    def attend(
        self, qkv: Tensor, memory: Memory, layer: int, norms: Tensor | None, rows: Rows
    ) -> Tensor:
        """Return attention (rows, heads * head_dim) of scaled queries to the stored rows and to these.

        First queries and keys are normed by ``norms (heads + kv_heads, head_dim)`` and rotated, and keys
        and values stored. Each row sees all rows up to itself, or up to the last if the layer is not
        causal; with a window, from so many up to itself on.
        """

    def attend_to_target(
        self,
        queries: Tensor,
        attention: Attention,
        epsilon: float,
        norms: Tensor | None,
        rows: Rows,
    ) -> Tensor:
        """Return attention (1, heads * head_dim) of scaled queries to the target's keys and values.

        They are those of its last layer with a window, if ``attention`` has one, else without. The row
        sees the tokens before its position, within the window. First the queries are normed by ``norms
        (heads, head_dim)`` and rotated.
        """

    def experts(self, spec: Experts, weights: ExpertsWeights, x: Tensor) -> Tensor:
        """Return the mixture (rows, hidden) of normed ``x``."""

    def unroll(
        self,
        most: int,
        read: Callable[[], R],
        steps: Callable[[Tokens, R], Iterator[Tensor]],
        target_ids: Tensor | Candidates | None = None,
    ) -> Draft:
        """Return a draft of at most ``most`` tokens.

        ``read`` computes the input of the steps. ``steps`` yields the logits (1, vocabulary of the draft)
        of one token after another; its chain has the tokens chosen before. ``target_ids``: those of
        the draft's tokens, or the candidates of ``target_logits``; None if they are the same.
        """

    def round_drafter(self, head: RoundHead) -> RoundDrafter | None:
        """Return what drafts with ``head`` inside rounds; None if it must draft from the host."""


def room_for(rows: int) -> int:
    """Return the positions to allocate in a memory that needs ``rows``."""
    return max(_FIRST_ROOM, 1 << (rows - 1).bit_length())


def table_like(rows: Tensor) -> Tensor:
    """Return what ``Operations.new_table`` does for an aux layer's ``rows``."""
    return rows.new_zeros(len(rows) + 1, rows.shape[1], dtype=torch.float32)
