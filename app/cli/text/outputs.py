"""Files that a command writes what it measured into."""

from __future__ import annotations

from pathlib import Path

from engine.errors import InvalidRequest


def check_writable(out: Path) -> None:
    """Whether ``out`` can be written, told before anything is measured. Raises InvalidRequest."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = out.with_suffix(".json")
        there = file.exists()
        file.touch()
        if not there:
            file.unlink()  # a sweep that is interrupted leaves nothing behind
    except OSError as error:
        raise InvalidRequest(
            "out", f"{out} cannot be written: {error.strerror or error}. Choose another --out."
        ) from error
