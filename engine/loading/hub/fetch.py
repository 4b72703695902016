"""Download a model unless it is here, in one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import DownloadError, ModelError
from engine.loading.hub.disk import PARTIAL, folder_for, locate
from engine.loading.progress import DownloadProgress
from engine.loading.specs import ModelSpec

_LOCK = ".lock"


def download(
    spec: ModelSpec,
    models: Path | None,
    *,
    on_progress: Callable[[DownloadProgress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Path:
    """Return a model's folder, complete, after downloading what is missing. Blocks.

    ``models``: the models folder; without one nothing is downloaded.
    Calls ``on_progress`` about ten times a second and once at the end. Raises ModelError
    for a model on a server, DownloadError, and DownloadCancelled soon after ``cancelled`` returns True;
    another call then continues.
    """
    if spec.address:
        raise ModelError(f"{spec.name} is on a server; its weights cannot be loaded here.")
    found = locate(spec, models)
    if found is not None:
        return found
    if spec.path is not None:
        raise DownloadError(_absent(spec))
    if models is None:
        raise DownloadError(f"{spec.name} is not downloaded, and no download folder was given.")
    # The hub's client: most models are on disk, and a reply from one should not wait for it.
    from engine.loading.hub.errors import explain_errors
    from engine.loading.hub.transfer import Transfer

    destination = folder_for(spec, models)
    with explain_errors(spec, destination), _only_one(destination, spec):
        return Transfer(spec, destination, on_progress, cancelled).run()


def _absent(spec: ModelSpec) -> str:
    if spec.shipped:
        return (
            f"{spec.name} is included with Foretoken, but its folder {spec.path} is "
            "missing. Restore it, or reinstall Foretoken."
        )
    return (
        f"{spec.name} should be in {spec.path}, but its files are missing. Put them "
        "back, or give the new path."
    )


@contextmanager
def _only_one(destination: Path, spec: ModelSpec) -> Iterator[None]:
    """Hold the lock of a folder: two downloads of one model would write into the same file."""
    from filelock import Timeout
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # re-exported implicitly
        WeakFileLock,
    )

    try:
        destination.mkdir(parents=True, exist_ok=True)
        lock = WeakFileLock(destination / _LOCK, timeout=0.2)
        lock.__enter__()
    except Timeout as error:
        raise DownloadError(
            f"{spec.name} is already being downloaded by another window or program. Wait for it."
        ) from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
        _drop_unbegun(destination)


def _drop_unbegun(folder: Path) -> None:
    """Remove the folder of a download that was refused before anything arrived."""
    with suppress(OSError):
        if (folder / PARTIAL).is_dir():
            (folder / PARTIAL).rmdir()  # raises unless it is empty
        if {each.name for each in folder.iterdir()} <= {_LOCK}:
            (folder / _LOCK).unlink(missing_ok=True)
            folder.rmdir()
