"""The Models page's endpoints for the disk: sizes of downloads, and deleting them. Plain values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.inventory.downloads import DownloadState
from app.loading import LoadState
from app.runtime import Runtime
from app.ui import words
from app.ui.endpoints import endpoint, outcome
from app.ui.rounds.view import View
from engine.errors import ForetokenError
from engine.loading.inventory import DownloadedModel
from engine.machine.secrets import SecretSource, hub_token
from engine.values.units import format_bytes


class DiskBackend:
    """The downloads that lie on the disk of one running app."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @endpoint
    def disk(self, data: View | None = None) -> View:
        """Return what the downloads take."""
        inventory = self._runtime.inventory
        downloads, used = inventory.downloaded(), self._in_use()
        token = hub_token()
        place = token.get()[1]
        return {
            "folder": str(inventory.models),
            "free": format_bytes(inventory.free_disk()),
            "total": format_bytes(sum(one.bytes for one in downloads)),
            "kept": [
                {
                    "path": str(one.path),
                    "name": one.name,
                    "size": format_bytes(one.bytes),
                    "unfinished": one.unfinished,
                    "in_use": _uses(one, used),
                }
                for one in downloads
            ],
            "token": words.TOKEN_AT[place].format(file=token.file),
            "own_token": place in (SecretSource.KEYRING, SecretSource.FILE),
        }

    @endpoint
    def delete(self, data: View) -> View:
        """Delete one of what ``disk`` lists."""

        def remove() -> None:
            self._runtime.inventory.delete(Path(str(data["path"])), self._in_use())
            self._runtime.look_again()

        return outcome(remove)

    def _in_use(self) -> tuple[Path, ...]:
        """Return the paths of models that are loaded, being loaded or downloaded."""
        runtime, used = self._runtime, []
        names: list[str | None] = []
        status = runtime.loader.status
        for loaded in runtime.engine.resident:
            names += [loaded.target_id, loaded.draft_id]
            used += [Path(head) for head in loaded.request.heads]
        if status.state is LoadState.WORKING:
            names += [status.target_id, status.draft_id]
        for name in filter(None, names):
            try:
                place = runtime.locate(runtime.inventory.spec(name))
            except ForetokenError:
                place = Path(name)  # a file that cannot be read any more is loaded all the same
            used += [place] if place else []
        for one in runtime.downloads.all().values():
            if one.state in (DownloadState.RUNNING, DownloadState.WAITING):
                used.append(runtime.inventory.partial_folder(one.spec) / "any")
        return tuple(used)


def _uses(one: DownloadedModel, used: Iterable[Path]) -> bool:
    own = one.files or (one.path,)
    return any(file == place or file in place.parents for file in own for place in used)
