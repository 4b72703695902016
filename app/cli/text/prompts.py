"""Prompts for commands: from the command line, standard input, or a file of JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path

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
        from engine.bench.prompts import read

        return [each.turns for each in read(file)]
    if prompt is None and sys.stdin.isatty():
        return None
    return [(sys.stdin.read() if prompt in (None, "-") else str(prompt),)]
