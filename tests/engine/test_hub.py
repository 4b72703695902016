"""Downloads from a hub on this machine: the real client over a real socket."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import hub
from engine.catalog import ModelSpec
from engine.checkpoint import inspect
from engine.errors import DownloadError
from engine.hub import DownloadCancelled, Progress, progress, transfer
from engine.testing.folders import model_files, write_files, write_model
from engine.testing.hub_server import COMMIT, HostedRepository, HubServer

SPEC = ModelSpec(id="tiny", name="Tiny", repository="owner/tiny", licence="mit", bytes=5_000)
WEIGHTS = "model.safetensors"
SMALL = ["config.json", "tokenizer.json", "tokenizer_config.json"]


@pytest.fixture
def files() -> dict[str, bytes]:
    """A model big enough to be cut in the middle, with things that must not be fetched."""
    return {
        **model_files(vocabulary=512, hidden=32),
        "README.md": b"about",
        "pytorch_model.bin": b"pickle",
        "consolidated.safetensors": b"another layout",
        "onnx/model.onnx": b"onnx",
        "training_args.bin": b"pickle",
    }


@pytest.fixture
def repository(files: dict[str, bytes]) -> HostedRepository:
    return HostedRepository(files)


@pytest.fixture
def server(
    repository: HostedRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    with HubServer({"owner/tiny": repository}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv(hub.FOLDER_VARIABLE, str(tmp_path / "models"))
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


def failure(spec: ModelSpec = SPEC) -> str:
    with pytest.raises(DownloadError) as caught:
        hub.download(spec)
    return str(caught.value)


# -- fetching


def test_a_model_arrives_complete(server: HubServer, tmp_path: Path) -> None:
    assert hub.locate(SPEC) is None
    folder = hub.download(SPEC)
    assert folder == tmp_path / "models" / "owner--tiny"
    assert inspect(folder).vocabulary == 512
    assert hub.locate(SPEC) == folder


def test_only_what_is_needed_is_fetched_and_the_weights_last(server: HubServer) -> None:
    hub.download(SPEC)
    assert server.fetched() == [*SMALL, WEIGHTS]


def test_all_files_are_of_one_commit(server: HubServer) -> None:
    hub.download(SPEC)
    assert all(f"/{COMMIT}/" in seen.path for seen in server.seen if "resolve" in seen.path)


def test_sharded_weights_come_through_their_index(
    server: HubServer, repository: HostedRepository
) -> None:
    wanted = model_files(shards=3)
    repository.files = {**wanted, "model-00009-of-00009.safetensors": b"stray"}
    reports: list[Progress] = []
    folder = hub.download(SPEC, on_progress=reports.append)
    assert reports[-1].bytes == reports[-1].total == sum(map(len, wanted.values()))
    assert inspect(folder).parameters == 32 * 8 + 64 + 8
    assert not (folder / "model-00009-of-00009.safetensors").exists()


def test_nothing_unfinished_is_left_behind(server: HubServer) -> None:
    folder = hub.download(SPEC)
    assert not list(folder.rglob("*.part"))
    assert not (folder / ".partial").exists()


def test_what_is_there_is_not_fetched_again(server: HubServer) -> None:
    folder = hub.download(SPEC)
    server.seen.clear()
    assert hub.download(SPEC) == folder
    assert not server.seen
    (folder / WEIGHTS).unlink()
    assert hub.locate(SPEC) is None
    hub.download(SPEC)
    assert server.fetched() == [WEIGHTS]


def test_progress_counts_up_to_the_total(server: HubServer, files: dict[str, bytes]) -> None:
    reports: list[Progress] = []
    hub.download(SPEC, on_progress=reports.append)
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
    server: HubServer, repository: HostedRepository
) -> None:
    repository.pause_s = 0.03
    reports: list[Progress] = []
    hub.download(SPEC, on_progress=reports.append)
    middle = [report for report in reports if 0 < report.bytes < report.total and report.eta_s]
    assert middle
    assert all(report.bytes_per_s > 0 for report in middle)


# -- interrupted


@pytest.fixture
def big_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files, but many steps: read and report every block."""
    monkeypatch.setattr(transfer, "_CHUNK", 4096)
    monkeypatch.setattr(progress, "_REPORT_S", 0.0)


@pytest.mark.usefixtures("big_steps")
def test_a_broken_connection_is_continued_where_it_broke(
    server: HubServer, repository: HostedRepository
) -> None:
    repository.breaks[WEIGHTS] = [5 * 4096, 3 * 4096]
    reports: list[Progress] = []
    folder = hub.download(SPEC, on_progress=reports.append)
    ranges = [seen.range for seen in server.seen if seen.method == "GET/file"][-3:]
    assert ranges == [None, f"bytes={5 * 4096}-", f"bytes={8 * 4096}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[-1].bytes == reports[-1].total


def cancel_in_the_weights(server: HubServer, repository: HostedRepository) -> int:
    """Start a slow download, stop it in the middle of the weights; the bytes that were kept."""
    repository.pause_s = 0.02
    stop = threading.Event()

    def on_progress(progress: Progress) -> None:
        if progress.file == WEIGHTS and progress.bytes > progress.total // 2:
            stop.set()

    with pytest.raises(DownloadCancelled, match="kept"):
        hub.download(SPEC, on_progress=on_progress, cancelled=stop.is_set)
    repository.pause_s = 0.0
    (part,) = hub.folder_for(SPEC).rglob(f"{WEIGHTS}.*.part")
    return part.stat().st_size


@pytest.mark.usefixtures("big_steps")
def test_cancelling_keeps_what_arrived_and_another_try_continues(
    server: HubServer, repository: HostedRepository
) -> None:
    had = cancel_in_the_weights(server, repository)
    assert 0 < had < len(repository.files[WEIGHTS])
    assert hub.locate(SPEC) is None
    server.seen.clear()
    reports: list[Progress] = []
    folder = hub.download(SPEC, on_progress=reports.append)
    assert [seen.range for seen in server.seen if seen.method == "GET/file"] == [f"bytes={had}-"]
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[0].bytes <= reports[-1].bytes == reports[-1].total


@pytest.mark.usefixtures("big_steps")
def test_a_server_that_ignores_range_starts_over(
    server: HubServer, repository: HostedRepository
) -> None:
    cancel_in_the_weights(server, repository)
    repository.ignore_range = True
    reports: list[Progress] = []
    folder = hub.download(SPEC, on_progress=reports.append)
    assert (folder / WEIGHTS).read_bytes() == repository.files[WEIGHTS]
    assert reports[-1].bytes == reports[-1].total


@pytest.mark.usefixtures("big_steps")
def test_weights_that_changed_on_the_hub_are_not_mixed(
    server: HubServer, repository: HostedRepository
) -> None:
    cancel_in_the_weights(server, repository)
    changed = bytearray(repository.files[WEIGHTS])
    changed[-1] = 7
    repository.files[WEIGHTS] = bytes(changed)
    assert (hub.download(SPEC) / WEIGHTS).read_bytes() == bytes(changed)


def test_a_damaged_file_is_deleted_and_said(
    server: HubServer, repository: HostedRepository
) -> None:
    repository.damage = True
    assert "arrived damaged" in failure()
    repository.damage = False
    assert hub.download(SPEC)


def test_cancelling_before_the_start_fetches_nothing(server: HubServer) -> None:
    with pytest.raises(DownloadCancelled):
        hub.download(SPEC, cancelled=lambda: True)
    assert not server.fetched()


@pytest.mark.usefixtures("big_steps")
def test_two_downloads_of_one_model_do_not_meet(
    server: HubServer, repository: HostedRepository
) -> None:
    repository.pause_s = 0.05
    begun, stop = threading.Event(), threading.Event()

    def first() -> None:
        with pytest.raises(DownloadCancelled):
            hub.download(SPEC, on_progress=lambda _: begun.set(), cancelled=stop.is_set)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(10)
    try:
        assert "being downloaded already" in failure()
    finally:
        stop.set()
        thread.join(10)


# -- refused


def test_a_gated_model_without_a_token_says_what_to_do(
    server: HubServer, repository: HostedRepository
) -> None:
    repository.gated = True
    message = failure()
    assert "no access token is set" in message
    assert f"{server.url}/owner/tiny" in message
    assert "hf auth login" in message


def test_a_refused_token_says_what_to_do(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.gated = True
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = failure()
    assert "your access token was refused" in message
    assert "hf_wrong" not in message


def test_the_right_token_opens_a_gated_model(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.gated = True
    monkeypatch.setenv("HF_TOKEN", repository.token)
    assert hub.locate(SPEC) is None
    assert hub.download(SPEC) == hub.locate(SPEC)


def test_an_unknown_repository(server: HubServer) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/nothing")
    assert "There is no repository owner/nothing" in failure(spec)


def test_an_unknown_revision(server: HubServer) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/tiny", revision="v9")
    assert "no revision 'v9'" in failure(spec)


def test_pickles_are_never_fetched(server: HubServer, repository: HostedRepository) -> None:
    del repository.files[WEIGHTS]
    del repository.files["consolidated.safetensors"]
    message = failure()
    assert "pickles only (pytorch_model.bin)" in message
    assert not server.fetched()


def test_a_repository_without_weights(server: HubServer, repository: HostedRepository) -> None:
    repository.files = {"config.json": b"{}", "README.md": b"soon"}
    assert "nothing to load" in failure()


def test_an_index_cannot_write_outside_the_folder(
    server: HubServer, repository: HostedRepository
) -> None:
    repository.files = model_files(shards=2)
    repository.files[f"{WEIGHTS}.index.json"] = b'{"weight_map": {"x": "../../evil.safetensors"}}'
    assert "outside its folder" in failure()


def test_a_repository_without_a_tokenizer(server: HubServer, repository: HostedRepository) -> None:
    del repository.files["tokenizer.json"]
    assert "not complete" in failure()


def test_a_full_disk_is_told_before_the_weights(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    message = failure()
    assert "1 kB are free" in message
    assert hub.FOLDER_VARIABLE in message
    assert not server.fetched()


# -- no network


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_without_a_network_the_message_says_how_to_get_the_files(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    message = failure()
    assert "cannot be reached" in message
    assert "hf download owner/tiny" in message
    assert str(tmp_path / "models" / "owner--tiny") in message
    assert "5 kB" in message


def test_the_command_in_that_message_works(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Path(sys.executable).with_name("hf")
    if not client.exists():
        pytest.skip("the hf command is not in this environment")
    online = server.url
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    command = shlex.split(failure().splitlines()[1])
    monkeypatch.setenv("HF_ENDPOINT", online)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    shutil.rmtree(hub.folder_for(SPEC))
    subprocess.run([str(client), *command[1:]], cwd=hub.models_folder(), check=True)
    assert hub.locate(SPEC) == hub.folder_for(SPEC)
    assert not (hub.folder_for(SPEC) / "pytorch_model.bin").exists()


def test_offline_mode_is_named_as_the_cause(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in failure()
    assert not server.seen


def test_the_network_may_go_in_the_middle(
    server: HubServer, repository: HostedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_ATTEMPTS", 2)
    repository.breaks["config.json"] = [100] + [0] * 50
    assert "what has arrived is kept" in failure()
    repository.breaks.clear()
    assert hub.download(SPEC)


# -- on disk


def test_a_model_put_there_by_hand_is_found(server: HubServer) -> None:
    folder = write_model(hub.folder_for(SPEC))
    assert hub.locate(SPEC) == folder
    assert hub.download(SPEC) == folder
    assert not server.seen


def test_a_model_in_the_hub_cache_is_found(server: HubServer, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "models--owner--tiny"
    snapshot = write_model(cache / "snapshots" / COMMIT)
    write_files(cache / "refs", {"main": COMMIT.encode()})
    assert hub.locate(SPEC) == snapshot
    (snapshot / WEIGHTS).unlink()
    assert hub.locate(SPEC) is None


def test_a_truncated_model_is_not_complete(server: HubServer) -> None:
    file = write_model(hub.folder_for(SPEC)) / WEIGHTS
    file.write_bytes(file.read_bytes()[:-5])
    assert hub.locate(SPEC) is None


def test_other_revisions_have_folders_of_their_own(tmp_path: Path) -> None:
    spec = ModelSpec(id="x", name="X", repository="owner/tiny", revision="v2")
    assert hub.folder_for(spec, tmp_path) == tmp_path / "owner--tiny--v2"


def test_an_embedded_model_that_is_gone_cannot_be_downloaded(tmp_path: Path) -> None:
    spec = ModelSpec(id="pip", name="Pip", path=tmp_path / "absent")
    assert hub.locate(spec) is None
    assert "ships with the app" in failure(spec)
    here = ModelSpec(id="pip", name="Pip", path=write_model(tmp_path / "here"))
    assert hub.download(here) == tmp_path / "here"
