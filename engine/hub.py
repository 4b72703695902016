"""Models on disk and on the hub: locate, download, resume, cancel.

Downloads go into plain folders, ``<models folder>/<owner>--<name>``, where people can also put a
model themselves; models in huggingface_hub's own cache are found too. Only configuration, tokenizer
and safetensors files are fetched, never a pickle. What a broken download left is continued: bytes go
into a ``.part`` file named by the file's ETag, which becomes the file once size and hash agree.

huggingface_hub deletes an unfinished file when a download fails, so the transfer is done here, over
its client, authentication and errors. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import huggingface_hub
import platformdirs
from huggingface_hub import (
    HfApi,
    constants,
    get_hf_file_metadata,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but re-exported implicitly
    WeakFileLock,
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from engine.catalog import ModelSpec
from engine.checkpoint import INDEX_FILE, SINGLE_FILE, weights_complete
from engine.errors import DownloadError
from engine.memory import human

FOLDER_VARIABLE = "FORETOKEN_MODELS"
"""Environment variable that moves the models folder."""

_SMALL_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json", "merges.txt",
    "vocab.txt", "chat_template.jinja", "chat_template.json", "LICENSE*",
)  # fmt: skip
_SPARE_SPACE = 512_000_000  # left free on the disk, so that the machine stays usable
_CHUNK = 1 << 20
_ATTEMPTS = 5
_REPORT_S = 0.1
_SPEED_WINDOW_S = 5.0


class DownloadCancelled(DownloadError):
    """The caller asked to stop. What has arrived is kept for the next try."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a model's download is. Bytes from an earlier try count; the speed is this try's."""

    repository: str
    file: str
    bytes: int
    total: int
    bytes_per_s: float
    eta_s: float | None

    @property
    def fraction(self) -> float:
        return self.bytes / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    name: str
    size: int


def models_folder() -> Path:
    """Where downloads go: ``$FORETOKEN_MODELS``, or ``models`` in the app's data folder."""
    moved = os.environ.get(FOLDER_VARIABLE)
    if moved:
        return Path(moved).expanduser()
    return platformdirs.user_data_path("foretoken", appauthor=False) / "models"


def folder_for(spec: ModelSpec, folder: Path | None = None) -> Path:
    """The folder of this model, whether it is there or not; people may put its files there."""
    if spec.path is not None:
        return spec.path
    name = _repository(spec).replace("/", "--")
    return (folder or models_folder()) / (
        name if spec.revision == "main" else f"{name}--{spec.revision}"
    )


def locate(spec: ModelSpec, folder: Path | None = None) -> Path | None:
    """The model's folder when it is complete on disk, else None. Never goes to the network."""
    if spec.path is not None:
        return spec.path if spec.path.is_dir() else None
    own = folder_for(spec, folder)
    if weights_complete(own):
        return own
    cached = try_to_load_from_cache(_repository(spec), "config.json", revision=spec.revision)
    if isinstance(cached, str) and weights_complete(Path(cached).parent):
        return Path(cached).parent
    return None


def download(
    spec: ModelSpec,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
    folder: Path | None = None,
) -> Path:
    """Fetch what is missing of a model and return its folder, complete. Blocks.

    Calls ``on_progress`` about ten times a second and once at the end. Raises ``DownloadError``, or
    ``DownloadCancelled`` soon after ``cancelled`` returns True; another call then continues.
    """
    found = locate(spec, folder)
    if found is not None:
        return found
    if spec.path is not None:
        raise DownloadError(
            f"{spec.name} ships with the app, but its folder {spec.path} is not there. "
            "Restore it from the repository, or install the app again."
        )
    destination = folder_for(spec, folder)
    with _explained(spec, destination), _only_one(destination, spec):
        return _Transfer(spec, destination, on_progress, cancelled).run()


class _Transfer:
    """One download of one model. Files arrive in order, the weights last."""

    def __init__(
        self,
        spec: ModelSpec,
        destination: Path,
        on_progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._repository = _repository(spec)
        self._spec = spec
        self._destination = destination
        self._parts = destination / ".partial"
        self._cancelled = cancelled
        self._commit = spec.revision
        self._meter = _Meter(self._repository, on_progress)

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
        url = hf_hub_url(self._repository, file.name, revision=self._commit, endpoint=_endpoint())
        metadata = get_hf_file_metadata(url, endpoint=_endpoint())
        etag = metadata.etag or self._commit
        size = file.size if metadata.size is None else metadata.size
        part = self._parts / f"{file.name}.{etag[:40]}.part"
        self._meter.arrived(file.name, _size_of(part), now=False)
        self._receive(url, part, size, file.name)
        self._check_hash(part, etag, file.name)
        os.replace(part, self._destination / file.name)

    def _receive(self, url: str, part: Path, size: int, name: str) -> None:
        """Append to ``part`` until it has ``size`` bytes; a dropped connection is taken up again."""
        attempts = 0
        while (had := _size_of(part)) < size:
            try:
                self._append(url, part, had, name)
            except (GatedRepoError, RepositoryNotFoundError, EntryNotFoundError):
                raise
            except Exception as error:
                if not _is_connection_trouble(error):
                    raise
                attempts = 0 if _size_of(part) > had else attempts + 1
                if attempts >= _ATTEMPTS:
                    raise
                self._wait(min(2.0**attempts, 10.0) * 0.25)

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


class _Meter:
    """Counts bytes and reports them, with the speed over the last seconds."""

    def __init__(self, repository: str, on_progress: Callable[[Progress], None]) -> None:
        self._repository = repository
        self._on_progress = on_progress
        self._bytes = 0
        self._received = 0
        self._marks = [(time.monotonic(), 0)]
        self._reported = 0.0
        self._total = 0

    def expect(self, more: int) -> None:
        """The total: what has arrived so far, and ``more`` bytes."""
        self._total = self._bytes + more

    def arrived(self, file: str, count: int, *, now: bool = True) -> None:
        """``now`` False: the bytes were there before, and say nothing about the speed."""
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
            Progress(self._repository, file, min(self._bytes, self._total), self._total, speed, eta)
        )

    def _speed(self, time_now: float) -> float:
        self._marks.append((time_now, self._received))
        while len(self._marks) > 2 and time_now - self._marks[0][0] > _SPEED_WINDOW_S:
            del self._marks[0]
        start, received = self._marks[0]
        return (self._received - received) / max(time_now - start, 1e-6)


def _repository(spec: ModelSpec) -> str:
    if spec.repository is None:
        raise DownloadError(f"{spec.name} has no repository to download from.")
    return spec.repository


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def _api() -> HfApi:
    return HfApi(endpoint=_endpoint())


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


@contextmanager
def _only_one(destination: Path, spec: ModelSpec) -> Iterator[None]:
    """Two downloads of one model would write into the same file."""
    from filelock import Timeout

    try:
        destination.mkdir(parents=True, exist_ok=True)
        lock = WeakFileLock(destination / ".lock", timeout=0.2)
        lock.__enter__()
    except Timeout as error:
        raise DownloadError(
            f"{spec.name} is being downloaded already, in another window or program. Wait for it."
        ) from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _explained(spec: ModelSpec, destination: Path) -> Iterator[None]:
    """Every failure of the client, as a ``DownloadError`` that says what to do."""
    repository, where = _repository(spec), f"{_endpoint()}/{_repository(spec)}"
    try:
        yield
    except GatedRepoError as error:
        raise DownloadError(_gated(spec, where)) from error
    except RepositoryNotFoundError as error:
        raise DownloadError(
            f"There is no repository {repository} at {_endpoint()}, or it is private and no token that "
            "may read it is set. Check the name; for a private one set HF_TOKEN or run `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadError(
            f"{repository} has no revision '{spec.revision}'. Check it at {where}, or use 'main'."
        ) from error
    except HfHubHTTPError as error:
        raise DownloadError(_refused(spec, error)) from error
    except OSError as error:
        if _is_connection_trouble(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise DownloadError(
            f"{repository} cannot be stored at {destination}: {error.strerror or error}. "
            f"Check permissions and space, or set {FOLDER_VARIABLE} to another folder."
        ) from error
    except DownloadError:
        raise
    except Exception as error:
        if _is_connection_trouble(error):
            raise DownloadError(_offline(spec, destination)) from error
        raise


def _is_connection_trouble(error: BaseException) -> bool:
    """Whether the network is at fault. The client's own classes are named by its transport library,
    which changed between releases, so they are known by their common base."""
    if isinstance(error, OfflineModeIsEnabled | ConnectionError | TimeoutError):
        return True
    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    return any(base.__name__ == "TransportError" for base in type(error).__mro__)


def _gated(spec: ModelSpec, where: str) -> str:
    if huggingface_hub.get_token() is None:
        return (
            f"{spec.repository} is gated ({spec.licence}), and no access token is set. Accept its "
            f"licence at {where}, create a token at {_endpoint()}/settings/tokens, then set HF_TOKEN "
            "or run `hf auth login`, and download again."
        )
    return (
        f"{spec.repository} is gated ({spec.licence}), and your access token was refused. Accept its "
        f"licence at {where} with the token's account; a fine-grained token also needs the permission "
        "to read gated repositories. Then download again."
    )


def _refused(spec: ModelSpec, error: HfHubHTTPError) -> str:
    status = error.response.status_code if error.response is not None else 0
    if status in (401, 403):
        return _gated(spec, f"{_endpoint()}/{spec.repository}")
    if status == 429:
        return f"{_endpoint()} asks to slow down (429). Wait some minutes, then download again."
    return (
        f"{_endpoint()} answered {status} for {spec.repository}. What has arrived is kept; "
        "try again later."
    )


def _offline(spec: ModelSpec, destination: Path) -> str:
    offline = constants.HF_HUB_OFFLINE
    cause = "HF_HUB_OFFLINE is set" if offline else f"{_endpoint()} cannot be reached"
    revision = "" if spec.revision == "main" else f" --revision {spec.revision}"
    size = f" ({human(spec.bytes)})" if spec.bytes else ""
    return (
        f"{spec.name} is not complete on this machine and {cause}. Connect and try again; what has "
        f"arrived is kept. Or, on a machine with a network, run\n"
        f'  hf download {spec.repository}{revision} --include "*.json" --include "model*.safetensors" '
        f'--include "tokenizer*" --include "*.jinja" --local-dir {destination.name}\n'
        f"and copy that folder{size} to {destination}"
    )
