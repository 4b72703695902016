"""One download: choose the files that a model needs, and resume each until it is complete.

huggingface_hub deletes a partial file when a download fails, so the transfer is done here, with its
client, authentication and errors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but re-exported implicitly
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from engine.errors import DownloadCancelled, DownloadError
from engine.files import read_json
from engine.loading.hub.disk import MODELS_VARIABLE, PARTIAL, endpoint, flat, locate, repository_of
from engine.loading.hub.errors import ATTEMPTS, Retry, may_pass
from engine.loading.pooling import CONFIG, MODULES
from engine.loading.progress import DownloadProgress
from engine.loading.specs import ModelSpec
from engine.machine.secrets import hub_token
from engine.models.checkpoints.gguf.description import parts_named
from engine.models.checkpoints.weight_files import INDEX_FILE, SINGLE_FILE
from engine.values.units import format_bytes

_REPORT_S = 0.1
_SPEED_WINDOW_S = 5.0


class Meter:
    """Counts bytes and reports them, with the speed over the last seconds."""

    def __init__(self, repository: str, on_progress: Callable[[DownloadProgress], None]) -> None:
        self._repository = repository
        self._on_progress = on_progress
        self._bytes = 0
        self._received = 0
        self._marks = [(time.monotonic(), 0)]
        self._reported = 0.0
        self._total = 0
        self._waiting = ""

    def wait(self, file: str, why: str) -> None:
        """Report that nothing arrives because of ``why``; "" that the download goes on."""
        began = bool(why) != bool(self._waiting)
        self._waiting = why
        self.report(file, force=began)

    def expect(self, more: int) -> None:
        """Set the total to what has arrived and ``more`` bytes."""
        self._total = self._bytes + more

    def arrived(self, file: str, count: int, *, now: bool = True) -> None:
        """Count bytes; with ``now`` False they were there before and do not count for the speed."""
        self._bytes += count
        if now:
            self._received += count
        self.report(file)

    def report(self, file: str, *, force: bool = False) -> None:
        time_now = time.monotonic()
        if not force and time_now - self._reported < _REPORT_S:
            return
        self._reported = time_now
        speed = self._speed(time_now)
        left = max(self._total - self._bytes, 0)
        eta = left / speed if speed > 0 else None
        self._on_progress(
            DownloadProgress(
                self._repository,
                file,
                min(self._bytes, self._total),
                self._total,
                speed,
                eta,
                self._waiting,
            )
        )

    def _speed(self, time_now: float) -> float:
        self._marks.append((time_now, self._received))
        while len(self._marks) > 2 and time_now - self._marks[0][0] > _SPEED_WINDOW_S:
            del self._marks[0]
        start, received = self._marks[0]
        return (self._received - received) / max(time_now - start, 1e-6)


_SMALL_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json", "merges.txt",
    "vocab.txt", "chat_template.jinja", "chat_template.json", MODULES, CONFIG,
)  # fmt: skip
_LICENCES = ("LICENSE*",)
_SPARE_SPACE = 512_000_000  # left free on the disk, so that the machine stays usable


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    """``version`` changes with the content. ``sha256`` is "" for small files: the hub has none."""

    name: str
    size: int
    version: str
    sha256: str


class Transfer:
    """One download of one model, file by file, the weights last."""

    def __init__(
        self,
        spec: ModelSpec,
        destination: Path,
        on_progress: Callable[[DownloadProgress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._repository = repository_of(spec)
        self._spec = spec
        self._destination = destination
        self._parts = destination / PARTIAL
        self._cancelled = cancelled
        self._commit = spec.revision
        self._meter = Meter(self._repository, on_progress)
        self._token = hub_token().sent()
        self._retry = Retry(
            self._stop_if_cancelled, lambda why: self._meter.wait(self._repository, why)
        )

    def run(self) -> Path:
        self._stop_if_cancelled()
        self._parts.mkdir(parents=True, exist_ok=True)
        api = HfApi(endpoint=endpoint(), token=self._token)
        info = self._retry.call(
            lambda: api.model_info(
                self._repository,
                revision=self._spec.revision,
                files_metadata=True,
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            ),
            first=True,
        )
        self._commit = info.sha or self._spec.revision
        remote = {file.rfilename: self._listed(file) for file in info.siblings or []}
        weights = self._weights(remote)
        files = [*_small_files(remote, gguf=bool(self._spec.file)), *weights]
        self._meter.expect(sum(file.size for file in files))
        self._check_space(files)
        for file in files:
            self._fetch(file)
        self._meter.report(files[-1].name, force=True)
        found = locate(self._spec, self._destination.parent)
        if found is None:
            raise DownloadError(
                f"{self._repository} was downloaded to {self._destination}, but the repository "
                "has no tokenizer or no weights. Choose another model."
            )
        if not [*self._parts.glob("*.part")]:  # another file of the repository may be half here
            shutil.rmtree(self._parts, ignore_errors=True)
        return found

    def _listed(self, file: RepoSibling) -> _RemoteFile:
        sha256 = file.lfs.sha256 if file.lfs else ""
        version = sha256 or file.blob_id or self._commit
        return _RemoteFile(file.rfilename, file.size or 0, version, sha256)

    def _weights(self, remote: dict[str, _RemoteFile]) -> list[_RemoteFile]:
        """Return the weight files; an index, which names them, is fetched first."""
        if self._spec.file:
            return self._gguf_files(remote)
        if SINGLE_FILE in remote:
            return [remote[SINGLE_FILE]]
        if INDEX_FILE not in remote:
            raise DownloadError(_no_safetensors(self._repository, list(remote)))
        self._fetch(remote[INDEX_FILE])
        shards = _shards(self._destination / INDEX_FILE)
        missing = [name for name in shards if name not in remote]
        if missing:
            raise DownloadError(
                f"{self._repository} lists weights that it does not have "
                f"({', '.join(missing[:3])}). Choose another revision or model."
            )
        return [remote[name] for name in shards]

    def _gguf_files(self, remote: dict[str, _RemoteFile]) -> list[_RemoteFile]:
        names = parts_named(self._spec.file)
        missing = [name for name in names if name not in remote]
        if missing:
            raise DownloadError(
                f"{self._repository} has no {missing[0]}. Check the name, or look up the "
                "repository again: its files may have been renamed."
            )
        if any(map(_leads_out, names)):
            raise DownloadError(
                f"{self._spec.file} is outside its folder, so it is refused. Choose another file."
            )
        return [remote[name] for name in names]

    def _check_space(self, files: list[_RemoteFile]) -> None:
        wanted = [file for file in files if not self._is_there(file)]
        kept = (part for file in wanted for part in self._parts.glob(f"{flat(file.name)}.*.part"))
        missing = sum(file.size for file in wanted) - sum(part.stat().st_size for part in kept)
        free = shutil.disk_usage(self._destination).free
        if missing + _SPARE_SPACE > free:
            raise DownloadError(
                f"{self._repository} needs {format_bytes(missing)} more disk space; "
                f"{format_bytes(free)} are free at {self._destination}. Free some space, or "
                f"choose a folder on another disk with {MODELS_VARIABLE}."
            )

    def _is_there(self, file: _RemoteFile) -> bool:
        """Return True if the file is here in the version that the hub has now.

        Its size does not tell: weights that were trained further have the size of the old ones. Until all
        of a download is here, the version of each finished file is noted beside it. Where there is no
        note, weights are hashed once, and small files are fetched again.
        """
        path, note = self._destination / file.name, self._note_of(file)
        if not path.is_file() or path.stat().st_size != file.size:
            return False
        if not note.is_file() and file.sha256 and _sha256_of(path) == file.sha256:
            note.write_text(file.version, encoding="utf-8")
        return note.is_file() and note.read_text(encoding="utf-8") == file.version

    def _note_of(self, file: _RemoteFile) -> Path:
        """Return the file that holds the version of a finished file."""
        return self._parts / f"{flat(file.name)}.version"

    def _fetch(self, file: _RemoteFile) -> None:
        self._stop_if_cancelled()
        if self._is_there(file):
            self._meter.arrived(file.name, file.size, now=False)
            return
        url = hf_hub_url(self._repository, file.name, revision=self._commit, endpoint=endpoint())
        metadata = self._retry.call(
            lambda: get_hf_file_metadata(url, endpoint=endpoint(), token=self._token)
        )
        etag = metadata.etag or self._commit
        size = file.size if metadata.size is None else metadata.size
        part = self._part_of(file, etag)
        self._meter.arrived(file.name, _size_of(part), now=False)
        self._receive(url, part, size, file.name)
        # Large files carry their SHA-256 as ETag, too, unless something between changes it.
        self._check_hash(part, file.sha256 or (etag if len(etag) == 64 else ""), file.name)
        (self._destination / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, self._destination / file.name)
        self._note_of(file).write_text(file.version, encoding="utf-8")

    def _part_of(self, file: _RemoteFile, etag: str) -> Path:
        """Return the partial file, named by the ETag; delete those of other versions."""
        part = self._parts / f"{flat(file.name)}.{etag[:40]}.part"
        for other in self._parts.glob(f"{flat(file.name)}.*.part"):
            if other != part:
                other.unlink()
        return part

    def _receive(self, url: str, part: Path, size: int, name: str) -> None:
        """Append to ``part`` until it has ``size`` bytes, resuming after each early end.

        Raises after some attempts in a row without a byte. An empty file is fetched, too.
        """
        attempts, furthest = 0, _size_of(part)
        while not part.is_file() or _size_of(part) < size:
            error = self._attempt(url, part, name)
            reached = _size_of(part)
            if reached >= size and error is None:
                return
            attempts = 1 if reached > furthest else attempts + 1
            furthest = max(furthest, reached)
            if attempts >= ATTEMPTS:
                raise error or DownloadError(
                    f"{endpoint()} ended {name} of {self._repository} after {reached:,} of {size:,} "
                    "bytes, repeatedly. Progress is kept; try again later."
                )
            self._retry.wait(attempts, error)

    def _attempt(self, url: str, part: Path, name: str) -> Exception | None:
        """Append what arrives; return the error if a retry may help, else raise it."""
        try:
            self._append(url, part, _size_of(part), name)
        except (GatedRepoError, RepositoryNotFoundError, EntryNotFoundError):
            raise
        except Exception as error:
            if not may_pass(error):
                raise
            return error
        return None

    def _append(self, url: str, part: Path, had: int, name: str) -> None:
        headers = build_hf_headers(token=self._token)
        # Compressed transfer would make Range count other bytes than the file's.
        headers["Accept-Encoding"] = "identity"
        if had:
            headers["Range"] = f"bytes={had}-"
        # The client's own requests never time out: a connection that dies silently would hang here.
        with get_session().stream(
            "GET",
            url,
            headers=headers,
            follow_redirects=True,
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        ) as response:
            hf_raise_for_status(response)
            whole = had > 0 and response.status_code == 200
            if whole:  # the server ignored Range and starts over
                self._meter.arrived(name, -had, now=False)
            with part.open("wb" if whole else "ab") as stream:
                for chunk in response.iter_bytes():
                    stream.write(chunk)
                    self._meter.arrived(name, len(chunk))
                    self._stop_if_cancelled()

    def _check_hash(self, part: Path, sha256: str, name: str) -> None:
        """Check the whole file against ``sha256``, unless that is ""."""
        if sha256 and _sha256_of(part) != sha256:
            part.unlink()
            raise DownloadError(
                f"{name} of {self._repository} was damaged on the way (wrong SHA-256) and "
                "deleted. Try again; if it happens again, check the proxy or the disk."
            )

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise DownloadCancelled(
                f"The download of {self._repository} was stopped. Progress is kept; download "
                "again to continue."
            )


def _size_of(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _small_files(remote: dict[str, _RemoteFile], *, gguf: bool) -> list[_RemoteFile]:
    """Return the files beside the weights; a GGUF file contains all of them but the licence."""
    patterns = _LICENCES if gguf else (*_SMALL_FILES, *_LICENCES)
    return [
        file
        for name, file in sorted(remote.items())
        if any(fnmatch(name, pattern) for pattern in patterns)
        and ("/" not in name or name in patterns)
        and not _leads_out(name)
    ]


def _leads_out(name: str) -> bool:
    r"""Return True if a file of that name may lie outside its folder on some system.

    On Windows ``\`` separates folders, and ``:`` follows a drive or a file that the rest is a stream of.
    """
    return bool({"\\", ":"} & set(name)) or name.startswith("/") or ".." in name.split("/")


def _shards(index: Path) -> list[str]:
    try:
        names = sorted({str(name) for name in read_json(index)["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DownloadError(
            f"{index} is not an index of weights. Delete it and try again."
        ) from error
    if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise DownloadError(f"{index} names files outside its folder, so it is refused.")
    return names


def _no_safetensors(repository: str, remote: list[str]) -> str:
    pickles = sorted(name for name in remote if name.endswith((".bin", ".pt", ".pth")))
    if pickles:
        return (
            f"{repository} has only pickle weights ({pickles[0]}). Reading a pickle can run "
            "any code, so nothing was downloaded. Choose a repository with safetensors."
        )
    return (
        f"{repository} has no {SINGLE_FILE} and no {INDEX_FILE}. Choose a repository in "
        "transformers layout."
    )
