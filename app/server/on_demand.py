"""Models that requests load by name."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from anyio import to_thread

from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import not_loaded
from engine.api import Loaded, LoadRequest, slug
from engine.errors import ForetokenError, InvalidRequest
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

    def available(self) -> list[Available]:
        """Return every target on this machine once, pairs of the catalog first, each with its own id."""
        models: dict[str, Available] = {}
        ids: set[str] = set()
        for one in self._all():
            first = models.get(one.spec.id)
            if first is not None:
                models[one.spec.id] = replace(first, names=first.names | one.names)
                continue
            id = _free(one, ids)
            ids.add(id)
            models[one.spec.id] = replace(one, id=id)
        return list(models.values())

    async def request(self, name: str | None) -> LoadRequest | None:
        """Return what to load for ``name``, with the draft that suits it; None if there is no such model.
        The name None means the app's choice."""
        if name is not None:
            return await to_thread.run_sync(self._request, name)
        chosen = self._runtime.loader.chosen
        return None if chosen is None else chosen.request

    async def load(self, request: LoadRequest) -> Loaded:
        """Load a pair while nothing else is being loaded. Raises ApiError if it cannot be loaded."""
        engine, loader = self._runtime.engine, self._runtime.loader
        found: list[Loaded | None] = []
        chosen = loader.chosen
        try:
            thread = loader.start(request, then=lambda: found.append(engine.loaded), chosen=False)
        except InvalidRequest as error:  # a page was faster
            raise not_loaded(str(error)) from error
        await to_thread.run_sync(thread.join)
        loaded = found[0] if found else None
        if loaded is None:
            why = loader.status.message or "Loading was cancelled. Send the request again."
            raise not_loaded(why)
        if chosen is not None and chosen is loader.chosen and chosen.request == request:
            loader.chosen = loaded  # with a draft that was found since
        return loaded

    async def looked(self) -> None:
        """Wait until the machine has been searched for models just now."""
        await to_thread.run_sync(self._runtime.found.refresh)
        while self._runtime.found.scanning:
            await asyncio.sleep(_POLL_S)

    def _all(self) -> Iterator[Available]:
        runtime = self._runtime
        for pair in self._pairs():
            yield _available(pair.target, pair.id, pair.name)
        for spec in (*runtime.catalog.models, *runtime.beside_catalog()):
            if runtime.locate(spec) is not None:
                yield _available(spec)
        yield from awaited(runtime, runtime.loader.chosen)

    def _pairs(self) -> Iterator[Pairing]:
        """Yield the catalog's pairs whose models are on this machine."""
        for pair in self._runtime.catalog.pairs:
            parts = (pair.target, *((pair.draft,) if pair.draft else ()))
            if all(self._runtime.locate(spec) for spec in parts):
                yield pair

    def _request(self, name: str) -> LoadRequest | None:
        """Return what to load for ``name``: the app's choice if it has that target, else a pair of it."""
        model = meant_by(name, self.available())
        if model is None:
            return None
        runtime, chosen = self._runtime, self._runtime.loader.chosen
        pairs = [pair.id for pair in self._pairs() if pair.target.id == model.spec.id]
        if chosen is not None and chosen.target_id == model.spec.id:
            return chosen.request
        if pairs:
            return runtime.request(name if name in pairs else pairs[0])
        return runtime.request(model.spec.id)


def meant_by(name: str, models: Sequence[Available]) -> Available | None:
    """Return the model that ``name`` means: by its id, another of its names, or a spelling of the id,
    such as owner/name."""
    meant = (
        *(one for one in models if name == one.id),
        *(one for one in models if name in one.names),
        *(one for one in models if slug(name) == one.id),
    )
    return next(iter(meant), None)


def awaited(runtime: Runtime, again: Loaded | None) -> Iterator[Available]:
    """Yield the models that requests wait for, wherever their files are: the one that is being loaded,
    and that of ``again``. A server tells its model's name only when it is asked, so it is left out."""
    status = runtime.loader.status
    ids = [status.target_id] if status.state is LoadState.WORKING else []
    for id in (*ids, *([again.target_id] if again else ())):
        with suppress(ForetokenError):  # its files may have been moved since
            spec = runtime.inventory.spec(id)
            if not spec.address:
                yield _available(spec)


def _free(one: Available, taken: set[str]) -> str:
    """Return the model's id, or one after it that is not ``taken``: a folder and a GGUF file may have one
    name."""
    kind = "gguf" if one.spec.is_gguf else "safetensors"
    later = (f"{one.id}-{kind}-{number}" for number in itertools.count(2))
    return next(
        id for id in itertools.chain((one.id, f"{one.id}-{kind}"), later) if id not in taken
    )


def _available(spec: ModelSpec, *names: str) -> Available:
    return Available(
        slug(spec.called),
        spec,
        frozenset({*names, spec.id, spec.name, spec.called, slug(spec.name)}),
    )
