"""Standard folders on Linux, macOS and Windows."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.files import expanded

WINDOWS, MACOS = "win32", "darwin"


@dataclass(frozen=True, slots=True)
class System:
    """``platform`` as in ``sys.platform``; ``root`` is where absolute places begin."""

    platform: str
    home: Path
    environment: Mapping[str, str]
    root: Path = Path("/")

    @classmethod
    def current(cls) -> System:
        """Return this machine's, for this user."""
        return cls(sys.platform, Path.home(), dict(os.environ))

    def folder_named_by(self, variable: str) -> Path | None:
        """Return the folder in an environment variable, or None if it is not set."""
        value = self.environment.get(variable)
        return expanded(value) if value else None

    @property
    def caches(self) -> Path:
        """The user's cache folder."""
        if self.platform == WINDOWS:
            return self.folder_named_by("LOCALAPPDATA") or self.home / "AppData" / "Local"
        if self.platform == MACOS:
            return self.home / "Library" / "Caches"
        return self.folder_named_by("XDG_CACHE_HOME") or self.home / ".cache"
