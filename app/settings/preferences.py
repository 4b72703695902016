"""How the app starts and computes where the command line says nothing: one JSON file of the data folder.

Replaced as a whole and read anew each time, so that pages and commands may share it. What the command
line says goes before it, for that run alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from app.settings import json_file
from app.settings.json_file import UnreadableFile
from engine.api import AUTO, LoadRequest
from engine.errors import ForetokenError, InvalidRequest

log = logging.getLogger(__name__)

FILE = "settings.json"
_VERSION = 1
COMPUTING = ("device", "threads", "native")
"""The settings of how a pair is computed, by the names of LoadRequest's fields."""
PAIR = ("target", "draft", "heads", "quantization", "kv_cache_dtype", "context")
"""LoadRequest's fields that say which pair, and how it is held."""
_GIVEN = ("pair", "head", "quantization", "kv_cache_dtype")
"""The command line's names of these."""


class StartWith(StrEnum):
    """Which pair the app begins with."""

    SHIPPED = "pip"
    LAST = "last"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """``chosen`` and ``last`` are pairs, by ``PAIR`` alone; the others as in LoadRequest."""

    start_with: StartWith = StartWith.LAST
    chosen: LoadRequest | None = None
    last: LoadRequest | None = None
    device: str = AUTO
    threads: int | None = None
    native: bool = True

    @property
    def pair(self) -> LoadRequest | None:
        """What the app begins with; None: what comes with it."""
        return {StartWith.CHOSEN: self.chosen, StartWith.LAST: self.last}.get(self.start_with)

    def over(self, given: LoadRequest, fixed: Collection[str]) -> LoadRequest:
        """What is loaded first. ``given`` is the command line's, ``fixed`` its options that were stated,
        by their names there."""
        own = {name: getattr(self, name) for name in COMPUTING if name not in fixed}
        pair = self.pair
        if pair is not None and not set(_GIVEN) & set(fixed):
            own |= {name: getattr(pair, name) for name in PAIR if name not in fixed}
        return replace(given, **own)


class PreferencesFile:
    """The file of one data folder. Safe to use from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE
        self._lock = threading.Lock()

    def read(self) -> Preferences:
        """What is kept; a value that is no use, or a file that is damaged, is told and left out."""
        try:
            return _parse(self._kept(), self.path)
        except UnreadableFile as error:
            log.warning("%s", error)
            return Preferences()

    def keep(self, **changes: Any) -> Preferences:
        """Fields of Preferences; of pairs what is kept of them. Raises InvalidRequest for a value that
        nothing can have, UnreadableFile and DiskError where it cannot be kept."""
        _check(changes)
        pairs = {name: changes[name] for name in ("chosen", "last") if changes.get(name)}
        changes |= {name: _pair(asdict(pair)) for name, pair in pairs.items()}
        with self._lock:
            changed = replace(_parse(self._kept(), self.path), **changes)
            self._write(changed)
        return changed

    def remember(self, loaded: LoadRequest) -> None:
        """The pair that was loaded last. Where it cannot be kept, that is told in the terminal alone: it
        is loaded all the same."""
        last = _pair(asdict(loaded))
        try:
            if self.read().last != last:
                self.keep(last=last)
        except ForetokenError as error:
            log.warning("%s", error)

    def _kept(self) -> dict[str, Any]:
        return json_file.read(self.path, _VERSION)

    def _write(self, preferences: Preferences) -> None:
        value = {"version": _VERSION, **asdict(preferences)}
        for name in ("chosen", "last"):
            pair = getattr(preferences, name)
            value[name] = pair and {field: getattr(pair, field) for field in PAIR}
        json_file.write(self.path, value)


def _check(values: dict[str, Any]) -> None:
    """Raises InvalidRequest, which names the field."""
    LoadRequest(target="", **{name: values[name] for name in COMPUTING if name in values})
    if not isinstance(values.get("native", True), bool):
        raise InvalidRequest("native", f"native is {values['native']!r}; it must be true or false.")


def _parse(kept: dict[str, Any], path: Path) -> Preferences:
    made: dict[str, Any] = {}
    for name, value in kept.items():
        if name not in _READERS or value is None:
            continue
        try:
            read = _READERS[name](value)
            _check({name: read})
        except (ForetokenError, ValueError, TypeError, KeyError) as error:
            log.warning("%s: %s is not used: %s", path, name, error)
        else:
            made[name] = read
    return Preferences(**made)


def _pair(value: dict[str, Any]) -> LoadRequest:
    """The fields of ``PAIR`` and no other. Raises InvalidRequest, KeyError or TypeError."""
    pair = {"context": None, **{name: value[name] for name in PAIR if name in value}}
    draft = pair["draft"]
    return LoadRequest(
        **{
            **pair,
            "target": _whole(pair["target"]),
            "draft": draft and _whole(draft),
            "heads": tuple(map(_whole, pair["heads"])),
        }
    )


def _whole(name: str) -> str:
    """A path as it is from any folder: the next start may be from another one."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else str(name)


def _start_with(value: str) -> StartWith:
    """Files used to say "shipped" unasked, before the last pair was the default."""
    return StartWith.LAST if value == "shipped" else StartWith(value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "start_with": _start_with,
    "chosen": _pair,
    "last": _pair,
    "device": str,
    "threads": int,
    "native": lambda value: value,
}
"""How a kept field is made of JSON; ``_check`` then says whether it can be."""
