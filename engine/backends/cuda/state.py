"""A sequence's state whose length the host and the device both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.kernels.cuda.kv_cache import LayerKV, StaticKVCache, move_rows
from engine.kernels.cuda.recurrence import Memories
from engine.machine.devices import device_errors
from engine.models.architecture import Rope
from engine.models.hidden_states import AuxHiddenStates
from engine.models.prompt_content import PromptContent
from engine.models.rotation import rotations_in_images
from engine.models.sequence_state import Checkpoints, SequenceState


class DeviceState(SequenceState):
    """The host's view of a ``StaticKVCache``, and of recurrent layers' ``Memories`` if the model has any.

    It waits for the device only to go back, copy and save where there are memories: a device alone knows
    how far its rounds have taken them. They can go back to rows since the last step's certain ones,
    checkpoints and the beginning.

    ``aux`` has one row more than positions, for rows that a round computes beyond the last.
    """

    def __init__(
        self,
        static: StaticKVCache,
        aux: AuxHiddenStates | None,
        memories: Memories | None,
        checkpoint_bytes: int,
        rotations: Mapping[tuple[Rope, int], Tensor],
        last_slots: Mapping[bool, int],
    ) -> None:
        """``rotations``: the model's, of ropes that images change, by ropes and widths of heads, see
        ``cosines``. The state has its own. ``last_slots``: see ``Architecture``."""
        self._plain = rotations
        self._content: PromptContent | None = None
        self.rotations = {key: table.clone() for key, table in rotations.items()}
        super().__init__(static.capacity, aux)
        self.static, self.memories, self._last_slots = static, memories, last_slots
        self._checkpoints: Checkpoints[list[Tensor]] = Checkpoints(checkpoint_bytes)

    @property
    def content(self) -> PromptContent | None:
        """See ``SequenceState``. Setting it places the rows in images."""
        return self._content

    @content.setter
    def content(self, content: PromptContent | None) -> None:
        if content is self._content:
            return
        self._content = content
        for key, table in self.rotations.items():
            plain = self._plain[key]
            if content is None:
                table.copy_(plain)
            else:
                places = content.positions(0, len(table))
                placed = rotations_in_images(key[0], torch.view_as_complex(plain), places)
                table.copy_(torch.view_as_real(placed))

    def has_images(self, rows: int) -> bool:
        """Return whether some of the next ``rows`` are those of an image."""
        content = self.content
        return content is not None and any(content.embeddings(self.end, self.end + rows))

    @property
    def crops(self) -> bool:
        return self.memories is None

    @property
    def changed(self) -> list[Tensor]:
        """Return what a round changes that later rounds read, but for rows of the cache."""
        if self.memories is None:
            return [self.static.length]
        return [self.static.length, self.memories.committed, *self.memories.tensors]

    def append(self, rows: int, *, final: bool) -> None:
        super().append(rows, final=final)
        self._update_device()

    def settle(self, length: int) -> None:
        """See ``SequenceState``. Rounds on the device may have advanced beyond the host's length."""
        super().settle(length)
        self._update_device()

    def last(self, slides: bool) -> LayerKV:
        """Return the keys and values of the last layer that slides, or does not."""
        return self.static.slots[self._last_slots[slides]]

    def keys_values(self, slides: bool, end: int) -> tuple[Tensor, Tensor]:
        keys, values = (part[:, :end] for part in self.last(slides).floats())
        return keys, values

    def move(self, start: Tensor, rows: Tensor) -> None:
        """Move rows, their hidden states and inputs; see ``StaticKVCache.move``."""
        self.static.move(start, rows)
        if self.memories is not None:
            self.memories.move(start, rows)
        if self.aux is not None:
            move_rows(self.aux.rows, 1, start, rows)

    def _keep_path(self, rows: Sequence[int]) -> None:
        device = self.static.length.device
        with device_errors(device):
            start = torch.tensor([self.length], device=device)
            self.move(start, torch.tensor(rows, device=device))

    def reachable(self, length: int) -> int:
        length = super().reachable(length)
        return length if self._holds(length) else self._checkpoints.reachable(length)

    def rewind(self, length: int) -> None:
        held = self._holds(length)
        super().rewind(length)
        if self.memories is not None and not held:
            with device_errors(self.static.length.device):
                if length:
                    self.memories.copy_(self._checkpoints.at(length))
                else:
                    self.memories.clear()
        self._checkpoints.forget_after(length)

    def _holds(self, length: int) -> bool:
        """Return whether the memories are those of ``length`` rows, or of less and the rows since."""
        if self.memories is None:
            return True
        with device_errors(self.static.length.device):
            return self.memories.base() <= length

    def save_checkpoint(self) -> None:
        if self.memories is None or not self.length or not self._holds(self.length):
            return
        with device_errors(self.static.length.device):
            saved = [each.clone() for each in self.memories.tensors]
        self._checkpoints.save(self.length, saved, sum(each.nbytes for each in saved))

    def copy_prefix(self, other: SequenceState, length: int) -> int:
        """See ``SequenceState``. Rounds that run ahead there only write beyond ``length``."""
        assert isinstance(other, DeviceState) and length <= other.length
        length = other.reachable(length)
        if length <= self.length:
            return self.length
        rows = slice(self.length, length)
        with device_errors(self.static.length.device):
            for own, its in zip(self.static.slots, other.static.slots, strict=True):
                for copy, source in zip(own.tensors, its.tensors, strict=True):
                    copy[:, rows] = source[:, rows]
            if self.aux is not None and other.aux is not None:
                self.aux.rows[:, rows] = other.aux.rows[:, rows]
            if self.memories is not None and other.memories is not None:
                held = other._holds(length)
                saved = other.memories.tensors if held else other._checkpoints.at(length)
                self.memories.copy_(saved)
        self.settle(length)
        return length

    def move_to(self, length: Tensor) -> None:
        """Set the position of the next row within a round; all rows before it are certain."""
        self.static.length.copy_(length)
        if self.memories is not None:
            self.memories.committed.copy_(length)

    def _update_device(self) -> None:
        """Write the position of the next row to the device, and how many rows are certain."""
        with device_errors(self.static.length.device):
            self.static.set_length(self.end)
            if self.memories is not None:
                self.memories.committed.fill_(self.length)


Step = Sequence[tuple[DeviceState, int, Tensor | None]]
"""The states of a step's sequences, how many of its rows each has, and the tree that these form, see
``engine.kernels.cuda.trees``; None: a chain."""
