"""Measure what the app stores on this machine, and delete what the user wrote."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import constants

from app import paths
from app.diagnostics import cache_folder
from app.runtime import Runtime
from app.storage.file import FILE
from app.storage.store import Store
from app.training.runs import Trainings
from engine.errors import DiskError, InvalidRequest, what_failed
from engine.files import size_on_disk


def folders(data_dir: Path, models: Path) -> dict[str, Path]:
    """Return the app's folders by purpose."""
    return {
        "data": data_dir,
        "models": models,
        "cache": cache_folder(),
        "hub": Path(constants.HF_HUB_CACHE),
    }


class StoredData:
    """The stored data of one running app."""

    def __init__(self, runtime: Runtime, store: Store, trainings: Trainings) -> None:
        self._runtime, self._store, self._trainings = runtime, store, trainings

    @property
    def folders(self) -> dict[str, Path]:
        """See ``folders``."""
        return folders(self._runtime.data_dir, self._runtime.models)

    def bytes_in(self, name: str) -> int:
        """Return the bytes of a folder of ``folders``; models within the data folder do not count, nor do
        links."""
        folder, models = self.folders[name], self._runtime.models
        size = size_on_disk(folder)
        within = name == "data" and folder in models.parents
        return size - size_on_disk(models) if within else size

    def user_data(self) -> dict[str, int]:
        """Return what ``forget`` would delete: the number of chats, and the bytes of their file, of what
        drafting remembers and learned, and of what trainings recorded."""
        data_dir = self._runtime.data_dir
        remembered = (paths.remembered(data_dir), paths.learned(data_dir))
        return {
            "chats": len(self._store.chats()),
            "chat_bytes": sum(map(size_on_disk, self._chat_files())),
            "remembered_bytes": sum(map(size_on_disk, remembered)),
            "recorded_bytes": sum(map(size_on_disk, self._trainings.recordings())),
        }

    def forget(self) -> None:
        """Delete the user's data for good: chats with their folders, damaged chat files, what drafting
        remembers and heads learned, what trainings recorded. Settings, models and drafters stay.

        No reply may be written meanwhile. Raises InvalidRequest while a training runs, StoreError and
        DiskError if something could not be deleted.
        """
        if self._trainings.running:
            raise InvalidRequest(
                "training",
                "A training is running and uses these recordings. Stop it on the Train page first.",
            )
        self._runtime.learning.forget()
        self._store.forget_all()
        remembered = paths.remembered(self._runtime.data_dir)
        _delete([*self._trainings.recordings(), remembered, *self._chat_files("-damaged-*")])

    def _chat_files(self, suffix: str = "*") -> list[Path]:
        """Return the file of chats with its logs, and damaged ones that were set aside."""
        return sorted(self._runtime.data_dir.glob(f"{Path(FILE).stem}{suffix}"))


def _delete(files: Iterable[Path]) -> None:
    """Delete what can be deleted. Raises DiskError that names the others."""
    failed = []
    for path in files:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            failed.append(f"{path} could not be deleted: {what_failed(error)}.")
    if failed:
        raise DiskError(
            f"{' '.join(failed)} All else was deleted. Check the permissions and try again, or "
            "delete by hand what is left."
        )
