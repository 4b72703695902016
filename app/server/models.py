"""``/v1/models``: loaded and loadable models, and which of them a client's ``model`` means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import to_thread

from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import ApiError, not_loaded, queue_full
from app.server.on_demand import Available, IdleUnloading, OnDemand
from app.settings.defaults import Defaults
from engine import wire
from engine.api import Loaded, slug
from engine.errors import ForetokenError
from engine.loading.inventory import ModelSpec

DEFAULT = "default"
"""The name of whatever is loaded, for clients that must send one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model in the lists of other protocols. ``modified`` in seconds since 1970. ``calls``: it can be
    offered tools. ``place``: where its files are, if on this machine."""

    id: str
    loaded: bool
    parameters: int
    bytes: int
    context: int
    quantization: str
    is_gguf: bool
    modified: float
    calls: bool
    place: Path | None


class Models:
    """The loaded pair as OpenAI's model objects."""

    def __init__(self, runtime: Runtime, most_waiting: int) -> None:
        """``most_waiting``: how many requests may wait for another one's load."""
        self._runtime, self._most_waiting = runtime, most_waiting
        self._on_demand = OnDemand(runtime) if runtime.serving.on_demand else None
        minutes = runtime.serving.idle_unload
        self._idle = (
            None
            if minutes is None or self._on_demand is None
            else IdleUnloading(runtime, 60 * minutes)
        )
        self._loading = asyncio.Lock()
        self._waiting = 0
        self._unloading: set[asyncio.Future[None]] = set()
        self._defaults = Defaults(runtime.data_dir)
        self._created = int(time.time())

    def list(self) -> dict[str, Any]:
        """Return the model objects of what is loaded and what a request can load."""
        loaded = self._runtime.engine.loaded
        entries = [self._entry(loaded)] if loaded else []
        entries += [self._offer(one) for one in self.unloaded()]
        return {"object": "list", "data": entries}

    def unloaded(self) -> Sequence[Available]:
        """Return what is not loaded, and a request can load."""
        if self._on_demand is None:
            return []
        loaded = self._runtime.engine.loaded
        return [one for one in self._on_demand.available() if not _is(one, loaded)]

    def one(self, name: str) -> dict[str, Any]:
        """Return the object of a model. Raises a 404 if it is neither loaded nor loadable."""
        available = self._unloaded(name)
        return self._entry(self.find(name)) if available is None else self._offer(available)

    def described(self) -> Sequence[ModelDescription]:
        """Return what is loaded, then what a request can load."""
        loaded = self._runtime.engine.loaded
        first = [self._described(loaded)] if loaded else []
        return [*first, *map(self._described, self.unloaded())]

    def describe(self, name: str | None) -> ModelDescription:
        """Return the description of a model. Raises a 404 if it is neither loaded nor loadable."""
        return self._described(self._unloaded(name) or self.find(name))

    def _unloaded(self, name: str | None) -> Available | None:
        if self._on_demand is None or not name or self._is_loaded(name):
            return None
        return self._on_demand.named(name)

    @asynccontextmanager
    async def using(self, name: str | None) -> AsyncIterator[Loaded]:
        """Load what ``name`` means if need be, and keep it loaded until the request is queued. Raises as
        ``find``, a 429 if too many wait, and a 503 if it cannot be loaded."""
        if self._idle is not None:
            self._idle.touch()
        if self._on_demand is None:
            yield self.find(name)
            return
        if self._waiting > self._most_waiting:
            raise queue_full(self._most_waiting, "requests")
        self._waiting += 1
        try:
            async with self._loading:
                yield await self._need(name, self._on_demand)
        finally:
            self._waiting -= 1

    @property
    def may_unload(self) -> bool:
        """True if requests may unload the model: only if they can load it again."""
        return self._on_demand is not None

    async def unload(self, name: str | None) -> None:
        """Unload the model that ``name`` means, after the replies that wait for it. Raises as
        ``describe``."""
        if name:
            await to_thread.run_sync(self.describe, name)
        async with self._loading:
            if self._is_loaded(name):
                await to_thread.run_sync(self._runtime.engine.unload)

    def unload_soon(self, loaded: Loaded) -> None:
        """Unload the model that answered a request, without waiting for it."""
        task = asyncio.ensure_future(self.unload(loaded.id))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    async def _need(self, name: str | None, on_demand: OnDemand) -> Loaded:
        await on_demand.settled()
        anything = name in (None, "", DEFAULT)
        if self._is_loaded(name) and not (anything and on_demand.replaced):
            return self.find(name)
        loaded = await on_demand.load(None if anything else name)
        if loaded is None and not anything:
            await on_demand.looked()
            loaded = await on_demand.load(name)
        return self.find(name) if loaded is None else loaded

    def _is_loaded(self, name: str | None) -> bool:
        """Return whether ``name`` means the loaded model."""
        loaded = self._runtime.engine.loaded
        if loaded is None:
            return False
        pair = (loaded.name, slug(loaded.name))
        if name in (None, "", DEFAULT, loaded.id, loaded.target_name, *pair):
            return True
        available = self._on_demand.named(name) if self._on_demand and name else None
        return available is not None and _is(available, loaded)

    def find(self, name: str | None) -> Loaded:
        """Return what ``name`` means. Raises a 404 for another model, a 503 while nothing is loaded."""
        loaded = self._runtime.engine.loaded
        if loaded is None:
            raise not_loaded(self._why_not())
        if self._is_loaded(name):
            return loaded
        others = "load another pair on the Models page"
        if self._on_demand is not None:
            others = "one that GET /v1/models lists"
        raise ApiError(
            404,
            f"The model {name!r} is not loaded. Loaded is {loaded.id!r}, with the target "
            f"{loaded.target_name!r}; use one of these names or {DEFAULT!r}, or {others}.",
            code="model_not_found",
            param="model",
        )

    def _why_not(self) -> str:
        status = self._runtime.loader.status
        if status.state is LoadState.WORKING:
            return f"The model {status.name!r} is still being loaded. Try again in a moment."
        if status.state is LoadState.FAILED:
            return f"No model is loaded. {status.message}"
        if self._on_demand is not None:
            return "No model is loaded. Name one that GET /v1/models lists, or start with --pair."
        return "No model is loaded. Choose a pair on the Models page, or start with --pair."

    def _offer(self, one: Available) -> dict[str, Any]:
        return {
            "id": one.id,
            "name": one.spec.name,
            "object": "model",
            "created": self._created,
            "owned_by": "foretoken",
            "loaded": False,
            "max_model_len": one.spec.context or None,
            "target": one.spec.called,
        }

    def _described(self, model: Loaded | Available) -> ModelDescription:
        spec: ModelSpec | None = None
        if isinstance(model, Available):
            values: Loaded | ModelSpec = (spec := model.spec)
            calls = True  # this machine's engine has them for every model
        else:
            values, calls = model, model.capabilities.calls is not None
            with suppress(ForetokenError):  # its files may have been moved since
                spec = self._runtime.inventory.spec(model.target_id)
        place = self._runtime.locate(spec) if spec else None
        return ModelDescription(
            id=model.id,
            loaded=isinstance(model, Loaded),
            parameters=values.parameters,
            bytes=spec.bytes if spec else 0,
            context=values.context,
            quantization=values.quantization,
            is_gguf=bool(spec and spec.is_gguf),
            modified=self._modified(place),
            calls=calls,
            place=place,
        )

    def _modified(self, place: Path | None) -> float:
        try:
            return self._created if place is None else place.stat().st_mtime
        except OSError:  # it was moved meanwhile
            return self._created

    def _default(self, loaded: Loaded) -> dict[str, Any]:
        """Return how requests are drafted for by default, and the measurement behind it."""
        measured = self._defaults.of(loaded)
        speculation = self._defaults.speculation(loaded)
        return {
            "proposer": speculation.proposer,
            "controller": speculation.control,
            "depth": speculation.deepest,
            "measured": measured and str(measured),
        }

    def _entry(self, loaded: Loaded) -> dict[str, Any]:
        return {
            "id": loaded.id,
            "name": loaded.name,
            "object": "model",
            "created": self._created,
            "owned_by": "foretoken",
            "loaded": True,
            "max_model_len": loaded.context or None,
            "target": loaded.target_name,
            "draft": loaded.draft_name,
            "heads": list(loaded.heads),
            "device": loaded.device,
            "parameters": loaded.parameters,
            "vocabulary": loaded.vocabulary,
            "quantization": loaded.quantization,
            "kv_cache_dtype": loaded.kv_cache_dtype,
            "compiled": loaded.compiled,
            "proposers": list(loaded.capabilities.names),
            "default": self._default(loaded),
            "capabilities": wire.capabilities_to_json(loaded.capabilities),
            "via": wire.via((self._runtime.instance, *loaded.via)),
        }


def _is(one: Available, loaded: Loaded | None) -> bool:
    """Return whether ``one`` is the loaded model."""
    return loaded is not None and loaded.target_id == one.spec.id
