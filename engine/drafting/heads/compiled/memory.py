"""Keys and values of a head's own layers, as the compiled step reads them."""

from __future__ import annotations

import torch

from engine.kernels.native.library import LANES
from engine.kernels.native.tape import Store
from engine.models.architecture import Architecture
from engine.models.rotation import cosines

_FIRST_ROOM = 256


class Memory:
    """One sequence's, float32; grows as they come. ``stores`` tell programs where a layer's are.

    keys (layers, kv_heads, room / 16, head_dim, 16), values (layers, kv_heads, room, head_dim).
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self.stores = [Store() for _ in architecture.layers]
        self.clear()

    @property
    def room(self) -> int:
        return self.values.shape[2]

    def clear(self) -> None:
        """Frees all."""
        a = self._architecture
        self.keys = torch.zeros(len(a.layers), a.kv_heads, 0, a.head_dim, LANES)
        self.values = torch.zeros(len(a.layers), a.kv_heads, 0, a.head_dim)

    def reserve(self, rows: int) -> None:
        """Makes room for ``rows`` in all, keeping what is there."""
        if rows <= self.room:
            return
        a, room = self._architecture, max(_FIRST_ROOM, 1 << (rows - 1).bit_length())
        outer, more = (len(a.layers), a.kv_heads), room - self.room
        keys = torch.zeros(*outer, more // LANES, a.head_dim, LANES)
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, torch.zeros(*outer, more, a.head_dim)], dim=2)
        rope = a.layers[0].rope
        assert rope is not None
        self.turns = cosines(rope, a.head_dim, room)
        for store, keys, values in zip(self.stores, self.keys, self.values, strict=True):
            store.move(keys, values, self.turns)
