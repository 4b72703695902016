"""What drafts when nobody chose: for each pair what a sweep on this machine found fastest, if one did.

One JSON file of the data folder, replaced as a whole, so that the command line, the API and the pages
may share it. A measured default counts for the models and the quantisation it was measured with. It
is that of all prompts together: what kind of prompt comes next is not known when it is applied, so
the winners of single kinds are shown, not used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.settings import json_file
from app.settings.json_file import UnreadableFile
from engine.api import FP8
from engine.errors import ForetokenError
from engine.request import PLAIN, Control, Speculation, controller_named
from engine.stats import times

if TYPE_CHECKING:  # it brings torch
    from engine.api import Loaded

log = logging.getLogger(__name__)

FILE = "defaults.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Winner:
    """What was fastest, and how much faster than plain decoding."""

    proposer: str
    controller: str
    depth: int
    speedup: float
    prompts: int

    def speculation(self) -> Speculation:
        """Raises InvalidRequest for a controller or depth that there is not."""
        control = controller_named(self.controller)
        if self.proposer == PLAIN:
            return Speculation(proposer=PLAIN)
        depth = None if control is Control.AUTO else self.depth
        return Speculation(proposer=self.proposer, controller=control, depth=depth)

    def __str__(self) -> str:
        if self.proposer == PLAIN:
            return "none (plain decoding)"
        auto = self.controller == Control.AUTO
        return (
            f"{self.proposer}, {'auto' if auto else f'depth {self.depth}'}, {times(self.speedup)}"
        )


@dataclass(frozen=True, slots=True)
class Default:
    """One pair's measured default. ``kinds``: the winner of each kind of prompt."""

    pair: str
    quantization: str
    measured: str
    winner: Winner
    kinds: Mapping[str, Winner] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.winner} as measured on {self.measured} over {self.winner.prompts} prompts"


class Defaults:
    """The defaults of one data folder, read anew each time: another process may have swept."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE

    def all(self) -> dict[str, Default]:
        """By key; what is damaged or cannot be read is told and left out."""
        try:
            entries = self._entries()
        except UnreadableFile as error:
            log.warning("%s", error)
            return {}
        found = {}
        for key, value in entries.items():
            try:
                found[key] = _parse(value)
            except (ValueError, TypeError, KeyError, AttributeError, ForetokenError) as error:
                log.warning("%s: %s is not used, for it cannot be read: %r", self.path, key, error)
        return found

    def of(self, loaded: Loaded | None) -> Default | None:
        """The measured default of a loaded pair, if what won is offered with it."""
        if loaded is None:
            return None
        known = self.all()
        found = known.get(_key_in(known, loaded))
        return found if found and found.winner.proposer in loaded.capabilities.names else None

    def speculation(self, loaded: Loaded) -> Speculation:
        """What drafts for the pair when nobody chose anything."""
        found = self.of(loaded)
        if found is not None:
            return found.winner.speculation()
        return Speculation(proposer=loaded.capabilities.preferred)

    def keep(self, loaded: Loaded, winner: Winner, kinds: Mapping[str, Winner]) -> Default:
        """Makes ``winner`` the pair's default; entries that cannot be read stay as they are.

        Raises ForetokenError where it cannot be kept.
        """
        today = datetime.now(UTC).date().isoformat()
        default = Default(loaded.name, loaded.quantization, today, winner, dict(kinds))
        entries = self._entries()
        entries.pop(_key_in(self.all(), loaded), None)
        self._write({**entries, key_of(loaded): asdict(default)})
        return default

    def forget(self, loaded: Loaded) -> None:
        """The loaded pair has none from then on. Raises ForetokenError where that cannot be kept."""
        entries = self._entries()
        if entries.pop(_key_in(self.all(), loaded), None) is not None:
            self._write(entries)

    def clear(self, pair: str | None = None) -> int:
        """Forgets the defaults of the pair of that name, or all; returns how many there were."""
        kept, entries = self.all(), self._entries()
        gone = {key for key, one in kept.items() if pair in (None, one.pair)}
        left = {key: value for key, value in entries.items() if pair and key not in gone}
        if left != entries:
            self._write(left)
        return len(gone)

    def _entries(self) -> dict[str, Any]:
        """By key, as they stand in the file. Raises UnreadableFile."""
        kept = json_file.read(self.path, _VERSION)
        try:
            return dict(kept["defaults"]) if kept else {}
        except (ValueError, TypeError, KeyError) as error:
            json_file.set_aside(self.path, error)
            return {}

    def _write(self, entries: Mapping[str, Any]) -> None:
        json_file.write(self.path, {"version": _VERSION, "defaults": entries})


def key_of(loaded: Loaded) -> str:
    """What a measurement counts for: all models, and how the target's weights and cache are held.

    As JSON, for models outside the catalog are named by their paths, which may hold anything.
    """
    return json.dumps([loaded.target_id, loaded.draft_id, *_how(loaded)])


def _key_in(known: Mapping[str, Default], loaded: Loaded) -> str:
    """The key of the pair's entry among ``known``, if there is one.

    Older files name models by their folders alone, and folders of one name share an entry: there it
    counts for a pair of the catalog that has its name.
    """
    key, by_folders = key_of(loaded), " ".join((loaded.target, loaded.draft or "-", *_how(loaded)))
    older = None if Path(loaded.target_id).is_absolute() else known.get(by_folders)
    return by_folders if key not in known and older and older.pair == loaded.name else key


def _how(loaded: Loaded) -> tuple[str, ...]:
    """The heads, and how the target's weights and cache are held."""
    cached = (f"kv-{FP8}",) if loaded.kv_cache_dtype == FP8 else ()
    return (*loaded.heads, loaded.quantization, loaded.device, *cached)


def _parse(value: dict[str, Any]) -> Default:
    """Raises what ``all`` knows for anything that ``keep`` did not write."""
    winner, kinds = _winner(value["winner"]), value["kinds"].items()
    return Default(
        pair=str(value["pair"]),
        quantization=str(value["quantization"]),
        measured=str(value["measured"]),
        winner=winner,
        kinds={str(kind): _winner(one) for kind, one in kinds},
    )


def _winner(value: dict[str, Any]) -> Winner:
    winner = Winner(**value)
    winner.speculation()
    float(winner.speedup), int(winner.prompts)
    return winner
