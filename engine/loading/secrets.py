"""What nobody else may read: in the system's keyring, else in a file of the user's own.

The keyring is optional: where the package or a service for it is not there, a file that its owner alone
may read (0600) takes its place, and whoever keeps something is told so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.errors import DiskError

SERVICE = "foretoken"


class KeptIn(StrEnum):
    """Where a secret that is used comes from."""

    NOWHERE = "nowhere"
    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class Secret:
    """One of them: its name in the keyring, and the file that stands in for that."""

    account: str
    file: Path

    def get(self) -> tuple[str | None, KeptIn]:
        """What is kept, and where; None where nothing is."""
        kept = _with_keyring(lambda ring: ring.get_password(SERVICE, self.account))
        if kept:
            return str(kept), KeptIn.KEYRING
        try:
            return self.file.read_text(encoding="utf-8").strip(), KeptIn.FILE
        except (OSError, UnicodeDecodeError):
            return None, KeptIn.NOWHERE

    def keep(self, text: str) -> KeptIn:
        """Where it is kept from now on. Raises DiskError where it cannot be."""
        if _with_keyring(lambda ring: ring.set_password(SERVICE, self.account, text) or True):
            self.file.unlink(missing_ok=True)
            return KeptIn.KEYRING
        write_private(self.file, text)
        return KeptIn.FILE

    def forget(self) -> bool:
        """Deletes it, wherever it is; False where there was nothing."""
        in_ring = _with_keyring(lambda ring: ring.get_password(SERVICE, self.account)) is not None
        if in_ring:
            _with_keyring(lambda ring: ring.delete_password(SERVICE, self.account))
        in_file = self.file.is_file()
        self.file.unlink(missing_ok=True)
        return in_ring or in_file


def write_private(file: Path, text: str) -> None:
    """Writes a file that nobody else may read at any moment. Raises DiskError."""
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
        part.replace(file)
    except OSError as error:
        raise DiskError.at(file.parent, error) from error


def _with_keyring(use: Callable[[Any], Any]) -> Any:
    """What ``use`` returns; None where there is no keyring, or it refuses."""
    try:
        import keyring

        return use(keyring)
    except Exception:  # each system's service has errors of its own, and all mean: not there
        return None
