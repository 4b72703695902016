"""The target model and its state of the text: extend, verify, commit.

The state holds every token but the pending one. Verification computes rows of the pending token and the
drafted ones; ``commit`` keeps those on the accepted path.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.backends.cuda import RUNNERS
from engine.decoding.context import common_prefix
from engine.events import Tree
from engine.models.base import CompiledModel, Entry, HiddenStateModel, Model, TreeModel
from engine.models.hidden_states import AuxLayer, EmbeddingAndHead
from engine.models.rounds import RoundDrafter, RoundModel, RoundRunner
from engine.values import MAX_DEPTH


class Target:
    """A model and its state. It is the ``Backbone`` that heads read.

    ``keys`` are the content keys of the state's tokens, see ``Prompt``.
    """

    def __init__(
        self, model: Model, aux_layers: Sequence[AuxLayer] = (), *, captures: bool = True
    ) -> None:
        """``aux_layers``: which hidden states are kept with the state, for a ``HiddenStateModel``.

        ``captures``: as in ``RoundModel.round_runner``.
        """
        self.model, self._captures = model, captures
        # Once: isinstance looks up all of a protocol's members each time.
        self._trees = model if isinstance(model, TreeModel) else None
        self._rounds = model if isinstance(model, RoundModel) else None
        self._embedding_and_head = (
            model.embedding_and_head if isinstance(model, CompiledModel) else None
        )
        context = model.info.context
        self.state = (
            _with_hidden_states(model).new_state(context, aux_layers)
            if aux_layers
            else model.new_state(context)
        )
        self.keys: list[int] = []
        self._unverified: list[int] = []
        self._runners: dict[RoundDrafter | None, RoundRunner] = {}  # the last used one last

    @property
    def context(self) -> int:
        return self.model.info.context

    @property
    def length(self) -> int:
        return len(self.keys)

    def aux_hidden_states(self, aux_layer: AuxLayer, start: int, end: int) -> Tensor:
        """See ``Backbone``. Raises KeyError for a layer not in ``aux_layers``."""
        if not 0 <= start <= end <= self.length:
            raise ValueError(f"tokens {start} to {end} of {self.length} have no hidden states")
        return self.aux_buffer(aux_layer)[start:end].float()

    def aux_buffer(self, aux_layer: AuxLayer) -> Tensor:
        """See ``Backbone``. Raises KeyError for a layer not in ``aux_layers``."""
        if self.state.aux is None:
            raise KeyError(aux_layer)
        return self.state.aux.at(aux_layer)

    def keys_values(self, slides: bool) -> tuple[Tensor, Tensor]:
        keys, values = self.state.keys_values(slides, self.length)
        return keys.float(), values.float()

    def kv_buffers(self, slides: bool) -> tuple[Tensor, Tensor]:
        return self.state.kv_buffers(slides)

    def head_operations(self) -> object | None:
        return None if self._rounds is None else self._rounds.head_operations(self.state)

    @property
    def embedding_and_head(self) -> EmbeddingAndHead | None:
        return self._embedding_and_head

    def embed(self, tokens: Sequence[int]) -> Tensor:
        return _with_hidden_states(self.model).embed(tokens)

    def logits(self, normed: Tensor) -> Tensor:
        return _with_hidden_states(self.model).logits(normed)

    def reuse(self, keys: list[int]) -> int:
        """Keep the common prefix with ``keys``, forget the rest; return how many tokens are left."""
        return self.rewind(common_prefix(self.keys, keys))

    def extend(self, tokens: Sequence[int], keys: Sequence[int] | None = None) -> None:
        """Prefill ``tokens`` and compute no logits. ``keys``: theirs; None: the tokens themselves."""
        if tokens:
            self.model.forward(tokens, self.state, last=0)
            self.keys.extend(tokens if keys is None else keys)

    @property
    def tree_nodes(self) -> int:
        room = self.context - self.length - 1
        return 0 if self._trees is None else min(MAX_DEPTH, room)

    def verify(self, pending: int, tree: Tree) -> Tensor:
        """Return logits after the pending token and each node: float32 (nodes + 1, vocabulary).

        Raises ValueError for a chain of more than MAX_DEPTH nodes, since further rows may change the bits
        of all, and for a tree with branches of more than ``tree_nodes``.
        """
        part = self.verify_entry(pending, tree)
        if part.parents is None:
            rows = len(part.tokens)
            return self.model.forward(part.tokens, self.state, last=rows, final=False)
        assert self._trees is not None
        return self._trees.forward_tree(part.tokens, part.parents, self.state)

    def verify_entry(self, pending: int, tree: Tree) -> Entry:
        """Return the rows that ``verify`` computes as an entry of a batch. Raises as ``verify``."""
        self.state.commit(())  # an abandoned verification may have left rows
        self._unverified = [pending, *tree.tokens]
        most = MAX_DEPTH if tree.is_chain else self.tree_nodes
        if len(tree) > most:
            raise ValueError(f"this target verifies {most} drafted tokens at most")
        if tree.is_chain:
            return Entry(self._unverified, self.state)
        return Entry(self._unverified, self.state, tree.row_parents)

    def commit(self, path: Sequence[int]) -> None:
        """Keep the pending token and the nodes on ``path``, forget the rest."""
        rows = [0, *(node + 1 for node in path)]
        self.keys.extend(self._unverified[row] for row in rows)
        self.state.commit(rows)
        self._unverified = []

    @property
    def runs_rounds(self) -> bool:
        """True if whole rounds run on the model's device: drafting, verification and acceptance."""
        return self._rounds is not None

    def round_runner(self, drafter: RoundDrafter | None) -> RoundRunner:
        """Return the runner of rounds on this state; some are kept, since capturing graphs takes time.

        Only for a target that ``runs_rounds``.
        """
        assert self._rounds is not None
        if drafter is None and self._runners:
            return next(reversed(self._runners.values()))  # any can go without its drafter
        runner = self._runners.pop(drafter, None)
        if runner is None:
            self._runners.pop(None, None)  # a drafter's runner serves rounds without one too
            if len(self._runners) == RUNNERS:
                del self._runners[next(iter(self._runners))]
            runner = self._rounds.round_runner(self.state, drafter, captures=self._captures)
        self._runners[drafter] = runner
        return runner

    def forget_runner(self, drafter: RoundDrafter) -> None:
        """Free the runner in which ``drafter`` drafts, if there is one: it holds its memory."""
        self._runners.pop(drafter, None)

    def advance(self, tokens: Sequence[int]) -> None:
        """Note that rounds on the device have appended ``tokens`` to the state."""
        self.keys.extend(tokens)
        self.state.settle(self.length)

    def copy_prefix(self, other: Target, length: int) -> None:
        """Copy the first ``length`` tokens from ``other``, as far as its state allows.

        The tokens here must be a prefix of those of ``other``.
        """
        assert self.keys == other.keys[: self.length] and length <= other.length
        length = self.state.copy_prefix(other.state, length)
        self.keys.extend(other.keys[self.length : length])

    def save_checkpoint(self) -> None:
        """Make the current length reachable for later texts that begin with these tokens."""
        self.state.save_checkpoint()

    def clear(self) -> None:
        """Empty the state."""
        self.rewind(0)

    def rewind(self, length: int) -> int:
        """Keep the first ``length`` tokens, or fewer if the state cannot rewind to that length; forget
        the others and unverified rows. Return how many tokens are left."""
        length = self.state.reachable(length)
        self.state.rewind(length)
        del self.keys[length:]
        self._unverified = []
        return length


def _with_hidden_states(model: Model) -> HiddenStateModel:
    if not isinstance(model, HiddenStateModel):
        raise TypeError(f"{type(model).__name__} shows no hidden states")
    return model
