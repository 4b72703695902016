"""Keys and tokens: in the system's keyring, else in a file that its owner alone may read (0600).

The keyring is optional: its package or the system's service may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine.errors import InvalidRequest
from engine.files import expanded, write_private
from engine.values.address import Address

SERVICE = "foretoken"
HUB_TOKEN, SERVER_KEY = "HF_TOKEN", "FORETOKEN_SERVER_KEY"
"""Environment variables that go before what is stored; the key is sent to whatever server is asked."""
HUB_TOKEN_FILE, SERVER_KEY_FOLDER = "FORETOKEN_TOKEN_FILE", "FORETOKEN_SERVER_KEYS"
"""Environment variables that move the files that stand in for a keyring."""


class SecretSource(StrEnum):
    """The source of a secret."""

    NOWHERE = "nowhere"
    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret: its name in the keyring, the file in place of a keyring, the environment variable that
    goes before both, and what is wrong with a text that cannot be one."""

    account: str
    file: Path
    variable: str
    malformed: InvalidRequest

    def get(self) -> tuple[str | None, SecretSource]:
        """Return the secret, or None, and where it comes from."""
        if text := os.environ.get(self.variable, "").strip():
            return text, SecretSource.ENVIRONMENT
        stored, source = self._stored()
        if stored is None and self.variable == HUB_TOKEN:
            from huggingface_hub import get_token

            login = get_token()
            return login, SecretSource.LOGIN if login else SecretSource.NOWHERE
        return stored, source

    def sent(self) -> str | None:
        """Return the secret as a header sends it. Raises InvalidRequest for what no header can hold:
        ``store`` sees neither variables nor what others stored."""
        text, source = self.get()
        if text is not None and not text.isascii():
            place = self.variable if source is SecretSource.ENVIRONMENT else source
            raise InvalidRequest(self.malformed.field, f"{place}: {self.malformed}")
        return text

    def store(self, text: str) -> SecretSource:
        """Store a secret and return where. Raises InvalidRequest for a malformed one, DiskError."""
        text = text.strip()
        if not text or not text.isascii() or any(map(str.isspace, text)):
            raise self.malformed
        _with_keyring(lambda ring: ring.set_password(SERVICE, self.account, text))
        # Read back: where people turn the keyring off, it takes everything and keeps nothing.
        if _with_keyring(lambda ring: ring.get_password(SERVICE, self.account)) == text:
            self.file.unlink(missing_ok=True)
            return SecretSource.KEYRING
        write_private(self.file, text)
        return SecretSource.FILE

    def delete(self) -> bool:
        """Delete the stored secret from keyring and file; return False where there was none."""
        in_ring = _with_keyring(lambda ring: ring.get_password(SERVICE, self.account)) is not None
        if in_ring:
            _with_keyring(lambda ring: ring.delete_password(SERVICE, self.account))
        in_file = self.file.is_file()
        self.file.unlink(missing_ok=True)
        return in_ring or in_file

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores what is stored now, whatever is stored or deleted later."""
        text, _ = self._stored()

        def restore() -> None:
            if text:
                self.store(text)
            else:
                self.delete()

        return restore

    def _stored(self) -> tuple[str | None, SecretSource]:
        if stored := _with_keyring(lambda ring: ring.get_password(SERVICE, self.account)):
            return str(stored), SecretSource.KEYRING
        try:
            return self.file.read_text(encoding="utf-8").strip(), SecretSource.FILE
        except (OSError, UnicodeDecodeError):
            return None, SecretSource.NOWHERE


def hub_token() -> Secret:
    """Return the access token for gated repositories. Where none is stored, ``get`` takes what
    ``hf auth login`` stored."""
    problem = "This is not an access token. Tokens are one word and begin with hf_. Copy it again."
    file = _place(HUB_TOKEN_FILE, "hub_token")
    return Secret("hub", file, HUB_TOKEN, InvalidRequest("token", problem))


def server_key(address: Address) -> Secret:
    """Return the key for every model of a server."""
    problem = "This is not a key. Keys are one word of ASCII characters. Copy it again."
    file = _place(SERVER_KEY_FOLDER, "server_keys") / quote(address.root, safe="")
    return Secret(f"server {address.root}", file, SERVER_KEY, InvalidRequest("key", problem))


def _place(variable: str, usual: str) -> Path:
    moved = os.environ.get(variable)
    if moved:
        return expanded(moved)
    import platformdirs

    return Path(platformdirs.user_config_dir("foretoken", appauthor=False)) / usual


def _with_keyring(use: Callable[[Any], Any]) -> Any:
    """Return what ``use`` returns; None where there is no keyring, or it refuses."""
    try:
        import keyring

        return use(keyring)
    except Exception:  # each system's service has errors of its own, and all mean: not there
        return None
