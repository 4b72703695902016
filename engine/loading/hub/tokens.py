"""The access token for gated repositories: in the system's keyring, else in a file of the user's own.

``HF_TOKEN`` goes before what is kept here, and that before what ``hf auth login`` keeps.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from engine.errors import InvalidRequest
from engine.loading.secrets import KeptIn, Secret

FILE_VARIABLE = "FORETOKEN_TOKEN_FILE"
"""Environment variable that moves the file."""

ACCOUNT = "hub"


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
    kept, place = _secret().get()
    if kept is not None:
        return kept, place
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
    return _secret().keep(cleaned)


def forget_token() -> bool:
    """Deletes what ``keep_token`` kept, wherever; False where there was nothing."""
    return _secret().forget()


def _secret() -> Secret:
    return Secret(ACCOUNT, token_file())
