"""What the engine needs of a model: compute rows behind a state, get logits back.

Its implementations are in ``engine.backends``. What more a model can do, it declares by the protocols
below; whole rounds on a device are in ``rounds.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from engine.models.hidden_states import AuxLayer, EmbeddingAndHead
from engine.models.sequence_state import SequenceState
from engine.models.trimmed_vocabulary import TrimmedVocabulary
from engine.noise import Draws


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model is. ``context`` in tokens; ``eos`` are the tokens that end a reply.

    ``compiled``: whether its step is the one compiled for this processor.
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


class Model(Protocol):
    """A causal language model for one sequence at a time."""

    @property
    def info(self) -> ModelInfo: ...

    def new_state(self, context: int) -> SequenceState:
        """Return an empty state for ``context`` tokens, which only this model may use."""

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """Compute rows of ``tokens`` behind ``state`` and return the logits of the ``last`` ones.

        Returns float32 ``(last, vocabulary)``. Mutates the state: ``final`` rows are committed at once,
        others are pending. A row's bits do not depend on how many tokens (up to 16) came in the same
        call, nor on whether they are final.
        """


@runtime_checkable
class HiddenStateModel(Model, Protocol):
    """A model that heads can draft for: it shows its hidden states, embedding and output head."""

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> SequenceState:
        """As of ``Model``; ``forward`` then fills the state's features at ``aux_layers`` too.

        A feature's bits are as independent of its neighbours as a logit's; no logit's bits depend on
        ``aux_layers``. Raises ValueError for a layer that the model lacks.
        """

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``."""


@runtime_checkable
class WritingModel(Model, Protocol):
    """A model that writes on by itself, without a call for each token, among some if asked."""

    def forward_among(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        among: TrimmedVocabulary,
        *,
        final: bool = True,
    ) -> Tensor:
        """As ``forward`` with ``last=1``; only logits of ``among`` are computed, others are -inf."""

    def write_on(
        self,
        tokens: Sequence[int],
        state: SequenceState,
        depth: int,
        limit: int,
        draws: Draws | None = None,
        floor: float = 0.0,
        among: TrimmedVocabulary | None = None,
        *,
        final: bool = True,
    ) -> tuple[list[int], list[float]]:
        """Compute rows of ``tokens`` behind ``state`` as ``forward`` does, then choose ``depth`` tokens.

        Each is the likeliest one, or drawn as ``draws`` says, which has a key for each. Returns them
        and their probabilities, both among the first ``limit`` tokens of the vocabulary, or those of
        them that ``among`` holds, at least one. They end with one that makes all of them together
        less likely than ``floor``. All are pending but the last, which has no row.
        """


@runtime_checkable
class TreeModel(Model, Protocol):
    """A model that can read several continuations of a text at once."""

    def forward_tree(
        self, tokens: Sequence[int], parents: Sequence[int], state: SequenceState
    ) -> Tensor:
        """Logits float32 ``(len(tokens), vocabulary)``; each row sees the text and its ancestors.

        At most 16 rows, the root first, whose parent is -1; each comes before its children. A row's
        bits are those it has in ``forward`` behind the same tokens. All are pending then, and none
        were before.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of one sequence in a pass that several share: ``tokens`` behind ``state``.

    ``parents`` as in ``TreeModel.forward_tree``; None where they follow one another. ``final``: rows of
    a prompt, which are committed and whose logits nobody wants; of others, which are pending then, all
    are wanted.
    """

    tokens: Sequence[int]
    state: SequenceState
    parents: Sequence[int] | None = None
    final: bool = False


@runtime_checkable
class BatchModel(TreeModel, Protocol):
    """A model that computes rows of several sequences in one pass. Its states can ``copy_prefix``."""

    @property
    def batch_rows(self) -> int:
        """The most rows that all parts of a pass may have together."""

    def forward_batch(self, parts: Sequence[Entry]) -> list[Tensor]:
        """Logits float32 ``(rows, vocabulary)`` of each part, ``(0, vocabulary)`` where none are wanted.

        Each row has the bits it has in ``forward`` or ``forward_tree``, whoever the others belong to. No
        two parts have the same state; states change as they do there.
        """


@runtime_checkable
class CompiledModel(Model, Protocol):
    """A model whose step is compiled, so that what is compiled for a head may use its matrices."""

    @property
    def embedding_and_head(self) -> EmbeddingAndHead:
        """See ``Backbone``."""
