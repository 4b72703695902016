"""How each model is loaded: context, threads and KV cache, as the user chose them on the Models page."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.settings.settings_file import SettingsFile
from engine.api import AUTO, LoadRequest
from engine.errors import ForetokenError

log = logging.getLogger(__name__)

FILE = "load_options.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Fields of ``LoadRequest`` that are remembered for a model; the defaults leave them to the app."""

    context: int | None = None
    threads: int | None = None
    kv_cache_dtype: str = AUTO

    def __post_init__(self) -> None:
        LoadRequest(target="", **asdict(self))  # raises InvalidRequest for a wrong value

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Return the fields that differ from the defaults."""
        return {name: value for name, value in asdict(self).items() if value not in (None, AUTO)}

    def over(self, request: LoadRequest, fixed: Collection[str]) -> LoadRequest:
        """Return ``request`` with these, except those that the command line states (``fixed``)."""
        return replace(request, **{n: v for n, v in self.chosen.items() if n not in fixed})


class LoadOptionsFile:
    """The load options of a data folder, by the target's id. Thread-safe."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SettingsFile(data_dir / FILE)

    def of(self, target: str) -> LoadOptions:
        """Return a model's options; a wrong value is logged and ignored."""
        stored = self._file.read().get(target)
        try:
            return LoadOptions(**stored) if isinstance(stored, dict) else LoadOptions()
        except (ForetokenError, TypeError) as error:
            log.warning("The load options of %s are ignored: %s", target, error)
            return LoadOptions()

    def keep(self, target: str, options: LoadOptions) -> None:
        """Store a model's options; defaults alone store nothing. Raises UnreadableFile and DiskError."""
        with self._file.change() as values:
            values.pop(target, None)
            if options.chosen:
                values[target] = dict(options.chosen)
