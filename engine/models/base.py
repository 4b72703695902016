"""The protocols of a model: compute rows after a state and return logits.

Implementations are in ``engine.backends``. Further protocols are abilities that a model may have; whole
rounds on a device are in ``rounds.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.models.architecture import Architecture
from engine.models.hidden_states import AuxLayer, EmbeddingAndHead
from engine.models.sequence_state import SequenceState
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.noise import Draws
from engine.values import CHECKPOINT_MB


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model. ``context`` is in tokens; ``eos`` are the tokens that end a reply.

    ``undraftable``: why nothing may draft for it here, as a sentence; "" if drafts keep its words.
    ``compiled``: True if its step is compiled for this processor. ``checkpoint_bytes``: the most that
    the saved states of a sequence take, of models whose state cannot be cropped.
    """

    name: str
    architecture: str
    vocabulary: int
    context: int
    parameters: int
    quantization: str
    device: str
    eos: frozenset[int]
    layers: int = 0
    hidden: int = 0
    compiled: bool = False
    undraftable: str = ""
    checkpoint_bytes: int = CHECKPOINT_MB << 20


class Model(Protocol):
    """A causal language model for one sequence at a time."""

    @property
    def info(self) -> ModelInfo: ...

    def new_state(self, context: int) -> SequenceState:
        """Return an empty state for ``context`` tokens. Only this model may use it."""

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """Compute rows of ``tokens`` after ``state`` and return the logits of the ``last`` ones.

        Returns float32 ``(last, vocabulary)``. Mutates the state: ``final`` rows are committed at once,
        others are pending. A row's bits do not depend on the number of tokens (up to 16) in the same
        call, nor on whether they are final.
        """


@runtime_checkable
class HiddenStateModel(Model, Protocol):
    """A model that heads can draft for: it exposes its hidden states, embedding and output head."""

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> SequenceState:
        """See ``Model``; ``forward`` also writes the hidden states at ``aux_layers`` to the state.

        Their bits are as independent of neighbouring rows as the logits'; no logit's bits depend on
        ``aux_layers``. Raises ValueError for a layer that the model lacks.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""


@runtime_checkable
class GeneratingModel(Model, Protocol):
    """A model that generates several tokens in one call, optionally from a trimmed vocabulary."""

    def forward_trimmed(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        trimmed: TrimmedVocabulary,
        *,
        final: bool = True,
    ) -> Tensor:
        """Return ``forward`` with ``last=1``; logits outside of ``trimmed`` are not computed but -inf."""

    def generate(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        depth: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        trimmed: TrimmedVocabulary | None = None,
        *,
        final: bool = True,
    ) -> tuple[list[int], list[float]]:
        """Compute rows of ``tokens`` after ``state`` as ``forward`` does, then generate ``depth`` tokens.

        Each is the most likely one, or sampled with its key of ``draws``. Returns them and their
        probabilities, both among the first ``limit`` tokens of the vocabulary, or those of them in
        ``trimmed``, at least one. Generation ends early with the token that makes their joint probability
        less than ``floor``. All are pending but the last, which has no row.
        """


@runtime_checkable
class TreeModel(Model, Protocol):
    """A model that can compute several continuations of a text at once."""

    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        """Return float32 ``(len(tokens), vocabulary)``; each row sees the text and its ancestors.

        There are at most 16 rows, the root first, whose parent is -1, and each before its children. A
        row has the bits of ``forward`` after the same tokens. No rows may be pending before; all are
        afterwards.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of one sequence in a batch: ``tokens`` after ``state``.

    ``parents`` as in ``TreeModel.forward_tree``; None for a chain. ``final``: rows of a prompt, which are
    committed and need no logits; other rows become pending, and all their logits are returned.
    """

    tokens: Sequence[int]
    state: SequenceState
    parents: Sequence[int] | None = None
    final: bool = False


@runtime_checkable
class BatchModel(Model, Protocol):
    """A model that computes rows of several sequences at once. Its states can ``copy_prefix``.

    Entries have ``parents`` only if it is a ``TreeModel``.
    """

    @property
    def batch_rows(self) -> int:
        """The most rows of a batch."""

    def forward_batch(self, entries: Sequence[Entry]) -> list[Tensor]:
        """Return float32 logits ``(rows, vocabulary)`` of each entry, ``(0, vocabulary)`` of final ones.

        Each row has the bits of ``forward`` or ``forward_tree``, whichever other entries there are.
        States change as they do there; no two entries may have the same state.
        """


@runtime_checkable
class MixtureModel(Model, Protocol):
    """A model whose rows may choose experts, by its ``architecture.mixtures``."""

    architecture: Architecture

    def experts_read(self) -> float:
        """How many different experts the last step read, divided by how many one row chooses."""


@runtime_checkable
class CompiledModel(Model, Protocol):
    """A model whose step is compiled, so that a head's traced program may use its matrices."""

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        """See ``Backbone``."""
