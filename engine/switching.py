"""Combine the local engine and a remote one: the loaded pair decides which of them answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api import Engine, Generation, Loaded, LoadRequest, TopToken, Watcher
from engine.loading.catalog import Catalog
from engine.local.engine import LocalEngine
from engine.request import Request

if TYPE_CHECKING:
    from engine.remote.engine import RemoteEngine


class SwitchingEngine:
    """An ``engine.api.Engine`` that holds one pair here, or a connection to a server."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        *,
        models: Path | None = None,
        remembered: Path | None = None,
        measured: Path | None = None,
        grammars: bool = False,
    ) -> None:
        """As for ``LocalEngine``."""
        self._catalog = catalog
        self.local = LocalEngine(
            catalog, models=models, remembered=remembered, measured=measured, grammars=grammars
        )
        self._remote: RemoteEngine | None = None
        self._active: Engine = self.local

    @property
    def loaded(self) -> Loaded | None:
        return self._active.loaded

    @property
    def busy(self) -> bool:
        """True while anything runs or waits, loading included."""
        return self.local.busy or (self._remote is not None and self._remote.busy)

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Load as ``Engine.load`` does. The other engine's model is freed once this one is loaded."""
        elsewhere = bool(self._catalog().named(request).target.address)
        wanted: Engine = self._elsewhere() if elsewhere else self.local
        loaded = wanted.load(request, watcher)
        before, self._active = self._active, wanted
        if before is not wanted:
            before.unload()
        return loaded

    def unload(self) -> None:
        """Free the models' memory, or disconnect from the server, once all queued requests have ended."""
        self._active.unload()

    def generate(self, request: Request) -> Generation:
        """Queue a request. Raises NotLoaded, InvalidRequest or ContextExceeded at once."""
        return self._active.generate(request)

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        return self._active.top_tokens(request, reply, count)

    def close(self) -> None:
        """Cancel everything, free the models' memory and disconnect from the server."""
        if self._remote is not None:
            self._remote.close()
        self.local.close()

    def _elsewhere(self) -> RemoteEngine:
        if self._remote is None:
            # OpenAI's client takes half a second to import, and most people need none.
            from engine.remote.engine import RemoteEngine

            self._remote = RemoteEngine(self._catalog)
        return self._remote
