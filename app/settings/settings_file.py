"""Stored settings: a versioned JSON file of the data folder, which pages, commands and API share.

It is read anew each time and replaced as a whole. A file that could not be read is never overwritten.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ForetokenError
from engine.files import read_json, write_private

log = logging.getLogger(__name__)

VERSION = 1
Values = dict[str, Any]


class UnreadableFile(ForetokenError):
    """The file has another version, or the disk failed to read it."""


class SettingsFile:
    """One file of settings. Thread-safe."""

    def __init__(self, path: Path, check: Callable[[Values], object] = lambda values: None) -> None:
        """``check`` raises ValueError, TypeError or KeyError for values of a wrong form."""
        self.path, self._check = path, check
        self._lock = threading.RLock()

    def read(self) -> Values:
        """Return the values; none, with a warning in the log, where the file cannot be read."""
        try:
            return self._load()
        except UnreadableFile as error:
            log.warning("%s", error)
            return {}

    @contextmanager
    def change(self) -> Iterator[Values]:
        """Give the values to be changed in place, then write them if they changed.

        Raises UnreadableFile, and DiskError where they cannot be written; the file is then unchanged.
        """
        with self._lock:
            values = self._load()
            before = json.dumps(values)
            yield values
            if json.dumps(values) != before:
                write_private(self.path, json.dumps({"version": VERSION, **values}, indent=1))

    def _load(self) -> Values:
        """Return the values; none where there is no file, or a damaged one, which is renamed.

        Raises UnreadableFile for a file that may be intact.
        """
        try:
            values = read_json(self.path)
            if not isinstance(values, dict):
                raise TypeError("it is not a JSON object")
            version = values.pop("version", VERSION)
            if version == VERSION and values:
                self._check(values)
            newer = version > VERSION
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UnreadableFile(
                f"{self.path} cannot be read: {error.strerror or error}. It is neither used nor "
                "changed. Check its permissions and the disk, or choose another folder with "
                "--data-dir."
            ) from error
        except (ValueError, TypeError, KeyError) as error:
            self._set_aside(error)
            return {}
        if newer:
            raise UnreadableFile(
                f"{self.path} was written by a newer version of Foretoken ({version}) and is "
                "neither used nor changed. Update Foretoken, or choose another folder with "
                "--data-dir."
            )
        return values

    def _set_aside(self, error: Exception) -> None:
        """Rename a damaged file, so that its owner can still mend it after the next write."""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        try:
            self.path.replace(aside)
        except OSError:
            aside = self.path
        log.warning(
            "%s cannot be read (%s) and is not used. It is kept as %s.",
            self.path,
            error,
            aside.name,
        )
