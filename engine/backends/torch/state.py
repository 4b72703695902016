"""The state of a sequence in the torch executor: a KV cache, and a memory for each recurrent layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.backends.torch import gated_delta, mamba2, short_convolution
from engine.backends.torch.recurrence import Memory, RecurrentState
from engine.models.architecture import Architecture, GatedDeltaNet, Mamba2, ShortConvolution
from engine.models.hidden_states import AuxHiddenStates
from engine.models.sequence_state import Checkpoints, KVCache
from engine.values import CHECKPOINT_MB

_MEMORIES: Mapping[type, Callable[[Any, torch.device], Memory]] = {
    GatedDeltaNet: gated_delta.Memory.empty,
    Mamba2: mamba2.Memory.empty,
    ShortConvolution: short_convolution.Past.empty,
}
"""Make what each recurrent mixer keeps before the first row."""


def new_memory(mixer: object, device: torch.device) -> RecurrentState[Memory]:
    """Return the state of a recurrent mixer before the first row."""
    return RecurrentState(_MEMORIES[type(mixer)](mixer, device))


class TorchState(KVCache):
    """Keys and values of attention layers, one slot each, in order; memories of recurrent layers.

    A sequence with recurrent layers can be rewound only to its committed length, its checkpoints and the
    beginning.
    """

    def __init__(
        self,
        architecture: Architecture,
        context: int,
        dtype: torch.dtype,
        device: torch.device,
        aux: AuxHiddenStates | None = None,
        checkpoint_bytes: int = CHECKPOINT_MB << 20,
    ) -> None:
        mixers = [spec.mixer for spec in architecture.layers]
        sizes = architecture.kv_sizes
        super().__init__(sizes, context=context, dtype=dtype, device=device, aux=aux)
        self.slots = architecture.kv_slots
        self._last_slots = architecture.last_slots
        self.memories = {
            layer: new_memory(mixer, device)
            for layer, mixer in enumerate(mixers)
            if type(mixer) in _MEMORIES
        }
        self._checkpoints: Checkpoints[Sequence[Memory]] = Checkpoints(checkpoint_bytes)

    def keys_values(self, slides: bool, end: int) -> tuple[Tensor, Tensor]:
        keys, values = (
            each.transpose(0, 1).flatten(1, 2)[:, :end]
            for each in self.pages(self._last_slots[slides], end)
        )
        return keys, values

    @property
    def crops(self) -> bool:
        return not self.memories

    def commit(self, rows: Sequence[int]) -> None:
        super().commit(rows)
        for memory in self.memories.values():
            memory.commit(rows)

    def reachable(self, length: int) -> int:
        length = super().reachable(length)
        if self.crops or length == self.length:
            return length
        return self._checkpoints.reachable(length)

    def rewind(self, length: int) -> None:
        before = self.length
        super().rewind(length)
        for number, memory in enumerate(self.memories.values()):
            if length == before:
                memory.commit(())
            else:
                memory.restore(self._checkpoints.at(length)[number] if length else None)
        self._checkpoints.forget_after(length)

    def save_checkpoint(self) -> None:
        if not self.memories or not self.length:
            return
        saved = [each.committed for each in self.memories.values()]
        self._checkpoints.save(self.length, saved, sum(each.bytes for each in saved))
