"""Combine the local engine and a remote one: the loaded pair decides which of them answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.api import (
    Engine,
    Generation,
    Loaded,
    LoadRequest,
    Tokenizer,
    TopToken,
    Watcher,
    has,
    having,
)
from engine.loading.catalog import Catalog
from engine.local.engine import LocalEngine
from engine.local.several import SeveralEngines
from engine.request import Request

if TYPE_CHECKING:
    from engine.remote.engine import RemoteEngine


class SwitchingEngine:
    """An ``engine.api.Engine`` that holds pairs here, or a connection to a server."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        *,
        models: Path | None = None,
        remembered: Path | None = None,
        measured: Path | None = None,
        learned: Path | None = None,
        most: int = 1,
    ) -> None:
        """As for ``LocalEngine``. ``most``: how many pairs may be in memory at once."""
        self._catalog = catalog
        self._locals = SeveralEngines(
            lambda: LocalEngine(
                catalog,
                models=models,
                remembered=remembered,
                measured=measured,
                learned=learned,
            ),
            most,
        )
        self._remote: RemoteEngine | None = None
        self._far = False  # whether the server's model is in use

    @property
    def local(self) -> LocalEngine:
        """The engine of the pair that was loaded here last."""
        return self._locals.current

    @property
    def _active(self) -> Engine:
        return self._remote if self._far and self._remote is not None else self.local

    @property
    def resident(self) -> Sequence[Loaded]:
        return self._active.resident if self._far else self._locals.resident

    @property
    def loaded(self) -> Loaded | None:
        return self._active.loaded

    @property
    def busy(self) -> bool:
        """True while anything runs or waits, loading included."""
        return self._locals.busy or (self._remote is not None and self._remote.busy)

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Load as ``Engine.load`` does. The other engine's model is freed once this one is loaded."""
        far = bool(self._catalog().named(request).target.address)
        loaded = (self._elsewhere() if far else self._locals).load(request, watcher)
        before, self._far = self._far, far
        if far and not before:
            self._locals.unload()
        elif before and not far and self._remote is not None:
            self._remote.unload()
        return loaded

    def unload(self, pair: Loaded | None = None) -> None:
        """Free a pair's memory, or disconnect from its server, once its queued requests have ended."""
        self._engine_of(pair).unload(pair)

    def generate(self, request: Request) -> Generation:
        """Queue a request. Raises NotLoaded, InvalidRequest or ContextExceeded at once."""
        return self._active.generate(request)

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._active.tokenizer

    def tokenize(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        return self._active.tokenize(texts)

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        return self._active.top_tokens(request, reply, count)

    def of(self, pair: Loaded) -> Engine:
        return having(self._engine_of(pair), pair)

    def pin(self, pair: Loaded) -> AbstractContextManager[None]:
        return self._engine_of(pair).pin(pair)

    @property
    def idle_s(self) -> float:
        return self._active.idle_s

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        return self._active.embed(tokens)

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> tuple[float, ...]:
        return self._active.next_logits(tokens, choices)

    def close(self) -> None:
        """Cancel everything, free the models' memory and disconnect from the server."""
        if self._remote is not None:
            self._remote.close()
        self._locals.close()

    def _engine_of(self, pair: Loaded | None) -> Engine:
        """Return the engine that ``has`` the pair; the loaded one's if none does, or for None."""
        engines: list[Engine] = [self._active, *self._locals.engines]
        if self._remote is not None:
            engines.append(self._remote)
        return next((one for one in engines if pair and has(one, pair)), self._active)

    def _elsewhere(self) -> RemoteEngine:
        if self._remote is None:
            # OpenAI's client takes half a second to import, and most people need none.
            from engine.remote.engine import RemoteEngine

            self._remote = RemoteEngine(self._catalog)
        return self._remote
