"""Loading pairs in the background: what is told at once, what later, and how it is cancelled."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from app.loading import LoadState, LoadStatus
from app.runtime import Runtime
from engine.api import LoadRequest
from engine.errors import CatalogError, InvalidRequest, ModelError
from engine.loading.catalog import Catalog, open_catalog
from engine.loading.progress import DownloadProgress, LoadProgress, Stage
from tests.support.fake_engine import FakeEngine
from tests.support.folders import write_model
from tests.support.loading import request_for
from tests.support.places import ROOT

PIP = LoadRequest(target="pip")
T = TypeVar("T")
HALF = DownloadProgress("owner/model", "model.safetensors", 5, 10, 1.0, 5.0)
WHOLE = DownloadProgress("owner/model", "model.safetensors", 10, 10, 1.0, 0.0)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return open_catalog(ROOT / "model_catalog.yaml")


@pytest.fixture
def engine(catalog: Catalog) -> FakeEngine:
    return FakeEngine(catalog=lambda: catalog)


@pytest.fixture
def runtime(engine: FakeEngine, catalog: Catalog, tmp_path: Path) -> Iterator[Runtime]:
    with contextlib.closing(Runtime(engine, catalog, tmp_path, tmp_path / "models")) as made:
        yield made


def load(runtime: Runtime, request: LoadRequest) -> LoadStatus:
    """The status in which loading it ends."""
    runtime.loader.start(request).join(timeout=60)
    assert not runtime.loader.working
    return runtime.loader.status


def test_a_load_ends_ready_and_is_shown(runtime: Runtime) -> None:
    assert runtime.loader.status.state is LoadState.IDLE
    assert runtime.loader.shown == (None, "")
    status = load(runtime, PIP)
    assert (status.state, status.name) == (LoadState.READY, "Pip")
    assert runtime.loader.shown == ("pip", "pip-draft")


def test_what_is_loaded_already_is_shown_without_having_been_asked_for_here(
    runtime: Runtime,
) -> None:
    runtime.engine.load(LoadRequest(target="pip", draft=""))
    assert runtime.loader.shown == ("pip", "")


def test_mistakes_in_names_are_told_at_once_and_nothing_is_begun(
    runtime: Runtime, tmp_path: Path
) -> None:
    for target, error in (("no-such-pair", CatalogError), (str(tmp_path), ModelError)):
        with pytest.raises(error):
            runtime.loader.start(LoadRequest(target=target))
    assert runtime.loader.status.state is LoadState.IDLE


def test_a_failure_is_told_in_words_and_shows_what_is_still_loaded(
    runtime: Runtime, engine: FakeEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_model(tmp_path / "mine")
    load(runtime, request_for(folder))
    engine.load_error = ModelError("Its weights are damaged. Download it again.")
    status = load(runtime, PIP)
    assert (status.state, status.message) == (LoadState.FAILED, str(engine.load_error))
    assert status.message in caplog.text
    assert "Traceback" not in caplog.text
    assert runtime.loader.shown == (str(folder), "")


def test_a_bug_is_told_too(
    runtime: Runtime, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """An error nobody expected once left the page at "Loading" for ever."""
    engine.load_error = ZeroDivisionError()
    status = load(runtime, PIP)
    assert status.state is LoadState.FAILED
    assert "Pip could not be loaded: ZeroDivisionError()" in status.message
    assert "Traceback" in caplog.text


class Held(Generic[T]):
    """A download, or a load, that stands still once ``first`` came, and goes on with ``then``."""

    def __init__(self, first: T, *then: T) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._first, self._then = first, then

    def __iter__(self) -> Iterator[T]:
        yield self._first
        self.reached.set()
        assert self.go_on.wait(60)
        yield from self._then


def test_a_download_is_shown_keeps_others_out_and_can_be_cancelled(
    runtime: Runtime, engine: FakeEngine, tmp_path: Path
) -> None:
    load(runtime, request_for(write_model(tmp_path / "mine")))
    held = Held(HALF, HALF)
    engine.downloads = held
    thread = runtime.loader.start(PIP)
    assert held.reached.wait(60)
    status = runtime.loader.status
    assert (status.state, status.message, status.progress) == (
        LoadState.WORKING,
        "Downloading",
        HALF,
    )
    assert runtime.loader.shown == ("pip", "pip-draft")
    with pytest.raises(InvalidRequest, match="Another model is loading"):
        runtime.loader.start(PIP)
    runtime.loader.cancel()
    held.go_on.set()
    thread.join(timeout=60)
    assert runtime.loader.status.state is LoadState.IDLE
    assert engine.loaded is not None and engine.loaded.name == "mine"


def test_behind_a_download_it_is_loading_again_and_a_cancel_hides_no_failure(
    runtime: Runtime, engine: FakeEngine
) -> None:
    """ "Downloading, 100 %" stood there until all was loaded, with a cancel that cancelled nothing."""
    held = Held(WHOLE)
    engine.downloads = held
    engine.load_error = ModelError("Its weights are damaged. Download it again.")
    thread = runtime.loader.start(PIP)
    assert held.reached.wait(60)
    status = runtime.loader.status
    assert (status.state, status.message, status.progress) == (LoadState.WORKING, "Loading", None)
    runtime.loader.cancel()
    held.go_on.set()
    thread.join(timeout=60)
    status = runtime.loader.status
    assert (status.state, status.message) == (LoadState.FAILED, str(engine.load_error))


def test_reading_a_file_is_shown_and_can_be_cancelled(
    runtime: Runtime, engine: FakeEngine, tmp_path: Path
) -> None:
    """Cancel ended downloads alone."""
    load(runtime, request_for(write_model(tmp_path / "mine")))
    half = LoadProgress(Stage.TARGET, 5, 10)
    held = Held(half, half)
    engine.stages = held
    thread = runtime.loader.start(PIP)
    assert held.reached.wait(60)
    status = runtime.loader.status
    assert (status.message, status.progress, status.cancelling) == ("Loading", half, False)
    runtime.loader.cancel()
    assert runtime.loader.status.cancelling
    held.go_on.set()
    thread.join(timeout=60)
    status = runtime.loader.status
    assert (status.state, status.message, status.cancelling) == (LoadState.IDLE, "", False)
    assert engine.loaded is not None and engine.loaded.name == "mine"


def test_a_load_that_names_no_draft_says_which_one_it_takes(
    runtime: Runtime, engine: FakeEngine, tmp_path: Path
) -> None:
    target = write_model(tmp_path / "m" / "large", hidden=64)
    draft = write_model(tmp_path / "m" / "small", hidden=8)
    runtime.loader.start(LoadRequest(target=str(target))).join()
    assert runtime.loader.status.name == "large + small"
    assert engine.loaded is not None and engine.loaded.draft_id == str(draft)
    last = runtime.preferences.read().last
    assert last is not None and last.draft == str(draft)
    runtime.loader.start(LoadRequest(target=str(target), draft="")).join()
    assert engine.loaded.draft_id is None
    last = runtime.preferences.read().last
    assert last is not None and last.draft == ""


def test_a_pair_that_takes_the_place_of_another_is_not_what_was_loaded_last(
    runtime: Runtime, engine: FakeEngine, tmp_path: Path
) -> None:
    target = write_model(tmp_path / "mine")
    runtime.loader.start(LoadRequest(target=str(target))).join()
    runtime.loader.start(PIP, note="Mine is gone.").join()
    assert (runtime.loader.status.state, runtime.loader.status.note) == (
        LoadState.READY,
        "Mine is gone.",
    )
    last = runtime.preferences.read().last
    assert last is not None and last.target == str(target)


def test_a_context_is_of_the_pair_it_was_chosen_for(runtime: Runtime) -> None:
    runtime.first = LoadRequest(target="pip", context=256)
    assert runtime.request("pip").context is None
    runtime.fixed = frozenset({"context"})  # the command line's is for all
    assert runtime.request("pip").context == 256
