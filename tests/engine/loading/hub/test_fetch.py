"""What is fetched, in which order, and how it is told."""

from __future__ import annotations

from pathlib import Path

from engine.loading.hub.disk import locate
from engine.loading.hub.fetch import download
from engine.loading.progress import DownloadProgress
from engine.models.checkpoints.checkpoint import inspect
from tests.engine.loading.hub.conftest import SMALL, SPEC, WEIGHTS
from tests.support.folders import model_files
from tests.support.hub_server import COMMIT, HostedRepository, HubServer


def test_a_model_arrives_complete(server: HubServer, tmp_path: Path, models: Path) -> None:
    assert locate(SPEC, models) is None
    folder = download(SPEC, models)
    assert folder == tmp_path / "models" / "owner--tiny"
    assert inspect(folder).vocabulary == 512
    assert locate(SPEC, models) == folder


def test_only_what_is_needed_is_fetched_and_the_weights_last(
    server: HubServer, models: Path
) -> None:
    download(SPEC, models)
    assert server.fetched() == [*SMALL, WEIGHTS]


def test_all_files_are_of_one_commit(server: HubServer, models: Path) -> None:
    download(SPEC, models)
    assert all(f"/{COMMIT}/" in seen.path for seen in server.seen if "resolve" in seen.path)


def test_sharded_weights_come_through_their_index(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    wanted = model_files(shards=3)
    repository.files = {**wanted, "model-00009-of-00009.safetensors": b"stray"}
    reports: list[DownloadProgress] = []
    folder = download(SPEC, models, on_progress=reports.append)
    assert reports[-1].bytes == reports[-1].total == sum(map(len, wanted.values()))
    assert inspect(folder).parameters == 32 * 8 + 64 + 8
    (folder / "model-00001-of-00003.safetensors").unlink()
    server.seen.clear()
    download(SPEC, models)
    assert [one for one in server.fetched() if "-of-" in one] == [
        "model-00001-of-00003.safetensors"
    ]
    assert not (folder / "model-00009-of-00009.safetensors").exists()


def test_nothing_unfinished_is_left_behind(server: HubServer, models: Path) -> None:
    folder = download(SPEC, models)
    assert not list(folder.rglob("*.part"))
    assert not (folder / ".partial").exists()


def test_what_is_there_is_not_fetched_again(server: HubServer, models: Path) -> None:
    folder = download(SPEC, models)
    server.seen.clear()
    assert download(SPEC, models) == folder
    assert not server.seen
    (folder / WEIGHTS).unlink()
    assert locate(SPEC, models) is None
    download(SPEC, models)
    assert server.fetched() == [*SMALL, WEIGHTS], "only weights are known by their hash"


def test_progress_counts_up_to_the_total(
    server: HubServer, files: dict[str, bytes], models: Path
) -> None:
    reports: list[DownloadProgress] = []
    download(SPEC, models, on_progress=reports.append)
    wanted = [
        name for name in files if name.endswith((".json", WEIGHTS)) and name != "consolidated"
    ]
    total = sum(len(files[name]) for name in wanted if "consolidated" not in name)
    assert [report.bytes for report in reports] == sorted(report.bytes for report in reports)
    last = reports[-1]
    assert (last.repository, last.bytes, last.total, last.fraction) == (
        "owner/tiny",
        total,
        total,
        1.0,
    )
    assert last.bytes_per_s > 0
    assert last.eta_s == 0


def test_speed_and_remaining_time_are_told_on_the_way(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.pause_s = 0.03
    reports: list[DownloadProgress] = []
    download(SPEC, models, on_progress=reports.append)
    middle = [report for report in reports if 0 < report.bytes < report.total and report.eta_s]
    assert middle
    assert all(report.bytes_per_s > 0 for report in middle)
