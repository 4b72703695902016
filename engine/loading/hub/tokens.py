"""The access token for gated repositories: in the system's keyring, else in a file of the user's own.

``HF_TOKEN`` goes before what is kept here, and that before what ``hf auth login`` keeps. The keyring is
optional: where the package or a service for it is not there, a file that its owner alone may read (0600)
takes its place, and whoever keeps a token is told so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import platformdirs

from engine.errors import DiskError, InvalidRequest

FILE_VARIABLE = "FORETOKEN_TOKEN_FILE"
"""Environment variable that moves the file."""

SERVICE, ACCOUNT = "foretoken", "hub"


class KeptIn(StrEnum):
    """Where the token that is used comes from."""

    NOWHERE = "nowhere"
    ENVIRONMENT = "environment"
    KEYRING = "keyring"
    FILE = "file"
    LOGIN = "login"


def token_file() -> Path:
    """The file that stands in for a keyring."""
    moved = os.environ.get(FILE_VARIABLE)
    return (
        Path(moved).expanduser()
        if moved
        else Path(platformdirs.user_config_dir("foretoken", appauthor=False)) / "hub_token"
    )


def token() -> tuple[str | None, KeptIn]:
    """The token to send, if any, and where it is kept."""
    if os.environ.get("HF_TOKEN"):
        return os.environ["HF_TOKEN"].strip(), KeptIn.ENVIRONMENT
    kept = _with_keyring(lambda ring: ring.get_password(SERVICE, ACCOUNT))
    if kept:
        return str(kept), KeptIn.KEYRING
    try:
        return token_file().read_text(encoding="utf-8").strip(), KeptIn.FILE
    except (OSError, UnicodeDecodeError):
        pass
    from huggingface_hub import get_token

    login = get_token()
    return login, KeptIn.LOGIN if login else KeptIn.NOWHERE


def keep_token(text: str) -> KeptIn:
    """Keeps ``text`` for all downloads to come; where it is kept is returned.

    Raises InvalidRequest for what is no token, DiskError where it cannot be kept.
    """
    cleaned = text.strip()
    if not cleaned or not cleaned.isascii() or any(map(str.isspace, cleaned)):
        raise InvalidRequest(
            "token",
            "That is no access token: it is one word, which begins with hf_. Copy it again.",
        )
    if _with_keyring(lambda ring: ring.set_password(SERVICE, ACCOUNT, cleaned) or True):
        token_file().unlink(missing_ok=True)
        return KeptIn.KEYRING
    write_private(token_file(), cleaned)
    return KeptIn.FILE


def forget_token() -> bool:
    """Deletes what ``keep_token`` kept, wherever; False where there was nothing."""
    in_ring = _with_keyring(lambda ring: ring.get_password(SERVICE, ACCOUNT)) is not None
    if in_ring:
        _with_keyring(lambda ring: ring.delete_password(SERVICE, ACCOUNT))
    in_file = token_file().is_file()
    token_file().unlink(missing_ok=True)
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
