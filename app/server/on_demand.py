"""Models that requests load by name, and that are unloaded after some time without requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from anyio import to_thread

from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import not_loaded
from engine.api import Loaded, LoadRequest, slug
from engine.errors import InvalidRequest
from engine.loading.inventory import ModelSpec, Pairing

_POLL_S = 0.1
"""Seconds between two checks of a load that another request or a page started."""


@dataclass(frozen=True, slots=True)
class Available:
    """A model on this machine's disk. ``id`` as in ``Loaded.id``; ``names`` are its other names."""

    id: str
    spec: ModelSpec
    names: frozenset[str]


class OnDemand:
    """The models that requests can load by name, one load at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def replaced(self) -> bool:
        """True if another model is loaded than the one chosen for the app."""
        chosen, loaded = self._runtime.loader.chosen, self._runtime.engine.loaded
        return chosen is not None and (loaded is None or loaded.request != chosen.request)

    def available(self) -> list[Available]:
        """Return every target on this machine once, pairs of the catalog first."""
        models: dict[str, Available] = {}
        for one in self._all():
            first = models.setdefault(one.id, one)
            if first.spec.id == one.spec.id:
                models[one.id] = replace(first, names=first.names | one.names)
        return list(models.values())

    def named(self, name: str) -> Available | None:
        """Return the model that ``name`` means, if it is here."""
        models = self.available()
        return next((one for one in models if name == one.id), None) or next(
            (one for one in models if name in one.names), None
        )

    async def load(self, name: str | None) -> Loaded | None:
        """Load what ``name`` means, with the draft that suits it; return None if there is no such model.
        The name None means the app's choice. Raises ApiError if it cannot be loaded."""
        if name is None:
            chosen = self._runtime.loader.chosen
            request = None if chosen is None else chosen.request
        else:
            request = await to_thread.run_sync(self._request, name)
        if request is None:
            return None
        await self.settled()
        loader = self._runtime.loader
        try:
            thread = loader.start(request, chosen=False)
        except InvalidRequest as error:  # a page was faster
            raise not_loaded(str(error)) from error
        await to_thread.run_sync(thread.join)
        loaded, status = self._runtime.engine.loaded, loader.status
        if loaded is None or status.state is not LoadState.READY:
            raise not_loaded(status.message or "Loading was cancelled. Ask again.")
        return loaded

    async def settled(self) -> None:
        """Wait until nothing is being loaded."""
        while self._runtime.loader.working:
            await asyncio.sleep(_POLL_S)

    async def looked(self) -> None:
        """Wait until the machine has been searched for models."""
        await to_thread.run_sync(self._runtime.found.scan_once)
        while self._runtime.found.scanning:
            await asyncio.sleep(_POLL_S)

    def _all(self) -> Iterator[Available]:
        runtime = self._runtime
        for pair in self._pairs():
            yield _available(pair.target, pair.id, pair.name)
        for spec in (*runtime.catalog.models, *runtime.beside_catalog()):
            if runtime.locate(spec) is not None:
                yield _available(spec)

    def _pairs(self) -> Iterator[Pairing]:
        """Yield the catalog's pairs whose models are on this machine."""
        for pair in self._runtime.catalog.pairs:
            parts = (pair.target, *((pair.draft,) if pair.draft else ()))
            if all(self._runtime.locate(spec) for spec in parts):
                yield pair

    def _request(self, name: str) -> LoadRequest | None:
        """Return what to load for ``name``: the app's choice if it has that target, else a pair of it."""
        model = self.named(name)
        if model is None:
            return None
        runtime, chosen = self._runtime, self._runtime.loader.chosen
        pairs = [pair.id for pair in self._pairs() if pair.target.id == model.spec.id]
        if chosen is not None and chosen.target_id == model.spec.id:
            return chosen.request
        if pairs:
            return runtime.request(name if name in pairs else pairs[0])
        return runtime.request(model.spec.id)


def _available(spec: ModelSpec, *names: str) -> Available:
    return Available(
        slug(spec.called),
        spec,
        frozenset({*names, spec.id, spec.name, spec.called, slug(spec.name)}),
    )


class IdleUnloading:
    """Unloads the models after ``seconds`` without requests."""

    def __init__(self, runtime: Runtime, seconds: float) -> None:
        """Start the thread, which ends with the runtime."""
        self._runtime, self._seconds = runtime, seconds
        self._ended = threading.Event()
        self._used = time.monotonic()
        runtime.ending.callback(self._ended.set)
        threading.Thread(target=self._look, name="unload when idle", daemon=True).start()

    def touch(self) -> None:
        """Note a request."""
        self._used = time.monotonic()

    def _look(self) -> None:
        while not self._ended.wait(min(self._seconds / 4, 10.0)):
            engine = self._runtime.engine
            if engine.busy or self._runtime.loader.working:
                self.touch()
            elif engine.loaded is not None and time.monotonic() - self._used >= self._seconds:
                engine.unload()
