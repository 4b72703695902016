"""Models that are loaded because a request names them, and unloaded when nobody has asked for a while."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from anyio import to_thread

from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import not_loaded
from engine.api import Loaded, slug
from engine.errors import ForetokenError, InvalidRequest
from engine.loading.drafts import judge_draft
from engine.loading.request import LoadRequest
from engine.loading.specs import ModelSpec

_LOOK_S = 0.1
"""Between two looks whether a load that somebody else began is through."""
_SMALLER = 3
"""A draft has at most one part in so many of its target's parameters, or it would hardly pay."""


@dataclass(frozen=True, slots=True)
class Available:
    """A model on this machine's disk. ``id`` is spelt as ``Loaded.id``; ``names`` mean it too."""

    id: str
    spec: ModelSpec
    names: frozenset[str]


class OnDemand:
    """What may be asked for by name, and how it gets into memory. One load at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.last: LoadRequest | None = None
        """What was unloaded because nobody used it: what "whatever is loaded" means then."""

    def available(self) -> list[Available]:
        """Everything that lies here and can be a target, pairs of the catalog first."""
        return list({one.id: one for one in reversed(list(self._found()))}.values())[::-1]

    def named(self, name: str) -> Available | None:
        """The model that ``name`` means, if it is here."""
        models = self.available()
        return next((one for one in models if name == one.id), None) or next(
            (one for one in models if name in one.names), None
        )

    async def load(self, name: str | None) -> Loaded | None:
        """Loads what ``name`` means, with the draft that suits it; None where nothing here has that
        name. None as a name is what was unloaded last. Raises ApiError where it cannot be loaded."""
        if name is None:
            request = self.last
        else:
            request = await to_thread.run_sync(self._request, name)
        if request is None:
            return None
        await self.settled()
        loader = self._runtime.loader
        try:
            thread = loader.start(request)
        except InvalidRequest as error:  # a page was faster
            raise not_loaded(str(error)) from error
        await to_thread.run_sync(thread.join)
        loaded, status = self._runtime.engine.loaded, loader.status
        if loaded is None or status.state is not LoadState.READY:
            raise not_loaded(status.message or "Loading was cancelled. Ask again.")
        self.last = request
        return loaded

    async def settled(self) -> None:
        """Waits until nothing is being loaded."""
        while self._runtime.loader.working:
            await asyncio.sleep(_LOOK_S)

    async def looked(self) -> None:
        """Waits until the machine was searched for models."""
        await to_thread.run_sync(self._runtime.found.scan_once)
        while self._runtime.found.scanning:
            await asyncio.sleep(_LOOK_S)

    def _found(self) -> Iterator[Available]:
        runtime = self._runtime
        for pair in runtime.catalog.pairs:
            parts = (pair.target, *((pair.draft,) if pair.draft else ()))
            if all(runtime.locate(spec) for spec in parts):
                yield _available(pair.target, pair.id or pair.target.id)
        for spec in (*runtime.catalog.models, *runtime.beside_catalog()):
            if runtime.locate(spec) is not None:
                yield _available(spec, spec.called)

    def _request(self, name: str) -> LoadRequest | None:
        found = self.named(name)
        if found is None:
            return None
        catalog = self._runtime.catalog
        if any(pair.id == found.id for pair in catalog.pairs):
            return self._runtime.request(found.id)
        return self._runtime.request(found.spec.id, self._draft_for(found.spec))

    def _draft_for(self, target: ModelSpec) -> str:
        """The id of the model that drafts for ``target``: what the catalog pairs with it, else the
        largest that fits and is small enough to pay; "" for none."""
        runtime = self._runtime
        here = {one.spec.id: one.spec for one in self.available() if one.spec.id != target.id}
        for pair in runtime.catalog.pairs:
            if pair.target.id == target.id and pair.draft is not None and pair.draft.id in here:
                return pair.draft.id
        small = [one for one in here.values() if 0 < one.parameters * _SMALLER <= target.parameters]
        for spec in sorted(small, key=lambda one: -one.parameters):
            try:
                choice = judge_draft(target, spec, runtime.locate)
            except (ForetokenError, OSError):
                continue
            if choice.fits and choice.cross_vocabulary is None:
                return spec.id
        return ""


def _available(spec: ModelSpec, name: str) -> Available:
    return Available(slug(name), spec, frozenset({name, spec.id, spec.name, spec.called}))


class IdleUnloading:
    """Frees the models' memory once nothing was asked of the engine for ``seconds``."""

    def __init__(self, runtime: Runtime, on_demand: OnDemand, seconds: float) -> None:
        """Begins to look. It ends with the runtime."""
        self._runtime, self._on_demand, self._seconds = runtime, on_demand, seconds
        self._ended = threading.Event()
        self._used = time.monotonic()
        runtime.ending.callback(self._ended.set)
        threading.Thread(target=self._look, name="unload when idle", daemon=True).start()

    def touch(self) -> None:
        """Something was asked."""
        self._used = time.monotonic()

    def _look(self) -> None:
        while not self._ended.wait(min(self._seconds / 4, 10.0)):
            engine = self._runtime.engine
            if engine.busy or self._runtime.loader.working:
                self.touch()
            elif engine.loaded is not None and time.monotonic() - self._used >= self._seconds:
                self._on_demand.last = engine.loaded.request
                engine.unload()
