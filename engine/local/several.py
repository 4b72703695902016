"""Several pairs in memory, each with an engine of its own. Of the idle ones the least recently used one
goes first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from engine.api import Loaded, LoadProgress, LoadRequest, Stage, Watcher
from engine.errors import NotLoaded, OutOfMemory
from engine.local.engine import LocalEngine


class SeveralEngines:
    """At least one engine. Replies of one go on while another is ``current``."""

    def __init__(self, make: Callable[[], LocalEngine], most: int) -> None:
        """``most``: how many pairs may be in memory; fewer if there is no room for so many."""
        self._make, self._most = make, most
        self.engines = [make()]
        """The one named by a load last comes last. The list itself never changes."""

    @property
    def current(self) -> LocalEngine:
        """The engine whose pair was loaded last, or named last by a load."""
        return self.engines[-1]

    @property
    def busy(self) -> bool:
        return any(engine.busy for engine in self.engines)

    @property
    def resident(self) -> tuple[Loaded, ...]:
        """Every pair in memory, that of ``current`` first."""
        pairs = (engine.loaded for engine in reversed(self.engines))
        return tuple(pair for pair in pairs if pair is not None)

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Make the engine with this pair ``current``, and load it if it is not in memory. Raises as
        ``Engine.load``."""
        engine = self._with(request)
        if engine is not None and engine is not self.current:
            loaded = engine.loaded
            # One that is being unloaded loads it again.
            with suppress(NotLoaded):
                if loaded is not None:
                    with engine.pin(loaded):
                        self._use(engine)
                        return loaded
        engine = engine or self._for_another(watcher)
        while True:
            try:
                loaded = engine.load(request, watcher)
            except OutOfMemory:
                if self._freed(watcher, engine) is None:
                    raise
            else:
                self._use(engine)
                return loaded

    def unload(self) -> None:
        """Free the memory of all pairs once their requests have ended."""
        for engine in self.engines:
            engine.unload()

    def close(self) -> None:
        for engine in self.engines:
            engine.close()

    def _with(self, request: LoadRequest) -> LocalEngine | None:
        loaded = ((engine, engine.loaded) for engine in self.engines)
        return next((one for one, pair in loaded if pair and pair.request == request), None)

    def _use(self, engine: LocalEngine) -> None:
        self.engines = [one for one in self.engines if one is not engine] + [engine]

    def _for_another(self, watcher: Watcher | None) -> LocalEngine:
        """Return the engine for another pair. If only one may be loaded, it replaces its own."""
        if self._most == 1:
            return self.current
        empty = next((one for one in self.engines if one.loaded is None), None)
        if empty is None and len(self.engines) < self._most:
            empty = self._make()
            self.engines = [empty, *self.engines]
        return empty or self._freed(watcher) or self.current

    def _freed(
        self, watcher: Watcher | None, besides: LocalEngine | None = None
    ) -> LocalEngine | None:
        """Free the pair that was used least recently, a busy one only if all are, and return its engine;
        None if there is none but in ``besides``."""
        others = [one for one in self.engines if one is not besides and one.loaded is not None]
        if not others:
            return None
        engine = max(others, key=lambda one: one.idle_s)
        if watcher is not None and engine.busy:
            watcher.on_loading(LoadProgress(Stage.WAITING))
        engine.unload()
        return engine
