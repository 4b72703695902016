"""Where tests find the repository, what it ships, and what may lie beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = ROOT / "assets" / "pip"
TINY_QWEN = ROOT / "tests" / "data" / "tiny_qwen"
"""A trained hybrid with an MTP layer; `python -m tools.tiny_qwen` makes it."""
SHARED = ROOT.parent / "shared"
REAL_MODELS = "FORETOKEN_REAL_MODELS"
"""Environment variable that names a folder with GGUF files of models that people run."""


def python_files(folder: Path) -> list[Path]:
    """The project's Python files below ``folder``, without those of npm's packages."""
    return sorted(path for path in folder.rglob("*.py") if "node_modules" not in path.parts)


def beside(name: str) -> Path:
    """The model of that name in ``../shared/models``; skips, visibly, where it is absent."""
    folder = SHARED / "models" / name
    if not folder.is_dir():
        pytest.skip(f"../shared/models/{name} is not here")
    return folder


def real_models() -> list[Path]:
    """The GGUF files of real models, small ones first; skips, visibly, where no folder is named."""
    named = os.environ.get(REAL_MODELS)
    if not named:
        pytest.skip(f"{REAL_MODELS} names no folder with GGUF files")
    return sorted(Path(named).glob("*.gguf"), key=lambda file: file.stat().st_size)
