"""One download: which files a model needs, and how their bytes arrive, again and again if need be.

huggingface_hub deletes an unfinished file when a download fails, so the transfer is done here, over
its client, authentication and errors.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but re-exported implicitly
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from engine.errors import DownloadError
from engine.loading.fit import human
from engine.loading.hub.explain import is_connection_trouble
from engine.loading.hub.places import FOLDER_VARIABLE, endpoint, repository_of
from engine.loading.hub.progress import DownloadCancelled, Meter, Progress
from engine.loading.specs import ModelSpec
from engine.models.checkpoints.checkpoint import weights_complete
from engine.models.checkpoints.weight_files import INDEX_FILE, SINGLE_FILE

_SMALL_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json", "merges.txt",
    "vocab.txt", "chat_template.jinja", "chat_template.json", "LICENSE*",
)  # fmt: skip
_SPARE_SPACE = 512_000_000  # left free on the disk, so that the machine stays usable
_CHUNK = 1 << 20
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    name: str
    size: int


class Transfer:
    """One download of one model. Files arrive in order, the weights last."""

    def __init__(
        self,
        spec: ModelSpec,
        destination: Path,
        on_progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._repository = repository_of(spec)
        self._spec = spec
        self._destination = destination
        self._parts = destination / ".partial"
        self._cancelled = cancelled
        self._commit = spec.revision
        self._meter = Meter(self._repository, on_progress)

    def run(self) -> Path:
        self._parts.mkdir(parents=True, exist_ok=True)
        info = _api().model_info(
            self._repository, revision=self._spec.revision, files_metadata=True
        )
        self._commit = info.sha or self._spec.revision
        remote = {file.rfilename: file.size or 0 for file in info.siblings or []}
        weights = self._weights(remote)
        files = [*_small_files(remote), *weights]
        self._meter.expect(sum(file.size for file in files))
        self._check_space(files)
        for file in files:
            self._fetch(file)
        self._meter.report(files[-1].name, force=True)
        if not weights_complete(self._destination):
            raise DownloadError(
                f"{self._repository} was downloaded to {self._destination}, but is not complete: "
                "tokenizer or weights are missing in the repository. Choose another model."
            )
        shutil.rmtree(self._parts, ignore_errors=True)
        return self._destination

    def _weights(self, remote: dict[str, int]) -> list[_RemoteFile]:
        """The safetensors files to fetch; the index is fetched here, for it names them."""
        if SINGLE_FILE in remote:
            return [_RemoteFile(SINGLE_FILE, remote[SINGLE_FILE])]
        if INDEX_FILE not in remote:
            raise DownloadError(_no_safetensors(self._repository, remote))
        self._fetch(_RemoteFile(INDEX_FILE, remote[INDEX_FILE]))
        shards = _shards(self._destination / INDEX_FILE)
        missing = [name for name in shards if name not in remote]
        if missing:
            raise DownloadError(
                f"{self._repository} names weights that it does not hold ({', '.join(missing[:3])}). "
                "The repository is broken: choose another revision or model."
            )
        return [_RemoteFile(name, remote[name]) for name in shards]

    def _check_space(self, files: list[_RemoteFile]) -> None:
        missing = sum(file.size for file in files if not self._is_there(file))
        missing -= sum(part.stat().st_size for part in self._parts.glob("*.part"))
        free = shutil.disk_usage(self._destination).free
        if missing + _SPARE_SPACE > free:
            raise DownloadError(
                f"{self._repository} needs {human(missing)} more on disk, {human(free)} are free at "
                f"{self._destination}. Free some space, or set {FOLDER_VARIABLE} to a folder on "
                "another disk."
            )

    def _is_there(self, file: _RemoteFile) -> bool:
        path = self._destination / file.name
        return path.is_file() and path.stat().st_size == file.size

    def _fetch(self, file: _RemoteFile) -> None:
        self._stop_if_cancelled()
        if self._is_there(file):
            self._meter.arrived(file.name, file.size, now=False)
            return
        url = hf_hub_url(self._repository, file.name, revision=self._commit, endpoint=endpoint())
        metadata = get_hf_file_metadata(url, endpoint=endpoint())
        etag = metadata.etag or self._commit
        size = file.size if metadata.size is None else metadata.size
        part = self._parts / f"{file.name}.{etag[:40]}.part"
        self._meter.arrived(file.name, _size_of(part), now=False)
        self._receive(url, part, size, file.name)
        self._check_hash(part, etag, file.name)
        os.replace(part, self._destination / file.name)

    def _receive(self, url: str, part: Path, size: int, name: str) -> None:
        """Append to ``part`` until it has ``size`` bytes; what ended early is taken up again.

        Raises once some attempts in a row have brought nothing. A file without a byte is fetched, too.
        """
        attempts, furthest = 0, _size_of(part)
        while not part.is_file() or _size_of(part) < size:
            trouble = self._attempt(url, part, name)
            reached = _size_of(part)
            if reached >= size and trouble is None:
                return
            attempts = 0 if reached > furthest else attempts + 1
            furthest = max(furthest, reached)
            if attempts >= _ATTEMPTS:
                raise trouble or DownloadError(
                    f"{endpoint()} ends {name} of {self._repository} after {reached:,} of {size:,} bytes "
                    "each time. What has arrived is kept; try again later."
                )
            self._wait(min(2.0**attempts, 10.0) * 0.25)

    def _attempt(self, url: str, part: Path, name: str) -> Exception | None:
        """Append what comes; the trouble with the connection that ended it, if any did."""
        try:
            self._append(url, part, _size_of(part), name)
        except (GatedRepoError, RepositoryNotFoundError, EntryNotFoundError):
            raise
        except Exception as error:
            if not is_connection_trouble(error):
                raise
            return error
        return None

    def _append(self, url: str, part: Path, had: int, name: str) -> None:
        headers = build_hf_headers()
        # Compressed transfer would make Range count other bytes than the file's.
        headers["Accept-Encoding"] = "identity"
        if had:
            headers["Range"] = f"bytes={had}-"
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as response:
            hf_raise_for_status(response)
            whole = had > 0 and response.status_code == 200
            if whole:  # the server ignored Range and starts over
                self._meter.arrived(name, -had, now=False)
            with part.open("wb" if whole else "ab") as stream:
                for chunk in response.iter_bytes(_CHUNK):
                    stream.write(chunk)
                    self._meter.arrived(name, len(chunk))
                    self._stop_if_cancelled()

    def _check_hash(self, part: Path, etag: str, name: str) -> None:
        """Large files carry their SHA-256 as ETag; a part from two tries is checked as a whole."""
        if len(etag) != 64:
            return
        with part.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != etag:
            part.unlink()
            raise DownloadError(
                f"{name} of {self._repository} arrived damaged and was deleted. Try again; if it "
                "happens again, a proxy or the disk is at fault."
            )

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._stop_if_cancelled()
            time.sleep(0.05)

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise DownloadCancelled(
                f"The download of {self._repository} was stopped. What has arrived is kept; "
                "download again to continue."
            )


def _api() -> HfApi:
    return HfApi(endpoint=endpoint())


def _size_of(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _small_files(remote: dict[str, int]) -> list[_RemoteFile]:
    return [
        _RemoteFile(name, size)
        for name, size in sorted(remote.items())
        if any(fnmatch(name, pattern) for pattern in _SMALL_FILES) and "/" not in name
    ]


def _shards(index: Path) -> list[str]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DownloadError(f"{index} is no index of weights. Delete it and try again.") from error
    if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise DownloadError(f"{index} names files outside its folder, so it is refused.")
    return names


def _no_safetensors(repository: str, remote: dict[str, int]) -> str:
    pickles = sorted(name for name in remote if name.endswith((".bin", ".pt", ".pth")))
    if pickles:
        return (
            f"{repository} publishes its weights as pickles only ({pickles[0]}). A pickle can run any "
            "code when it is read, so nothing was downloaded. Choose a repository with safetensors."
        )
    return (
        f"{repository} holds no {SINGLE_FILE} and no {INDEX_FILE}, so there is nothing to load. "
        "Choose a repository in transformers' layout."
    )
