"""Paths: shipped files beside the packages, the user's own in the data folder."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.errors import ForetokenError


class DataFolderError(ForetokenError):
    """The folder for chats and settings cannot be used."""


def project_root() -> Path:
    """Return the source tree: the installation is editable, so shipped files are beside the packages."""
    return Path(__file__).resolve().parent.parent


def assets() -> Path:
    """Return the folder of shipped models, styles and images."""
    return project_root() / "assets"


def pip_prompts() -> Path:
    """Return the file of shipped prompts of Pip's kinds: JSON lines, some marked ``held_out``."""
    return assets() / "prompts" / "pip.jsonl"


def catalog_file() -> Path:
    """Return the shipped catalog of models."""
    return project_root() / "model_catalog.yaml"


def own_catalog(data_dir: Path) -> Path:
    """Return the user's own catalog."""
    return data_dir / "model_catalog.yaml"


def remembered(data_dir: Path) -> Path:
    """Return the folder of proposers' caches across requests, one folder for each model."""
    return data_dir / "remembered"


def measured(data_dir: Path) -> Path:
    """Return the folder of measured step times, a file for each model."""
    return data_dir / "measured"


def data_folder(chosen: Path | None = None) -> Path:
    """Return the folder for chats and settings, created with mode 0700 if absent; ``chosen`` replaces the
    system's default. Raises DataFolderError."""
    folder = (chosen or Path(platformdirs.user_data_dir("foretoken", appauthor=False))).expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise DataFolderError(
            f"Chats and settings cannot be kept in {folder}: {error.strerror or error}. "
            "Choose another folder with --data-dir."
        ) from error
    return folder.resolve()
