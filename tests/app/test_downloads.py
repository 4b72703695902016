"""Downloads that wait for each other, are paused, fail, and outlive the app that began them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.inventory.downloads import FILE, Downloads, DownloadState, key_of
from engine.loading.hub.disk import arrived, locate
from engine.loading.inventory import Catalog, Inventory, ModelSpec
from tests.support.checkpoints import write_random
from tests.support.folders import model_files
from tests.support.gguf_files import write_gguf
from tests.support.hub_server import HostedRepository, HubServer, use_hub

TINY = ModelSpec(id="tiny", name="Tiny", repository="owner/tiny", bytes=20_000)
OTHER = ModelSpec(id="other", name="Other", repository="owner/other")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    hosted = {
        name: HostedRepository(model_files(vocabulary=512, hidden=32))
        for name in ("owner/tiny", "owner/other")
    }
    with HubServer(hosted) as running:
        use_hub(running, tmp_path, monkeypatch)
        yield running


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[], Downloads]]:
    """Downloads of one data folder, as each start of an app makes them."""
    opened: list[Downloads] = []

    def make() -> Downloads:
        opened.append(
            Downloads(tmp_path, Inventory(Catalog((), ()), tmp_path / "models"), lambda: None)
        )
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def state(downloads: Downloads, spec: ModelSpec) -> DownloadState | None:
    found = downloads.all().get(key_of(spec))
    return found and found.state


def under_way(downloads: Downloads) -> bool:
    """Whether some of the weights has arrived."""
    found = downloads.all()[key_of(TINY)].progress
    return found is not None and found.file == "model.safetensors" and found.bytes_per_s > 0


def test_one_waits_for_the_other_and_both_arrive(
    server: HubServer, made: Callable[[], Downloads], tmp_path: Path
) -> None:
    server.repositories["owner/tiny"].pause_s = 0.05
    downloads = made()
    downloads.start(TINY)
    downloads.start(OTHER)
    assert state(downloads, OTHER) is DownloadState.WAITING
    until(lambda: not downloads.working)
    assert downloads.all() == {}
    assert all(locate(spec, tmp_path / "models") for spec in (TINY, OTHER))
    assert json.loads((tmp_path / FILE).read_text())["downloads"] == []


def test_a_paused_one_goes_on_where_it_was(
    server: HubServer, made: Callable[[], Downloads], tmp_path: Path
) -> None:
    server.repositories["owner/tiny"].pause_s = 0.3
    downloads = made()
    key = downloads.start(TINY)
    until(lambda: under_way(downloads))
    downloads.pause(key)
    until(lambda: state(downloads, TINY) is DownloadState.PAUSED)
    (part,) = (tmp_path / "models").rglob("model.safetensors.*.part")
    had = part.stat().st_size
    server.repositories["owner/tiny"].pause_s = 0.0
    server.seen.clear()
    downloads.resume(key)
    until(lambda: not downloads.working)
    assert f"bytes={had}-" in [seen.range for seen in server.seen]
    assert locate(TINY, tmp_path / "models")


def test_an_unfinished_one_is_there_after_the_app_ended_and_can_be_thrown_away(
    server: HubServer, made: Callable[[], Downloads], tmp_path: Path
) -> None:
    server.repositories["owner/tiny"].pause_s = 0.3
    first = made()
    key = first.start(TINY)
    first.start(OTHER)
    until(lambda: under_way(first))
    first.close()
    again = made()
    assert [one.state for one in again.all().values()] == [DownloadState.PAUSED] * 2
    assert again.all()[key].spec == TINY
    assert 0 < arrived(TINY, tmp_path / "models") < 70_000
    again.discard(key)
    assert list(again.all()) == [key_of(OTHER)]
    assert not (tmp_path / "models" / "owner--tiny").exists()
    again.resume(key_of(OTHER))
    until(lambda: not again.working)
    again.discard(key_of(OTHER))  # it is a whole model by now
    assert locate(OTHER, tmp_path / "models")


def test_a_failure_is_kept_with_its_reason_and_the_next_one_begins(
    server: HubServer, made: Callable[[], Downloads], tmp_path: Path
) -> None:
    server.repositories["owner/tiny"].gated = True
    downloads = made()
    key = downloads.start(TINY)
    downloads.start(OTHER)
    until(lambda: not downloads.working)
    failed = downloads.all()[key]
    assert (failed.state, failed.needs_token) == (DownloadState.FAILED, True)
    assert "is gated" in failed.message
    assert locate(OTHER, tmp_path / "models")


def test_a_damaged_list_is_told_and_left_out(
    made: Callable[[], Downloads], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text('[{"id": "x"}]')
    with closing(made()) as downloads:
        assert downloads.all() == {}
    assert "downloads.json cannot be read" in caplog.text


def test_what_arrives_damaged_stays_with_its_reason_until_it_is_deleted_or_fetched_again(
    server: HubServer, made: Callable[[], Downloads], tmp_path: Path
) -> None:
    """It left the list without a word."""
    write_random(tmp_path / "whole", num_hidden_layers=1)
    whole = write_gguf(tmp_path / "whole", tmp_path / "whole.gguf").read_bytes()
    hosted = server.repositories["owner/g"] = HostedRepository({"g-Q4_K_M.gguf": whole[:500]})
    spec = ModelSpec(id="g", name="g-Q4_K_M", repository="owner/g", file="g-Q4_K_M.gguf")
    place = tmp_path / "models" / "owner--g" / spec.file
    downloads = made()
    key = downloads.start(spec)
    until(lambda: not downloads.working)
    for one in (downloads.all()[key], made().all()[key]):  # after the next start, too
        assert (one.state, one.unusable) == (DownloadState.FAILED, True)
        assert f"{place} is cut short" in one.message
    downloads.discard(key)
    assert (downloads.all(), place.exists()) == ({}, False)
    downloads.start(spec)
    until(lambda: not downloads.working)
    hosted.files[spec.file] = whole
    downloads.resume(key)
    until(lambda: not downloads.working)
    assert (downloads.all(), place.read_bytes()) == ({}, whole)
