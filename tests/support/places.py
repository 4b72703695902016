"""Where tests find the repository, what it ships, and what may lie beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = ROOT / "assets" / "pip"
SHARED = ROOT.parent / "shared"


def beside(name: str) -> Path:
    """The model of that name in ``../shared/models``; skips, visibly, where it is absent."""
    folder = SHARED / "models" / name
    if not folder.is_dir():
        pytest.skip(f"../shared/models/{name} is not here")
    return folder
