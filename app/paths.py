"""Where things are: shipped files beside the packages, the user's own in the data folder."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.errors import ForetokenError


class DataFolderError(ForetokenError):
    """The folder for chats and settings cannot be used."""


def project_root() -> Path:
    """The source tree: the installation is editable, so shipped files stand beside the packages."""
    return Path(__file__).resolve().parent.parent


def assets() -> Path:
    """The shipped models, styles and images."""
    return project_root() / "assets"


def pip_prompts() -> Path:
    """The shipped prompts of the kinds that Pip knows: JSON lines, some marked ``held_out``."""
    return assets() / "prompts" / "pip.jsonl"


def catalog_file() -> Path:
    """The shipped catalog of models."""
    return project_root() / "model_catalog.yaml"


def own_catalog(data_dir: Path) -> Path:
    """Where the user's additions to the catalog are looked for."""
    return data_dir / "model_catalog.yaml"


def remembered(data_dir: Path) -> Path:
    """Where proposers keep what they are asked to remember, a folder for each model."""
    return data_dir / "remembered"


def measured(data_dir: Path) -> Path:
    """Where what a model's steps take on this machine is kept, a file for each model."""
    return data_dir / "measured"


def data_folder(chosen: Path | None = None) -> Path:
    """The folder for chats and settings, made if absent, for its owner alone; ``chosen`` replaces the
    system's place."""
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
