"""A static KV cache whose length two sides know: the host that feeds it, and the device that reads it."""

from __future__ import annotations

from engine.cache import Positions
from engine.kernels.cuda.kv_cache import StaticKVCache
from engine.models.cuda.failures import told


class DeviceCache(Positions):
    """The host's view of a ``StaticKVCache``. Never waits for the device."""

    def __init__(self, static: StaticKVCache) -> None:
        super().__init__(static.capacity)
        self.static = static

    def crop(self, length: int) -> None:
        super().crop(length)
        self.settle(length)

    def settle(self, length: int) -> None:
        """Takes over what steps on the device have left: ``length`` positions are valid now."""
        with told(self.static.length.device):
            self.static.set_length(length)
        self.length = length
