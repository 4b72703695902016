"""The Models page's endpoints for the hub and the disk: look-ups, downloads, the token. Plain values."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from app.inventory.downloads import Download, DownloadState, key_of
from app.loading import LoadState
from app.runtime import Runtime
from app.ui import words
from app.ui.endpoints import View, endpoint, waits
from app.ui.words import count
from engine.errors import ForetokenError, InvalidRequest, TokenNeeded
from engine.loading.inventory import DownloadedModel, ModelSpec, hub_page, room_for_weights
from engine.machine.secrets import SecretSource, hub_token
from engine.values.units import format_bytes


class TransfersBackend:
    """Look-ups and downloads of one running app, also those that lie on the disk."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._looked_up: dict[str, ModelSpec] = {}  # by key, what people may download

    @waits
    @endpoint
    def search(self, data: View) -> list[View]:
        """Return repositories of GGUF files whose names have the ``words``. Raises ForetokenError."""
        return [
            {
                "name": hit.name,
                "downloads": count(hit.downloads),
                "likes": count(hit.likes),
                "gated": hit.gated,
            }
            for hit in self._runtime.inventory.search(str(data.get("words") or ""))
        ]

    @waits
    @endpoint
    def look_up(self, data: View) -> View:
        """Return what can be downloaded from a repository; ``needs_token``: why an access token is
        needed first. Raises ForetokenError."""
        try:
            found = self._runtime.inventory.look_up(str(data.get("repository") or ""))
        except TokenNeeded as error:
            return {"needs_token": str(error)}
        room, clause = room_for_weights()
        self._looked_up |= {key_of(spec): spec for spec in found.choices}
        return {
            "name": found.name,
            "licence": "" if found.licence == "unknown" else found.licence,
            "gated": found.gated,
            "reason": found.reason,
            "choices": [
                {
                    "key": key_of(spec),
                    "name": spec.name,
                    "type": spec.gguf_type or "safetensors",
                    "size": format_bytes(spec.bytes),
                    "fits": spec.bytes < room,
                    "fit": f"The weights alone need {format_bytes(spec.bytes)}; {clause}",
                    "path": str(self._runtime.locate(spec) or "") or None,
                }
                for spec in found.choices
            ],
        }

    @endpoint
    def download(self, data: View) -> bool:
        """Start or queue the missing files of ``pair`` or ``id``, or ``key`` of a look-up or a download.
        Raises InvalidRequest for an unknown key."""
        downloads = self._runtime.downloads
        if "key" not in data:
            for spec in self._missing(data):
                downloads.start(spec)
        elif wanted := self._looked_up.get(key := str(data["key"])):
            for spec in (wanted, *wanted.companions):
                downloads.start(spec)
        elif key in downloads.all():
            downloads.resume(key)
        else:
            raise InvalidRequest(
                "key", "This download is no longer in the list. Search for the model again."
            )
        return True

    def _missing(self, data: View) -> list[ModelSpec]:
        catalog = self._runtime.catalog
        if data.get("pair"):
            pair = catalog.pair(str(data["pair"]))
            specs = [pair.target, *([pair.draft] if pair.draft else [])]
        else:
            one = catalog.model(str(data["id"]))
            specs = [one, *one.companions]
        return [one for one in specs if one.repository and self._runtime.locate(one) is None]

    @endpoint
    def downloads(self, data: View | None = None) -> View:
        """Return the state of all downloads, by key."""
        downloads = self._runtime.downloads
        # Asked first: what comes by the end is in the last answer.
        working, finished = downloads.working, downloads.finished
        shown = {key: self._download(one) for key, one in downloads.all().items()}
        return {"downloads": shown, "working": working, "finished": finished}

    def _download(self, one: Download) -> View:
        progress = one.progress
        if progress is None:
            done, total = self._runtime.inventory.arrived(one.spec), one.spec.bytes
        else:
            done, total = progress.bytes, progress.total
        running = progress is not None and one.state is DownloadState.RUNNING
        eta = progress.eta_s if progress and running else None
        return {
            "name": one.spec.name,
            "source": one.spec.repository,
            "state": str(one.state),
            "done": format_bytes(done),
            "arrived": bool(done),
            "total": format_bytes(total) if total else "",
            "share": min(done / total, 1.0) if total else None,
            "speed": f"{format_bytes(int(progress.bytes_per_s))}/s"
            if progress and running
            else None,
            "eta": None if eta is None else words.duration(eta),
            "waiting": progress.waiting if progress and running else "",
            "error": one.message or None,
            "needs_token": one.needs_token,
            "unusable": one.unusable,
            "page": hub_page(one.spec),
        }

    @endpoint
    def pause(self, data: View) -> bool:
        """Pause a download; keep what has arrived."""
        self._runtime.downloads.pause(str(data["key"]))
        return True

    @endpoint
    def discard(self, data: View) -> bool:
        """Delete what has arrived of a download that does not run, or of one that cannot be run."""
        self._runtime.downloads.discard(str(data["key"]))
        return True

    # ---- the access token

    @endpoint
    def keep_token(self, data: View) -> str:
        """Store an access token and say where. Raises ForetokenError."""
        secret = hub_token()
        place = secret.store(str(data.get("token") or ""))
        return words.SECRET_KEPT[place].format(what="token", file=secret.file)

    @endpoint
    def forget_token(self, data: View | None = None) -> bool:
        """Delete the stored token."""
        hub_token().delete()
        return True

    # ---- what downloads take on the disk

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
    def delete(self, data: View) -> bool:
        """Delete one of what ``disk`` lists."""
        self._runtime.inventory.delete(Path(str(data["path"])), self._in_use())
        self._runtime.look_again()
        return True

    def _in_use(self) -> tuple[Path, ...]:
        """Return the paths of models that are loaded, being loaded or downloaded, trained or raced."""
        runtime, used = self._runtime, []
        names: list[str | None] = []
        status = runtime.loader.status
        for loaded in runtime.engine.resident:
            names += [loaded.target_id, loaded.draft_id]
            used += [Path(head) for head in loaded.request.heads]
        if status.state is LoadState.WORKING:
            names += [status.target_id, status.draft_id]
        for request in (each for uses in runtime.uses for each in uses()):
            with suppress(ForetokenError):  # it cannot be loaded either
                pair = runtime.inventory.named(request)
                names += [spec.id for spec in (pair.target, pair.draft) if spec]
                used += pair.heads
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
