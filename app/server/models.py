"""``/v1/models``: what is loaded, and whether a client's ``model`` means it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from app.defaults import Defaults
from app.loading import LoadState
from app.runtime import Runtime
from app.server.errors import ApiError, not_loaded

if TYPE_CHECKING:
    from engine.api import Loaded

DEFAULT = "default"
"""Means whatever is loaded, for clients that insist on a name."""


class Models:
    """The loaded pair as OpenAI's model objects."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._defaults = Defaults(runtime.data_dir)
        self._created = int(time.time())

    def list(self) -> dict[str, Any]:
        """One entry, or none while nothing is loaded."""
        loaded = self._runtime.engine.loaded
        return {"object": "list", "data": [self._entry(loaded)] if loaded else []}

    def one(self, name: str) -> dict[str, Any]:
        """Raises a 404 for a model that is not loaded."""
        return self._entry(self.find(name))

    def find(self, name: str | None) -> Loaded:
        """What ``name`` means. Raises a 404 for another model, a 503 while nothing is loaded."""
        loaded = self._runtime.engine.loaded
        if loaded is None:
            raise not_loaded(self._why_not())
        if name in (None, "", DEFAULT, loaded.id, loaded.name, loaded.target_name):
            return loaded
        raise ApiError(
            404,
            f"The model {name!r} is not loaded. Loaded is {loaded.id!r}, with the target "
            f"{loaded.target_name!r}; use one of these names or {DEFAULT!r}, or load another pair on "
            "the Models page.",
            code="model_not_found",
            param="model",
        )

    def _why_not(self) -> str:
        status = self._runtime.loader.status
        if status.state is LoadState.WORKING:
            return f"The model {status.name!r} is still being loaded. Try again in a moment."
        if status.state is LoadState.FAILED:
            return f"No model is loaded. {status.message}"
        return "No model is loaded. Choose a pair on the Models page, or start with --pair."

    def _default(self, loaded: Loaded) -> dict[str, Any]:
        """How a request that says nothing of speculation is drafted for, and who says so."""
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
            "max_model_len": loaded.context,
            "target": loaded.target_name,
            "draft": loaded.draft_name,
            "heads": list(loaded.heads),
            "quantization": loaded.quantization,
            "kv_cache_dtype": loaded.kv_cache_dtype,
            "compiled": loaded.compiled,
            "proposers": list(loaded.capabilities.names),
            "default": self._default(loaded),
        }
