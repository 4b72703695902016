"""The settings of the Server page, in a file that its owner alone can read."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from app.settings.settings_file import SettingsFile, Values

log = logging.getLogger(__name__)

FILE = "api.json"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Whether the API is on, its key, and the origins whose pages may use it."""

    on: bool = False
    key: str | None = None
    origins: tuple[str, ...] = ()


def read(data_dir: Path) -> EndpointSettings:
    """Return the stored settings; the defaults where the file cannot be read, which is logged."""
    path = data_dir / FILE
    exists, values = path.exists(), SettingsFile(path, _check).read()
    if exists and not values:
        log.warning("The API settings are reset. Set them again on the Server page.")
    origins = tuple(values.get("origins", ()))
    return EndpointSettings(values.get("on") is True, values.get("key") or None, origins)


def write(data_dir: Path, settings: EndpointSettings) -> None:
    """Store the settings. Raises DiskError, or UnreadableFile for a file that may be intact."""
    with SettingsFile(data_dir / FILE, _check).change() as values:
        values.update(asdict(settings))


def _check(values: Values) -> None:
    key, origins = values.get("key"), values.get("origins", [])
    if not (isinstance(key, str | None) and isinstance(origins, list)):
        raise TypeError("key must be text, origins a list")
    if not all(isinstance(each, str) for each in origins):
        raise TypeError("origins must be a list of texts")
