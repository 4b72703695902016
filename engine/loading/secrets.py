"""What nobody else may read: in the system's keyring, else in a file of the user's own.

The keyring is optional: where the package or a service for it is not there, a file that its owner alone
may read (0600) takes its place, and whoever keeps something is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.files import write_private

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


def _with_keyring(use: Callable[[Any], Any]) -> Any:
    """What ``use`` returns; None where there is no keyring, or it refuses."""
    try:
        import keyring

        return use(keyring)
    except Exception:  # each system's service has errors of its own, and all mean: not there
        return None
