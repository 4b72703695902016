"""Text files that a page attaches to a message: read in the browser, and checked here once more."""

from __future__ import annotations

from typing import Any

from app.storage.history import TextFile
from app.ui.words import Words
from engine.errors import InvalidRequest

LARGEST = 512 * 1024
"""Characters of all files of a message together."""
MOST = 20
"""Files of one message."""


def files_of(sent: Any) -> tuple[TextFile, ...]:
    """Return the files of a message. Raises InvalidRequest if one is no text or all are too large."""
    found = []
    for each in sent if isinstance(sent, list) else []:
        name = each.get("name") if isinstance(each, dict) else None
        text = each.get("text") if isinstance(each, dict) else None
        if not isinstance(name, str) or not isinstance(text, str) or "\0" in text:
            raise InvalidRequest("files", Words.NO_TEXT_FILE)
        found.append(TextFile(_one_line(name), text))
    if len(found) > MOST or sum(len(file.text) for file in found) > LARGEST:
        raise InvalidRequest("files", Words.files_too_large(MOST, LARGEST // 1024))
    return tuple(found)


def _one_line(name: str) -> str:
    return " ".join(name.split())[:200] or "file"
