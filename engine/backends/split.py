"""A decoder in two parts: its first layers on the CPU, in the compiled kernels, and the others on a GPU.

Both parts compute a row with the same bits whatever rows are beside it. The hidden states of these rows
go from one to the other, each rounded by itself, so that holds for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.native.decoder import NativeDecoder
from engine.backends.torch.decoder import TorchDecoder
from engine.models.architecture import Architecture, Attention
from engine.models.base import ModelInfo
from engine.models.hidden_states import AuxLayer
from engine.models.sequence_state import SequenceState
from engine.models.tensor_shapes import Names
from engine.models.weight_loading import WeightSource


def why_not_split(architecture: Architecture) -> str | None:
    """Return why the layers cannot be in two parts, as a sentence for people, or None."""
    mixers = [spec.mixer for spec in architecture.layers]
    if any(isinstance(each, Attention) and each.shared_with is not None for each in mixers):
        return "its later layers read keys and values of earlier ones."
    if architecture.per_layer_width is not None:
        return "each of its layers has an input of its own."
    return None


def first_layers(architecture: Architecture, count: int) -> Architecture:
    """Return the part with the first ``count`` layers. Its output head is never used, so it has none of
    its own."""
    return replace(architecture, layers=architecture.layers[:count], tied=True)


def later_layers(
    architecture: Architecture, names: Names, tensor: WeightSource, count: int
) -> tuple[Architecture, Names, WeightSource]:
    """Return the part with the layers from ``count`` on, and the source of its tensors. It embeds no
    tokens, so the output head stands in place of the embedding."""
    head = names.embedding if architecture.tied else names.head
    rest = replace(architecture, layers=architecture.layers[count:], tied=True)
    return (
        rest,
        replace(names, first=count),
        lambda name: tensor(head if name == names.embedding else name),
    )


class SplitState(SequenceState):
    """The states of both parts, which hold the same tokens."""

    def __init__(self, first: SequenceState, rest: SequenceState) -> None:
        super().__init__(min(first.context, rest.context))
        self.first, self.rest = first, rest

    @property
    def crops(self) -> bool:
        return self.first.crops and self.rest.crops

    def commit(self, rows: Sequence[int]) -> None:
        super().commit(rows)
        self.first.commit(rows)
        self.rest.commit(rows)

    def reachable(self, length: int) -> int:
        """See ``SequenceState``: the greatest length that both parts reach."""
        while True:
            found = self.rest.reachable(self.first.reachable(length))
            if found == length or found == self.first.reachable(found):
                return found
            length = found

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.first.rewind(length)
        self.rest.rewind(length)

    def save_checkpoint(self) -> None:
        self.first.save_checkpoint()
        self.rest.save_checkpoint()


class SplitDecoder:
    """See ``Model``. ``first`` computes the layers on the CPU, ``rest`` the others and the logits."""

    def __init__(self, first: NativeDecoder, rest: CudaDecoder | TorchDecoder) -> None:
        self.first, self.rest = first, rest
        self._seam = AuxLayer(len(first.architecture.layers))  # what leaves the first part

    @property
    def info(self) -> ModelInfo:
        return self.rest.info

    def new_state(self, context: int) -> SplitState:
        return SplitState(
            self.first.new_state(context, (self._seam,)), self.rest.new_state(context)
        )

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model``. Logits are in main memory, where they are sampled."""
        assert isinstance(state, SplitState) and state.first.aux is not None
        rows = slice(state.end, state.end + len(tokens))
        self.first.forward(tokens, state.first, last=0, final=final)
        x = state.first.aux.at(self._seam)[rows]
        logits = self.rest.forward_rows(x, state.rest, last=last, final=final)
        state.append(len(tokens), final=final)
        return logits.cpu()
