"""The switch of the OpenAI-compatible endpoint: on or off, from any thread, while the app runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from engine.errors import ForetokenError


class ApiKeyMissing(ForetokenError):
    """The endpoint would be open to the network without a key."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How the API treats models that are not in memory.

    ``on_demand``: it loads what a request names, if that is on the disk. ``idle_unload``: minutes without
    a request after which it frees their memory; None: never.
    """

    on_demand: bool = False
    idle_unload: float | None = None


class ApiSwitch:
    """Whether the endpoint answers. Shared by the Server page and the API.

    ``needs_key`` is set when the app listens beyond this machine: then the endpoint can only be
    switched on if there is a key.
    """

    def __init__(
        self, on: bool = False, *, api_key: str | None = None, needs_key: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self._on = False
        self.api_key = api_key
        self.needs_key = needs_key
        self.set(on)

    @property
    def on(self) -> bool:
        with self._lock:
            return self._on

    def set(self, on: bool) -> None:
        """Switch; raises ``ApiKeyMissing`` where that would leave the endpoint unguarded."""
        if on and self.needs_key and not self.api_key:
            raise ApiKeyMissing(
                "Foretoken listens beyond this machine, so the API needs a key. Start it with "
                "--api-key KEY, or with --host 127.0.0.1 for this machine only."
            )
        with self._lock:
            self._on = on
