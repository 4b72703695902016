"""``/v1/models``: loaded and loadable models, and which of them a client's ``model`` means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import ApiError, not_loaded, queue_full
from app.server.on_demand import Available, OnDemand, awaited, meant_by
from app.server.request_queue import MAX_WAITING
from app.settings.defaults import Defaults
from engine import wire
from engine.api import Loaded, LoadRequest, slug
from engine.errors import ForetokenError, NotLoaded
from engine.loading.inventory import ModelSpec

_POLL_S = 0.1
"""Seconds between two looks at a load."""
DEFAULT = "default"
"""The name of whatever is loaded, for clients that must send one."""
_ANYTHING = (None, "", DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model in the lists of other protocols. ``device``: where it is loaded, if it is. ``modified`` in
    seconds since 1970. ``calls``: it can be offered tools. ``sees``: it takes images. ``place``: where
    its files are, if on this machine. ``expires``: as in ``Models.expires_at``."""

    id: str
    device: str | None
    parameters: int
    bytes: int
    context: int
    quantization: str
    is_gguf: bool
    modified: float
    calls: bool
    sees: bool
    place: Path | None
    expires: float | None


class Models:
    """What is in memory and what a request can load, as OpenAI's model objects."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._on_demand = OnDemand(runtime) if runtime.serving.on_demand else None
        if runtime.serving.idle_unload is not None:
            runtime.idle.minutes = runtime.serving.idle_unload
        self._loading, self._unloading = asyncio.Lock(), asyncio.Lock()
        self._loads: dict[LoadRequest, asyncio.Task[Loaded]] = {}
        self._waiting = 0
        self._tasks: set[asyncio.Future[None]] = set()
        self.defaults = Defaults(runtime.data_dir)
        self._created = int(time.time())

    def list(self) -> dict[str, Any]:
        """Return the model objects of what is in memory and what a request can load."""
        here, others = self._all()
        entries = [*map(self._entry, here), *map(self._offer, others)]
        ids = [entry["id"] for entry in entries]
        ends = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return {"object": "list", "data": entries, "has_more": False, **ends}

    def _all(self) -> tuple[Sequence[Loaded], Sequence[Available]]:
        """Return what is in memory, and what else a request can load or wait for. Searches the disk."""
        if self._on_demand is not None:
            self.runtime.found.refresh()
        offered = self._offered()  # first: what is being loaded may be in memory by now
        here = self.runtime.engine.resident
        return here, [one for one in offered if not any(_is(one, pair) for pair in here)]

    def _offered(self) -> Sequence[Available]:
        """Return what requests can load; without loading on demand, what each of them waits for."""
        if self._on_demand is not None:
            return self._on_demand.available()
        models = awaited(self.runtime, self.runtime.loader.unloaded)
        return list({one.id: one for one in models}.values())

    def one(self, name: str) -> dict[str, Any]:
        """Return the object of a model. Raises a 404 if it is neither loaded nor loadable."""
        available = self._unloaded(name)
        return self._entry(self.find(name)) if available is None else self._offer(available)

    def described(self) -> Sequence[ModelDescription]:
        """Return what is loaded, then what a request can load."""
        here, others = self._all()
        return [*map(self._described, here), *map(self._described, others)]

    def describe(self, name: str | None) -> ModelDescription:
        """Return the description of a model. Raises a 404 if it is neither loaded nor loadable."""
        return self._described(self._unloaded(name) or self.find(name))

    def _unloaded(self, name: str | None) -> Available | None:
        if not name or self.resident(name):
            return None
        found = meant_by(name, self._offered())
        if found is None and self._on_demand is not None:
            self.runtime.found.refresh()
            found = meant_by(name, self._offered())
        return found

    @asynccontextmanager
    async def using(self, name: str | None) -> AsyncIterator[Loaded]:
        """Load what ``name`` means if need be, and keep it in memory until the request is queued. What is
        there waits for no load of another model. Raises as ``find``, a 429 if too many wait, and a 503 if
        it cannot be loaded."""
        self.runtime.idle.touch()
        if self._on_demand is None and self.runtime.engine.loaded is None:
            self.runtime.loader.load_again()
            await self._settled()
        with ExitStack() as held:
            pair = self.resident(name)
            if pair is None or not self._pin(pair, held):
                pair = await self._need(name, held)
            yield pair

    def _pin(self, pair: Loaded, held: ExitStack) -> bool:
        """Keep a pair in memory until ``held`` is closed; return False if it is being unloaded."""
        with suppress(NotLoaded):
            held.enter_context(self.runtime.engine.pin(pair))
            return True
        return False

    async def _need(self, name: str | None, held: ExitStack) -> Loaded:
        """Wait until ``name`` is in memory, and keep it there until ``held`` is closed."""
        if self._waiting > MAX_WAITING:
            raise queue_full(MAX_WAITING, "requests")
        self._waiting += 1
        try:
            while not self._pin(pair := await self._load(name), held):
                await asyncio.sleep(_POLL_S)
            return pair
        finally:
            self._waiting -= 1

    async def _load(self, name: str | None) -> Loaded:
        """Load what ``name`` means; requests for the same model share one load."""
        on_demand = self._on_demand
        if on_demand is None:
            await self._settled()
            return self.find(name)
        named = None if name in _ANYTHING else name
        request = await on_demand.request(named)
        if request is None:
            await (on_demand.looked() if named else self._settled())
            request = await on_demand.request(named)
        if request is None:
            return self.find(name)
        load = self._loads.get(request)
        if load is None:
            load = asyncio.ensure_future(self._load_in_turn(name, request, on_demand))
            self._loads[request] = load
            load.add_done_callback(partial(self._loaded, request))
        return await asyncio.shield(load)

    async def _load_in_turn(
        self, name: str | None, request: LoadRequest, on_demand: OnDemand
    ) -> Loaded:
        async with self._loading:
            await self._settled()
            pair = self.resident(name)  # a page may have loaded it meanwhile
            with ExitStack() as held:
                if pair is not None and self._pin(pair, held):
                    return pair
            return await on_demand.load(request)

    def _loaded(self, request: LoadRequest, load: asyncio.Task[Loaded]) -> None:
        del self._loads[request]
        if not load.cancelled():
            load.exception()  # whoever waited may have left, and asyncio would complain

    async def _settled(self) -> None:
        """Wait until nothing is being loaded."""
        while self.runtime.loader.working:
            await asyncio.sleep(_POLL_S)

    @property
    def may_unload(self) -> bool:
        """True if requests may unload the model: only if they can load it again."""
        return self._on_demand is not None

    async def unload(self, name: str | None) -> Sequence[str]:
        """Unload what ``name`` means, or without a name all models, after the replies that wait for them;
        return their ids. The next request loads them again. Raises as ``describe``."""
        pairs = self.runtime.engine.resident
        if name not in _ANYTHING:
            pair = self.resident(name)
            if pair is None:
                await to_thread.run_sync(self.describe, name)
            pairs = () if pair is None else (pair,)
        for pair in pairs:
            await self._unload(pair)
        return [await to_thread.run_sync(self._id_of, pair) for pair in pairs]

    async def _unload(self, pair: Loaded) -> None:
        async with self._unloading:  # each blocks a thread
            with suppress(NotLoaded):  # the app ends
                await to_thread.run_sync(self.runtime.loader.unload, pair)

    def keep(self, loaded: Loaded, seconds: float) -> None:
        """Unload ``loaded`` after so many seconds without a request; below 0: never."""
        self.runtime.idle.keep(loaded, None if seconds < 0 else seconds / 60)

    def expires_at(self, loaded: Loaded) -> float | None:
        """Return when a model is unloaded if nobody uses it, in seconds since 1970; None: never."""
        with suppress(NotLoaded):
            left = self.runtime.idle.left_s(loaded)
            return None if left is None else time.time() + left
        return None

    def unload_soon(self, loaded: Loaded) -> None:
        """Unload the model that answered a request, without waiting for it."""
        task = asyncio.ensure_future(self._unload(loaded))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def resident(self, name: str | None) -> Loaded | None:
        """Return the pair in memory that ``name`` means; for requests that name none, the one that was
        chosen for the app, if requests can load it."""
        here: Sequence[Loaded] = self.runtime.engine.resident
        if name in _ANYTHING:
            chosen = self.runtime.loader.chosen if self._on_demand else None
            if chosen is not None:
                here = [pair for pair in here if pair.request == chosen.request]
            return next(iter(here), None)
        offered = meant_by(name, self._on_demand.available()) if self._on_demand and name else None
        for pair in here:
            names = (pair.id, pair.target_name, pair.name, slug(pair.name))
            if name in names if offered is None else _is(offered, pair):
                return pair
        return None

    def find(self, name: str | None) -> Loaded:
        """Return the pair in memory that ``name`` means; without a name, any. Raises a 404 for another
        model, and a 503 while nothing is loaded."""
        here = self.runtime.engine.resident
        if name in _ANYTHING:
            if not here:
                raise not_loaded(self._why_not())
            return here[0]
        pair = self.resident(name)
        if pair is not None:
            return pair
        if not here and self._on_demand is None:
            raise not_loaded(self._why_not())
        if self._on_demand is not None:
            message = (
                f"There is no model {name!r} on this machine. Use one that GET /v1/models lists, "
                f"or {DEFAULT!r}."
            )
        else:
            message = (
                f"The model {name!r} is not loaded. The loaded model is {here[0].id!r} with the "
                f"target {here[0].target_name!r}; use one of these names or {DEFAULT!r}, or load "
                "another model on the Models page."
            )
        raise ApiError(404, message, code="model_not_found", param="model")

    def _why_not(self) -> str:
        status = self.runtime.loader.status
        if status.state is LoadState.WORKING:
            return f"The model {status.name!r} is still loading. Try again in a moment."
        if status.state is LoadState.FAILED:
            return f"No model is loaded. {status.message}"
        if self._on_demand is not None:
            return (
                "No model is loaded. Request one that GET /v1/models lists, or start with --pair."
            )
        return "No model is loaded. Choose one on the Models page, or start with --pair."

    def _id_of(self, loaded: Loaded) -> str:
        """Return the id under which the loaded model would be offered."""
        offered = self._on_demand.available() if self._on_demand else []
        return next((one.id for one in offered if _is(one, loaded)), loaded.id)

    def _named(self, id: str, name: str) -> dict[str, Any]:
        """Return the fields that OpenAI's and Anthropic's clients read."""
        return {
            "id": id,
            "name": name,
            "object": "model",
            "created": self._created,
            "owned_by": "foretoken",
            "type": "model",
            "display_name": name,
            "created_at": datetime.fromtimestamp(self._created, UTC).isoformat(),
        }

    def _offer(self, one: Available) -> dict[str, Any]:
        return {
            **self._named(one.id, one.spec.name),
            "loaded": False,
            "max_model_len": one.spec.context or None,
            "target": one.spec.called,
            "input_modalities": _modalities(one.spec.sees),
        }

    def _described(self, model: Loaded | Available) -> ModelDescription:
        spec: ModelSpec | None = None
        if isinstance(model, Available):
            id, device, expires = model.id, None, None
            values: Loaded | ModelSpec = (spec := model.spec)
            calls, sees = True, spec.sees  # this machine's engine has calls for every model
        else:
            id, device, expires = self._id_of(model), model.device, self.expires_at(model)
            values, calls = model, model.capabilities.calls is not None
            sees = model.capabilities.images
            with suppress(ForetokenError):  # its files may have been moved since
                spec = self.runtime.inventory.spec(model.target_id)
        place, modified = self.runtime.locate(spec) if spec else None, float(self._created)
        if place is not None:
            with suppress(OSError):  # it was moved meanwhile
                modified = place.stat().st_mtime
        return ModelDescription(
            id=id,
            device=device,
            parameters=values.parameters,
            bytes=spec.bytes if spec else 0,
            context=values.context,
            quantization=values.quantization,
            is_gguf=bool(spec and spec.is_gguf),
            modified=modified,
            calls=calls,
            sees=sees,
            place=place,
            expires=expires,
        )

    def _default(self, loaded: Loaded) -> dict[str, Any]:
        """Return how requests are drafted for by default, and the measurement behind it."""
        measured = self.defaults.of(loaded)
        speculation = self.defaults.speculation(loaded)
        return {
            "proposer": speculation.proposer,
            "controller": speculation.control,
            "depth": speculation.deepest,
            "measured": measured and str(measured),
        }

    def _entry(self, loaded: Loaded) -> dict[str, Any]:
        return {
            **self._named(self._id_of(loaded), loaded.name),
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
            "input_modalities": _modalities(loaded.capabilities.images),
            "proposers": list(loaded.capabilities.names),
            "default": self._default(loaded),
            "capabilities": wire.capabilities_to_json(loaded.capabilities),
            "via": wire.via((self.runtime.instance, *loaded.via)),
        }


def _modalities(sees: bool) -> list[str]:
    """Return what a model takes, by OpenRouter's names."""
    return ["text", "image"] if sees else ["text"]


def _is(one: Available, loaded: Loaded) -> bool:
    """Return whether ``one`` is the loaded model."""
    return loaded.target_id == one.spec.id
