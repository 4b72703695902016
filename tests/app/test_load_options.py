"""Unloading, by hand and when idle, and the load options that are remembered for each model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app import paths
from app.inventory import own_catalog
from app.loading import BUSY
from app.main import Settings, first_load
from app.paths import catalog_file
from app.runtime import Runtime
from app.settings.preferences import COMPUTING, LoadOptions, LoadOptionsFile, PreferencesFile
from app.storage.store import Store
from app.ui.controls.pickers import Pickers
from app.ui.pages.chat.backend import ChatBackend
from app.ui.pages.chat.pair import chosen
from app.ui.pages.models.loading import LoadBackend
from engine.api import Loaded, LoadRequest
from engine.errors import InvalidRequest, OutOfMemory
from engine.loading.catalog import open_catalog
from engine.loading.progress import LoadProgress, Stage
from engine.values import LEAST_CONTEXT
from tests.support.recital import reciting_engine


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models")
    yield made
    made.close()


@pytest.fixture
def loading(runtime: Runtime) -> LoadBackend:
    return LoadBackend(runtime, Pickers(runtime))


def awaited(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(runtime: Runtime) -> bool:
    return runtime.engine.loaded is None


def test_a_model_that_was_unloaded_is_loaded_again_by_a_message(
    runtime: Runtime, loading: LoadBackend
) -> None:
    with closing(Store(runtime.data_dir)) as store:
        chat = ChatBackend(runtime, store)
        before, told = runtime.engine.loaded, threading.Event()
        runtime.engine.stages = (stage for stage in (LoadProgress(Stage.TARGET),) if told.wait(60))
        assert loading.unload() and loading.unload()
        status = chat.loading.status()
        assert (status["loaded"], status["unloaded"], status["waits"]) == (None, "Pip", False)
        message = {"action": "send", "text": "Hi", "chat": None}
        assert chat.act(message) == {"waits": True}
        told.set()
        awaited(lambda: not gone(runtime) and not runtime.loader.working)
        assert runtime.engine.loaded == before
        assert chat.act(message)["run"]
        assert chat.loading.status()["unloaded"] is None


def test_what_is_not_used_is_unloaded_after_the_minutes_that_were_set(runtime: Runtime) -> None:
    time.sleep(0.1)
    assert not gone(runtime)
    for _ in range(2):
        runtime.idle.minutes = 0.1 / 60
        awaited(lambda: gone(runtime))
        runtime.idle.minutes = None
        runtime.loader.load_again()
        awaited(lambda: not gone(runtime))
    time.sleep(0.2)
    assert not gone(runtime)


def test_a_load_that_begins_just_then_does_not_end_unloading(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread ended with the refusal, and nothing was unloaded any more."""
    tried: list[float] = []

    def refuse(pair: object) -> None:
        tried.append(time.monotonic())
        raise InvalidRequest("pair", BUSY)

    monkeypatch.setattr(runtime.loader, "unload", refuse)
    runtime.idle.minutes = 0.1 / 60
    awaited(lambda: len(tried) > 1)
    monkeypatch.undo()
    awaited(lambda: gone(runtime))


def test_after_a_load_that_failed_once_the_old_pair_was_freed_the_next_message_loads_that(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, whose memory the new pair needs before it is known whether it loads."""
    before, load = runtime.engine.loaded, runtime.engine.load

    def fail(request: object, watcher: object) -> Loaded:
        runtime.engine.unload()
        raise OutOfMemory("No room.")

    monkeypatch.setattr(runtime.engine, "load", fail)
    runtime.loader.start(runtime.request("pip-draft")).join()
    assert gone(runtime) and runtime.loader.status.message == "No room."
    monkeypatch.setattr(runtime.engine, "load", load)
    runtime.loader.load_again()  # False where the load is faster than its answer
    awaited(lambda: not gone(runtime) and not runtime.loader.working)
    assert runtime.engine.loaded == before


def test_load_options_are_remembered_for_each_model(runtime: Runtime, loading: LoadBackend) -> None:
    told = loading.load_options({"target": "pip"})
    assert not told["reload"]
    assert told["context"] == {
        "value": None,
        "longest": 1024,
        "largest": told["context"]["largest"],
    }
    for name in ("kv_cache", "draft_device"):  # there is no GPU
        assert [each["id"] for each in told[name]["choices"]] == ["auto"]
    assert told["gpu_layers"] == {"value": None, "most": 0}
    kept = loading.keep_load_options({"target": "pip", "context": 512, "threads": 1})
    assert kept["reload"] and kept["context"]["value"] == 512
    assert kept["context"]["longest"] == 1024
    request = runtime.request("pip")
    assert (request.context, request.threads) == (512, 1)
    assert runtime.request("pip-draft").context is None
    loading.load_again()
    awaited(lambda: runtime.engine.loaded.request.context == 512)
    assert not loading.load_options({"target": "pip"})["reload"]
    assert loading.keep_load_options({"target": "pip"})["context"]["value"] is None
    with pytest.raises(InvalidRequest, match="1,025 tokens: this model has 1,024"):
        loading.keep_load_options({"target": "pip", "context": 1025})
    assert loading.keep_load_options({"target": "pip", "context": 1024})["context"]["value"] == 1024
    for bad in (
        {"context": 0.5},
        {"threads": -1},
        {"kv_cache": "x"},
        {"draft_device": "x"},
        {"gpu_layers": -1},
    ):
        with pytest.raises(InvalidRequest):
            loading.keep_load_options({"target": "pip", **bad})


def test_the_first_model_s_options_are_no_other_model_s_and_what_is_picked_is_asked_for(
    runtime: Runtime, tmp_path: Path
) -> None:
    """Another model got its layers on the GPU; and a picked format that the machine lacks was left out as
    if it had only been remembered."""
    options = LoadOptions(
        context=512, threads=1, gpu_layers=1, draft_device="cpu", kv_cache_dtype="fp8"
    )
    LoadOptionsFile(tmp_path).keep("pip", options)
    PreferencesFile(tmp_path).keep(last=LoadRequest(target="pip", quantization="int8"))
    settings = Settings(load=LoadRequest(target="pip-draft"), data_dir=tmp_path)
    runtime.first = first_load(tmp_path, settings).load
    assert (runtime.first.gpu_layers, runtime.first.quantization) == (1, "int8")
    other = runtime.request("pip-draft")
    assert (other.context, other.gpu_layers, other.draft_device) == (None, None, "auto")
    assert (runtime.first.threads, other.threads) == (1, None)
    assert other.remembered == set(COMPUTING)
    runtime.fixed = frozenset({"gpu_layers"})
    assert runtime.request("pip-draft").gpu_layers == 1
    picked = chosen(runtime, "pip", "", "q4", None)
    assert (picked.quantization, picked.kv_cache_dtype, picked.context) == ("q4", "fp8", 512)
    assert picked.remembered == {*COMPUTING, *options.chosen} - {"gpu_layers"}
    assert "kv_cache_dtype" not in chosen(runtime, "pip", "", "q4", "fp8").remembered
    # A pair of the user's own has another id than its target, whose options were ignored.
    (pip,) = (each for each in runtime.catalog.pairs if each.id == "pip")
    runtime.catalog = replace(runtime.catalog, pairs=(replace(pip, id="trained"),))
    assert runtime.request("trained").context == 512


def test_what_the_command_line_states_comes_before_load_options(tmp_path: Path) -> None:
    LoadOptionsFile(tmp_path).keep("pip", LoadOptions(context=512, threads=1))
    settings = Settings(load=LoadRequest(target="pip", threads=2), data_dir=tmp_path)
    assert first_load(tmp_path, settings).load.context == 512
    stated = first_load(tmp_path, replace(settings, fixed=frozenset({"context", "pair"})))
    assert (stated.load.context, stated.load.threads) == (None, 1)
    own = {"id": "mine", "name": "Mine", "target": "pip"}
    own_catalog.add(paths.own_catalog(tmp_path), catalog_file(), "pairs", own)
    mine = replace(settings, load=LoadRequest(target="mine"), fixed=frozenset({"pair"}))
    assert first_load(tmp_path, mine).load.context == 512


def test_a_context_of_an_earlier_version_becomes_the_least(tmp_path: Path) -> None:
    """With it, every other option of the model was dropped, and the pair to start with."""
    (tmp_path / "load_options.json").write_text('{"pip": {"context": 5, "threads": 1}}')
    assert LoadOptionsFile(tmp_path).of("pip") == LoadOptions(context=LEAST_CONTEXT, threads=1)
    PreferencesFile(tmp_path).keep(last=LoadRequest(target="pip-draft", context=77))
    file = PreferencesFile(tmp_path).path
    file.write_text(file.read_text().replace("77", "31"))
    last = PreferencesFile(tmp_path).read().last
    assert last == LoadRequest(target="pip-draft", context=LEAST_CONTEXT)


def test_a_damaged_file_of_load_options_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "load_options.json").write_text('{"pip": {"context": -1}, "x": {"y": 1}, "z": 7}')
    file = LoadOptionsFile(tmp_path)
    assert [file.of(name) for name in ("pip", "x", "z", "none")] == [LoadOptions()] * 4
