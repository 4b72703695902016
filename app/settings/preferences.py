"""Stored choices of the user: how the app starts and computes unless the command line says otherwise, how
each model is loaded, and the API's settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from app.settings.settings_file import SettingsFile, Values
from engine.api import AUTO, LoadRequest
from engine.errors import ForetokenError
from engine.files import expanded
from engine.values import LEAST_CONTEXT, require

log = logging.getLogger(__name__)

FILE = "settings.json"
COMPUTING = ("device", "threads", "native")
"""LoadRequest's fields that say how a pair is computed."""
PAIR = ("target", "draft", "heads", "quantization", "kv_cache_dtype", "context")
"""LoadRequest's fields that say which pair, and in which format."""
SHORTEST_IDLE, LONGEST_IDLE = 1.0, 7 * 24 * 60.0
"""Minutes until the model is unloaded, as the page sets them."""
_PAIR_OPTIONS = ("pair", "head", "quantization", "kv_cache_dtype")
"""The command line's options of these."""


class StartWith(StrEnum):
    """The pair that the app starts with."""

    SHIPPED = "pip"
    LAST = "last"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """``chosen`` and ``last`` have the fields ``PAIR`` alone; ``idle_unload``: minutes without a request
    after which the model is unloaded, None for never; ``titles``: whether the model names chats;
    ``learn``: whether heads learn from replies; the others are as in LoadRequest."""

    start_with: StartWith = StartWith.LAST
    chosen: LoadRequest | None = None
    last: LoadRequest | None = None
    device: str = AUTO
    threads: int | None = None
    native: bool = True
    idle_unload: float | None = None
    titles: bool = True
    learn: bool = False

    @property
    def pair(self) -> LoadRequest | None:
        """The pair to start with; None: the one shipped with the app."""
        return {StartWith.CHOSEN: self.chosen, StartWith.LAST: self.last}.get(self.start_with)

    @property
    def as_json(self) -> Values:
        """Return the fields as values of JSON; of a pair, ``PAIR`` alone."""
        values = asdict(self)
        for name in ("chosen", "last"):
            if pair := values[name]:
                values[name] = {field: pair[field] for field in PAIR}
        return values

    def over(self, request: LoadRequest, fixed: Collection[str]) -> LoadRequest:
        """Return what to load first. ``request`` is the command line's; ``fixed`` names the options that
        were stated there, which these preferences do not replace."""
        own = {name: getattr(self, name) for name in COMPUTING if name not in fixed}
        pair = self.pair
        if pair is not None and not set(_PAIR_OPTIONS) & set(fixed):
            own |= {name: getattr(pair, name) for name in PAIR if name not in fixed}
        return replace(request, **own, remembered=request.remembered | own.keys())


class PreferencesFile:
    """The preferences of a data folder. Thread-safe."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SettingsFile(data_dir / FILE)

    @property
    def path(self) -> Path:
        return self._file.path

    def read(self) -> Preferences:
        """Return the preferences; a wrong value, or a file that cannot be read, is logged and ignored."""
        return _parse(self._file.read(), self.path)

    def keep(self, **changes: Any) -> Preferences:
        """Store changed fields of Preferences. Raises InvalidRequest for a wrong value, UnreadableFile
        and DiskError."""
        _check(changes)
        pairs = {name: changes[name] for name in ("chosen", "last") if changes.get(name)}
        changes |= {name: _pair(asdict(pair)) for name, pair in pairs.items()}
        with self._file.change() as values:
            changed = replace(_parse(values, self.path), **changes)
            values.update(changed.as_json)
        return changed

    def remember(self, loaded: LoadRequest) -> None:
        """Store the pair that was loaded last. A failure is only logged: the pair is loaded anyway."""
        last = _pair(asdict(loaded))
        try:
            if self.read().last != last:
                self.keep(last=last)
        except ForetokenError as error:
            log.warning("%s", error)


def _check(values: dict[str, Any]) -> None:
    """Raise InvalidRequest, which names the field, for a wrong value."""
    LoadRequest(target="", **{name: values[name] for name in COMPUTING if name in values})
    for name in ("native", "titles", "learn"):
        value = values.get(name, True)
        require(isinstance(value, bool), name, f"is {value!r}. It must be true or false.")
    idle = values.get("idle_unload")
    require(
        idle is None or SHORTEST_IDLE <= idle <= LONGEST_IDLE,
        "idle_unload",
        f"is {idle}; it must be {SHORTEST_IDLE:g} to {LONGEST_IDLE:,.0f} minutes.",
    )


def _parse(values: dict[str, Any], path: Path) -> Preferences:
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _READERS or value is None:
            continue
        try:
            read = _READERS[name](value)
            _check({name: read})
        except (ForetokenError, ValueError, TypeError, KeyError, OverflowError) as error:
            log.warning("%s: %s is not used: %s", path, name, error)
        else:
            made[name] = read
    return Preferences(**made)


def _pair(value: dict[str, Any]) -> LoadRequest:
    """Return the fields ``PAIR`` of a request. Raises InvalidRequest, KeyError or TypeError."""
    pair = _raised({name: value[name] for name in PAIR})
    draft = pair["draft"]
    return LoadRequest(
        **{
            **pair,
            "target": _absolute(pair["target"]),
            "draft": draft and _absolute(draft),
            "heads": tuple(map(_absolute, pair["heads"])),
        }
    )


def _raised(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored fields of a load; a shorter context, of an earlier version, becomes the least."""
    context = stored.get("context")
    short = isinstance(context, int) and 0 < context < LEAST_CONTEXT
    return {**stored, "context": LEAST_CONTEXT} if short else {**stored}


def _absolute(name: str) -> str:
    """Return an existing path as absolute: the next start may be in another folder."""
    path = expanded(name)
    return str(path.absolute()) if path.exists() else str(name)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "start_with": StartWith,
    "chosen": _pair,
    "last": _pair,
    "device": str,
    "threads": int,
    "native": lambda value: value,
    "idle_unload": float,
    "titles": lambda value: value,
    "learn": lambda value: value,
}
"""Converters of JSON values by field; ``_check`` then validates them."""


LOAD_OPTIONS = "load_options.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Fields of ``LoadRequest`` that are remembered for a model; the defaults leave them to the app."""

    context: int | None = None
    threads: int | None = None
    kv_cache_dtype: str = AUTO
    draft_device: str = AUTO
    gpu_layers: int | None = None

    def __post_init__(self) -> None:
        LoadRequest(target="", **asdict(self))  # raises InvalidRequest for a wrong value

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Return the fields that differ from the defaults."""
        return {name: value for name, value in asdict(self).items() if value not in (None, AUTO)}

    def over(self, request: LoadRequest, fixed: Collection[str]) -> LoadRequest:
        """Return ``request`` with these, except those that the command line states (``fixed``)."""
        own = {name: value for name, value in self.chosen.items() if name not in fixed}
        return replace(request, **own, remembered=request.remembered | own.keys())


class LoadOptionsFile:
    """The load options of a data folder, by the target's id. Thread-safe."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SettingsFile(data_dir / LOAD_OPTIONS)

    def of(self, target: str) -> LoadOptions:
        """Return a model's options; a wrong value is logged and ignored."""
        stored = self._file.read().get(target)
        try:
            return LoadOptions(**_raised(stored)) if isinstance(stored, dict) else LoadOptions()
        except (ForetokenError, TypeError) as error:
            log.warning("The load options of %s are ignored: %s", target, error)
            return LoadOptions()

    def keep(self, target: str, options: LoadOptions) -> None:
        """Store a model's options; defaults alone store nothing. Raises UnreadableFile and DiskError."""
        with self._file.change() as values:
            values.pop(target, None)
            if options.chosen:
                values[target] = dict(options.chosen)


ENDPOINT = "api.json"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Whether the API is on, its key, and the origins whose pages may use it."""

    on: bool = False
    key: str | None = None
    origins: tuple[str, ...] = ()


EndpointChange = Callable[[EndpointSettings], EndpointSettings]


def read_endpoint(data_dir: Path) -> EndpointSettings:
    """Return the stored settings; the defaults where the file cannot be read, which is logged."""
    path = data_dir / ENDPOINT
    exists, values = path.exists(), SettingsFile(path, _check_endpoint).read()
    if exists and not values:
        log.warning("The API settings are reset. Set them again on the Server page.")
    return _endpoint_in(values)


def change_endpoint(data_dir: Path, change: EndpointChange) -> EndpointSettings:
    """Store what ``change`` makes of the settings as they are stored now, and return it: another app may
    use this folder too. Raises DiskError, or UnreadableFile for a file that may be intact."""
    with SettingsFile(data_dir / ENDPOINT, _check_endpoint).change() as values:
        changed = change(_endpoint_in(values))
        values.update(asdict(changed))
    return changed


def _endpoint_in(values: Values) -> EndpointSettings:
    origins = tuple(values.get("origins", ()))
    return EndpointSettings(values.get("on") is True, values.get("key") or None, origins)


def _check_endpoint(values: Values) -> None:
    key, origins = values.get("key"), values.get("origins", [])
    if not (isinstance(key, str | None) and isinstance(origins, list)):
        raise TypeError("key must be text, origins a list")
    if not all(isinstance(each, str) for each in origins):
        raise TypeError("origins must be a list of texts")
