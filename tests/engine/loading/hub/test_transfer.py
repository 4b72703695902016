"""Downloads that break off, are cancelled, or meet another."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.errors import DownloadCancelled
from engine.loading.hub import transfer
from engine.loading.hub.disk import folder_for, locate
from engine.loading.hub.fetch import download
from engine.loading.progress import DownloadProgress
from tests.engine.loading.hub.conftest import SPEC, WEIGHTS, failure
from tests.support.folders import model_files
from tests.support.hub_server import HostedRepository, HubServer
from tests.support.places import ROOT


@pytest.fixture
def big_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files, but many steps: report every block."""
    monkeypatch.setattr(transfer, "_REPORT_S", 0.0)


@pytest.mark.usefixtures("big_steps")
def test_a_broken_connection_is_continued_where_it_broke(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.breaks[WEIGHTS] = [5 * 4096, 3 * 4096]
    reports: list[DownloadProgress] = []
    folder = download(SPEC, models, on_progress=reports.append)
    ranges = [seen.range for seen in server.seen if seen.method == "GET/file"][-3:]
    assert ranges == [None, f"bytes={5 * 4096}-", f"bytes={8 * 4096}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[-1].bytes == reports[-1].total


def test_a_connection_that_dies_silently_is_continued(
    server: HubServer, repository: HostedRepository, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hung for ever, whatever was cancelled, and the last part of a megabyte was not on disk."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    repository.breaks[WEIGHTS], repository.silent = [5 * 4096], True
    folder = download(SPEC, models)
    ranges = [seen.range for seen in server.seen if seen.method == "GET/file"][-2:]
    assert ranges == [None, f"bytes={5 * 4096}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]


def cancel_in_the_weights(server: HubServer, repository: HostedRepository, models: Path) -> int:
    """Start a slow download, stop it in the middle of the weights; the bytes that were kept."""
    repository.pause_s = 0.02
    stop = threading.Event()

    def on_progress(progress: DownloadProgress) -> None:
        if progress.file == WEIGHTS and progress.bytes > progress.total // 2:
            stop.set()

    with pytest.raises(DownloadCancelled, match="kept"):
        download(SPEC, models, on_progress=on_progress, cancelled=stop.is_set)
    repository.pause_s = 0.0
    (part,) = folder_for(SPEC, models).rglob(f"{WEIGHTS}.*.part")
    return part.stat().st_size


@pytest.mark.usefixtures("big_steps")
def test_cancelling_keeps_what_arrived_and_another_try_continues(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    had = cancel_in_the_weights(server, repository, models)
    assert 0 < had < len(repository.files[WEIGHTS])
    assert locate(SPEC, models) is None
    server.seen.clear()
    reports: list[DownloadProgress] = []
    folder = download(SPEC, models, on_progress=reports.append)
    assert [seen.range for seen in server.seen if seen.method == "GET/file"] == [f"bytes={had}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[0].bytes <= reports[-1].bytes == reports[-1].total


@pytest.mark.usefixtures("big_steps")
def test_a_server_that_ignores_range_starts_over(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    cancel_in_the_weights(server, repository, models)
    repository.ignore_range = True
    reports: list[DownloadProgress] = []
    folder = download(SPEC, models, on_progress=reports.append)
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[-1].bytes == reports[-1].total


@pytest.mark.usefixtures("big_steps")
def test_weights_that_changed_on_the_hub_are_not_mixed(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    cancel_in_the_weights(server, repository, models)
    changed = bytearray(repository.files[WEIGHTS])
    changed[-1] = 7
    repository.files[WEIGHTS] = bytes(changed)
    assert (download(SPEC, models) / WEIGHTS).read_bytes() == bytes(changed)


def test_files_that_changed_on_the_hub_are_not_kept_for_their_size(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    """A finished shard of the old revision stayed beside those of the new one."""
    repository.files = model_files(shards=3)
    first, *_, third = (name for name in sorted(repository.files) if "-of-" in name)
    with pytest.raises(DownloadCancelled):
        download(SPEC, models, cancelled=lambda: third in server.fetched())
    changed = {
        "config.json": repository.files["config.json"].replace(b"256", b"512"),
        first: repository.files[first][:-1] + b"7",
    }
    assert all(repository.files[name] != content for name, content in changed.items())
    repository.files.update(changed)
    server.seen.clear()
    folder = download(SPEC, models)
    assert all((folder / name).read_bytes() == content for name, content in changed.items())
    assert server.fetched() == [*changed] and (folder / third).is_file()


def test_answers_without_a_byte_are_not_asked_for_for_ever(
    server: HubServer, repository: HostedRepository, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ATTEMPTS", 2)
    size = len(repository.files["config.json"])
    repository.hollow["config.json"] = 20
    assert f"ended config.json of owner/tiny after 0 of {size:,} bytes" in failure(models)
    assert server.fetched() == ["config.json"] * 2
    repository.hollow["config.json"] = 1
    assert download(SPEC, models)


def test_a_download_that_brings_nothing_can_be_cancelled(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.hollow["config.json"] = 20
    with pytest.raises(DownloadCancelled):
        download(SPEC, models, cancelled=lambda: bool(server.fetched()))
    assert server.fetched() == ["config.json"]


def test_an_empty_file_arrives(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.files["LICENSE"] = b""
    folder = download(SPEC, models)
    assert (folder / "LICENSE").read_bytes() == b""


def test_a_damaged_file_is_deleted_and_said(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.damage = True
    assert "was damaged on the way" in failure(models)
    repository.damage = False
    assert download(SPEC, models)


def test_a_wrong_checksum_is_found_whatever_the_etag_says(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    """A proxy or a mirror may change ETags; the hub's own list has the SHA-256."""
    repository.weak_etags = True
    repository.sha256[WEIGHTS] = "0" * 64
    assert "SHA-256" in failure(models)
    assert not list(models.rglob("*.part"))
    repository.sha256.clear()
    assert download(SPEC, models)


KILLED = """
import sys
from engine.loading.hub.fetch import download
from engine.loading.specs import ModelSpec
from pathlib import Path
download(ModelSpec(id="tiny", name="Tiny", repository="owner/tiny"), Path(sys.argv[1]))
"""


def test_a_download_that_was_killed_goes_on_where_it_was(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    """``kill -9``: what had arrived is neither lost nor fetched again, and the lock is free."""
    repository.block = 16_384  # all of the small files, and a part of the weights
    repository.go_on.clear()
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(models)], cwd=ROOT)
    try:
        while not any(part.stat().st_size for part in models.rglob(f"{WEIGHTS}.*.part")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
        repository.go_on.set()
    (part,) = models.rglob(f"{WEIGHTS}.*.part")
    had = part.stat().st_size
    assert 0 < had < len(repository.files[WEIGHTS])
    server.seen.clear()
    folder = download(SPEC, models)
    assert [seen.range for seen in server.seen if seen.method == "GET/file"] == [f"bytes={had}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]


def test_cancelling_before_the_start_fetches_nothing(server: HubServer, models: Path) -> None:
    with pytest.raises(DownloadCancelled):
        download(SPEC, models, cancelled=lambda: True)
    assert not server.fetched()


@pytest.mark.usefixtures("big_steps")
def test_two_downloads_of_one_model_do_not_meet(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.block = 16_384
    repository.go_on.clear()
    begun, stop = threading.Event(), threading.Event()

    def first() -> None:
        with pytest.raises(DownloadCancelled):
            download(SPEC, models, on_progress=lambda _: begun.set(), cancelled=stop.is_set)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    try:
        assert "already being downloaded" in failure(models)
    finally:
        stop.set()
        repository.go_on.set()
        thread.join(60)
