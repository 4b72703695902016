"""A static KV cache whose length two sides know: the host that feeds it, and the device that reads it."""

from __future__ import annotations

from engine.kernels.cuda.kv_cache import StaticKVCache
from engine.machine.failures import device_errors
from engine.models.cache import Positions
from engine.models.hidden_states import Features


class DeviceCache(Positions):
    """The host's view of a ``StaticKVCache``. Never waits for the device.

    ``features`` have one row more than positions: there goes what a round computes beyond the last.
    """

    def __init__(self, static: StaticKVCache, features: Features | None = None) -> None:
        super().__init__(static.capacity, features)
        self.static = static

    def crop(self, length: int) -> None:
        super().crop(length)
        self.set_length(length)

    def set_length(self, length: int) -> None:
        """Steps on the device have left ``length`` valid positions."""
        with device_errors(self.static.length.device):
            self.static.set_length(length)
        self.length = length
