"""Prompts for commands: from the command line, standard input, or a file of JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.errors import InvalidRequest

Conversation = tuple[str, ...]
"""What the user says, turn by turn."""


def collect(prompt: str | None, file: Path | None) -> list[Conversation] | None:
    """The conversations to hold; None: talk with who sits at the terminal.

    ``prompt`` "-" reads standard input, and so does none where that is no terminal.
    """
    if prompt is not None and file is not None:
        raise InvalidRequest(
            "prompt", "Give either a prompt or a file of them with --prompts FILE, not both."
        )
    if file is not None:
        return read_file(file)
    if prompt is None and sys.stdin.isatty():
        return None
    return [(sys.stdin.read() if prompt in (None, "-") else str(prompt),)]


def read_file(path: Path) -> list[Conversation]:
    """One JSON object a line, with ``prompt`` or ``turns``; empty lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequest(
            "prompts", f"{path} cannot be read: {reason}. --prompts takes a file of JSON lines."
        ) from error
    found = [_conversation(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InvalidRequest("prompts", f"{path} holds no prompt: write one JSON object a line.")
    return found


def _conversation(line: str, place: str) -> Conversation:
    wanted = 'write {"prompt": "..."} or {"turns": ["...", "..."]} on each line.'
    try:
        entry: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidRequest("prompts", f"{place} is no JSON ({error}); {wanted}") from error
    if not isinstance(entry, dict):
        raise InvalidRequest("prompts", f"{place} is no JSON object; {wanted}")
    turns = entry["turns"] if "turns" in entry else [entry.get("prompt")]
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) for t in turns):
        raise InvalidRequest("prompts", f"{place} has no prompt and no turns; {wanted}")
    return tuple(turns)
