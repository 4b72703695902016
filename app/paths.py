"""Paths: what ships with the packages, and the user's own in the data folder."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.errors import ForetokenError, what_failed

_APP = Path(__file__).resolve().parent


def packages() -> Path:
    """Return the folder that holds the packages ``app`` and ``engine``. Nothing is written there."""
    return _APP.parent


def shipped() -> Path:
    """Return the folder with the catalog and ``assets``: inside the package where a wheel was installed,
    else the repository."""
    installed = _APP / "shipped"
    return installed if installed.is_dir() else packages()


def assets() -> Path:
    """Return the folder of shipped models, styles and images."""
    return shipped() / "assets"


def recipes() -> Path:
    """Return the folder of shipped training recipes."""
    return packages() / "engine" / "train" / "recipes"


def pip_prompts() -> Path:
    """Return the file of shipped prompts of Pip's kinds: JSON lines, some marked ``held_out``."""
    return assets() / "prompts" / "pip.jsonl"


def catalog_file() -> Path:
    """Return the shipped catalog of models."""
    return shipped() / "model_catalog.yaml"


def own_catalog(data_dir: Path) -> Path:
    """Return the user's own catalog."""
    return data_dir / "model_catalog.yaml"


def remembered(data_dir: Path) -> Path:
    """Return the folder of proposers' caches across requests, one folder for each model."""
    return data_dir / "remembered"


def measured(data_dir: Path) -> Path:
    """Return the folder of measured step times, a file for each model."""
    return data_dir / "measured"


def learned(data_dir: Path) -> Path:
    """Return the folder of what heads learned from replies, one folder for each model."""
    return data_dir / "learned"


def data_folder(chosen: Path | None = None) -> Path:
    """Return the folder for chats and settings, created with mode 0700 if absent; ``chosen`` replaces the
    system's default. Raises ForetokenError."""
    folder = chosen or Path(platformdirs.user_data_dir("foretoken", appauthor=False))
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of nobody
        raise ForetokenError(
            f"Chats and settings cannot be saved in {folder}: {what_failed(error).rstrip('.')}. "
            "Choose another folder with --data-dir."
        ) from error
    return folder.resolve()
