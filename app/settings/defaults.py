"""Measured defaults: for each pair the fastest way to draft, as a sweep on this machine found it.

A default applies to the models and the quantisation that it was measured with. It is the winner over all
prompts: the kind of the next prompt is unknown when it is applied, so winners of single kinds are only
shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.settings.settings_file import SettingsFile
from engine.api import FP8
from engine.errors import ForetokenError
from engine.request import PLAIN, Control, Speculation, controller_named
from engine.stats import times
from engine.values.method_titles import method_title

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from engine.api import Loaded  # it brings torch

log = logging.getLogger(__name__)

FILE = "defaults.json"


@dataclass(frozen=True, slots=True)
class Winner:
    """The fastest way to draft, and its speed-up over plain decoding."""

    proposer: str
    controller: str
    depth: int
    speedup: float
    prompts: int

    def __post_init__(self) -> None:
        self.speculation()  # refused here, where it is read or made

    def speculation(self) -> Speculation:
        """Return a request's speculation. Raises InvalidRequest for an unknown controller or depth."""
        control = controller_named(self.controller)
        if self.proposer == PLAIN:
            return Speculation(proposer=PLAIN)
        depth = None if control is Control.AUTO else self.depth
        return Speculation(proposer=self.proposer, controller=control, depth=depth)

    def __str__(self) -> str:
        if self.proposer == PLAIN:
            return method_title(PLAIN)
        auto = self.controller == Control.AUTO
        return (
            f"{method_title(self.proposer)}, {'auto' if auto else f'depth {self.depth}'}, "
            f"{times(self.speedup)}"
        )


@dataclass(frozen=True, slots=True)
class Default:
    """A pair's measured default. ``kinds``: the winner of each kind of prompt."""

    pair: str
    quantization: str
    measured: str
    winner: Winner
    kinds: Mapping[str, Winner] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.winner} (measured {self.measured}, {self.winner.prompts} prompts)"


class Defaults:
    """The measured defaults of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SettingsFile(data_dir / FILE, lambda values: {**values["defaults"]})

    def all(self) -> dict[str, Default]:
        """Return the defaults by key; entries that cannot be read are logged and left out."""
        return self._parsed(self._file.read())

    def of(self, loaded: Loaded | None) -> Default | None:
        """Return the measured default of a loaded pair, if the pair still offers the winner."""
        if loaded is None:
            return None
        default = self.all().get(key_of(loaded))
        return default if default and default.winner.proposer in loaded.capabilities.names else None

    def speculation(self, loaded: Loaded) -> Speculation:
        """Return how the pair drafts unless a request says otherwise."""
        default = self.of(loaded)
        if default is not None:
            return default.winner.speculation()
        return Speculation(proposer=loaded.capabilities.preferred)

    def beaten_by(self, loaded: Loaded, winner: Winner) -> bool:
        """Return whether ``winner`` is another way to draft than the present default, and faster."""
        kept, now, new = self.of(loaded), self.speculation(loaded), winner.speculation()
        if (new.proposer, new.control, new.deepest) == (now.proposer, now.control, now.deepest):
            return False
        return kept is None or winner.speedup > kept.winner.speedup

    def keep(self, loaded: Loaded, winner: Winner, kinds: Mapping[str, Winner]) -> Default:
        """Store ``winner`` as the pair's default. Raises ForetokenError if it cannot be written."""
        today = datetime.now(UTC).date().isoformat()
        default = Default(loaded.name, loaded.quantization, today, winner, dict(kinds))
        with self._file.change() as values:
            values.setdefault("defaults", {})[key_of(loaded)] = asdict(default)
        return default

    def forget(self, loaded: Loaded) -> None:
        """Delete the pair's default. Raises ForetokenError if that cannot be written."""
        with self._file.change() as values:
            values.get("defaults", {}).pop(key_of(loaded), None)

    def clear(self, pair: str | None = None) -> int:
        """Delete the defaults of the pair of that name, or all entries; return how many defaults went."""
        with self._file.change() as values:
            gone = [key for key, one in self._parsed(values).items() if pair in (None, one.pair)]
            for key in [*values.get("defaults", {})] if pair is None else gone:
                del values["defaults"][key]
        return len(gone)

    def _parsed(self, values: Mapping[str, Any]) -> dict[str, Default]:
        defaults = {}
        for key, value in values.get("defaults", {}).items():
            try:
                defaults[key] = _reader().validate_python(value)
            except (ValueError, ForetokenError) as error:
                path = self._file.path
                log.warning("%s: %s cannot be read and is not used: %r", path, key, error)
        return defaults


def key_of(loaded: Loaded) -> str:
    """Return what a measurement applies to: the models, and the formats of weights and cache.

    As JSON: models outside the catalog are named by their paths, which may contain any character.
    """
    cached = (f"kv-{FP8}",) if loaded.kv_cache_dtype == FP8 else ()
    formats = (*loaded.heads, loaded.quantization, loaded.device, *cached)
    return json.dumps([loaded.target_id, loaded.draft_id, *formats])


@cache
def _reader() -> TypeAdapter[Default]:
    """Return the reader of what ``keep`` wrote."""
    from pydantic import TypeAdapter  # not for --help

    return TypeAdapter(Default)
