"""Programs of other projects, played by a script of Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FAKE_SERVER = Path(__file__).with_name("fake_server.py")


def stand_in(folder: Path, *names: str, python: str = f'-S "{FAKE_SERVER}"') -> Path:
    """``folder`` with programs of these names in its ``bin``, each this Python with the words ``python``
    before its own; skips where no shell runs them."""
    if sys.platform == "win32":
        pytest.skip("the stand-ins are shell scripts")
    for name in names:
        program = folder / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {python} "$@"\n')
        program.chmod(0o755)
    return folder
