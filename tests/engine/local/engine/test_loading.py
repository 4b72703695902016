"""Pairs that come and go: loading, unloading, and loads that fail."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from engine.drafting import proposers
from engine.errors import (
    IncompatiblePair,
    InvalidRequest,
    LoadCancelled,
    ModelError,
    NotLoaded,
    OutOfMemory,
)
from engine.events import Failed, FinishReason
from engine.kernels.native.library import Library
from engine.loading.planning.model_size import ModelSize
from engine.loading.progress import DownloadProgress, LoadProgress, Stage
from engine.local.engine import LocalEngine
from tests.engine.local.engine.conftest import PATIENCE, Gate, asked, finished
from tests.support.heads import IN_FOLDERS
from tests.support.loading import request_for
from tests.support.places import PIP


def test_without_a_pair_requests_are_refused() -> None:
    engine = LocalEngine()
    with pytest.raises(NotLoaded, match="No model is loaded"):
        engine.generate(asked())
    assert engine.loaded is None
    engine.close()


def needing(loaded: set[str]) -> tuple[str, ...]:
    """The proposers that need no more than what is ``loaded``."""
    return tuple(name for name in proposers.names() if proposers.needs_of(name) <= loaded)


def test_what_is_loaded_is_described(
    engine: LocalEngine, pair: tuple[Path, Path], pair_heads: tuple[Path, ...]
) -> None:
    loaded = engine.loaded
    assert loaded is not None
    assert (loaded.name, loaded.target, loaded.draft) == ("target + draft", "target", "draft")
    assert (loaded.context, loaded.vocabulary, loaded.quantization) == (512, 320, "fp32")
    assert loaded.capabilities.names == needing({"draft"})
    assert loaded.parameters > 0
    whole = engine.load(request_for(*pair, heads=pair_heads))
    assert whole.capabilities.names == IN_FOLDERS
    assert whole.heads == tuple(folder.name for folder in pair_heads)
    alone = engine.load(request_for(pair[0]))
    assert (alone.draft, alone.capabilities.names) == (None, needing(set()))
    assert engine.loaded == alone


def test_a_pair_of_two_vocabularies_is_loaded_and_told(
    engine: LocalEngine, pair: tuple[Path, Path], pieces: Path
) -> None:
    """The draft was refused; now it drafts, in tokens of the target, and the words are the same."""
    expected = finished(engine.generate(asked())).token_ids
    loaded = engine.load(request_for(pair[0], pieces))
    assert "draft" in loaded.capabilities.names
    assert any("ifferent vocabulary" in note for note in loaded.notes)
    assert finished(engine.generate(asked())).token_ids == expected


def test_a_load_that_fails_keeps_the_pair_that_was_there(
    engine: LocalEngine, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    before = engine.loaded
    expected = finished(engine.generate(asked())).token_ids
    truncated = tmp_path / "truncated"
    truncated.mkdir()
    for file in pair[0].iterdir():
        (truncated / file.name).write_bytes(
            file.read_bytes()[: 4000 if "model." in file.name else None]
        )
    for folder in (tmp_path / "missing", tmp_path, truncated):
        with pytest.raises(ModelError):
            engine.load(request_for(folder))
    with pytest.raises(IncompatiblePair):
        engine.load(request_for(pair[1], pair[0]))
    with pytest.raises(InvalidRequest, match="quantization"):
        engine.load(request_for(*pair, quantization="int3"))
    assert engine.loaded == before
    assert finished(engine.generate(asked())).token_ids == expected


def test_the_engines_thread_computes_with_as_many_threads_as_it_was_given(
    pair: tuple[Path, Path], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's setting is each thread's own: made in the main thread, it would not count. The compiled
    step once had as many as torch had when it was first asked for, whatever was loaded later."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for count in {1, min(2, most)}:
        with closing(LocalEngine()) as made:
            made.load(request_for(*pair, threads=count, native=False))
            assert made.measure(lambda model: torch.get_num_threads()) == count
            made.load(request_for(PIP / "draft", threads=count, quantization="fp32"))
            assert made.measure(lambda model: cast(Any, model)._library.threads) == count


def test_too_little_memory_is_told_before_anything_is_loaded_with_what_would_fit(
    engine: LocalEngine, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = engine.loaded
    monkeypatch.setattr(
        "engine.local.pair.load_planned", lambda *_, **__: pytest.fail("it was loaded")
    )
    # These are more here than what the formats differ by.
    monkeypatch.setattr("engine.loading.planning.fit.TOKEN_BYTES", 0)
    for counted in ("scratch_bytes", "attention_bytes"):
        monkeypatch.setattr(ModelSize, counted, lambda *_: 0)
    monkeypatch.setattr("engine.machine.memory.free_bytes", lambda: 300_230_000)
    with pytest.raises(OutOfMemory, match=r"300 MB are free.*bf16 would need 300 MB\."):
        engine.load(request_for(*pair, quantization="fp32"))
    monkeypatch.setattr("engine.machine.memory.free_bytes", lambda: 1000)
    with pytest.raises(OutOfMemory, match=r"Even nf4 would need 300 MB\."):
        engine.load(request_for(*pair, quantization="fp32"))
    assert engine.loaded == before


@pytest.mark.parametrize(
    ("role", "broken", "said"),
    [
        (0, {"rms_norm_eps": "small"}, "'small'"),
        (0, {"hidden_size": 31}, "config.json requires (32, 31)"),
        (0, {"rope_parameters": {"rope_type": "default", "rope_theta": "big"}}, "'big'"),
        (1, {"rms_norm_eps": "small"}, "'small'"),
        (
            1,
            {"rope_parameters": "none"},
            "config.json cannot be used: it has an invalid value. Use",
        ),
    ],
)
def test_a_broken_configuration_is_named_and_not_the_tokenizer(
    pair: tuple[Path, Path], tmp_path: Path, role: int, broken: dict[str, Any], said: str
) -> None:
    """transformers' tokenizer loader looks into config.json, and its complaint was taken for one
    about the tokenizer; a number that is none ended in a bare ValueError."""
    folder = tmp_path / "broken"
    shutil.copytree(pair[role], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **broken}))
    folders = [*pair]
    folders[role] = folder
    engine = LocalEngine()
    with pytest.raises(ModelError) as caught:
        engine.load(request_for(*folders))
    engine.close()
    assert str(folder) in str(caught.value)
    assert "config.json" in str(caught.value)
    assert said in str(caught.value)
    assert "tokenizer" not in str(caught.value)


def test_a_pair_is_replaced_after_the_requests_already_waiting(
    engine: LocalEngine, gate: Gate, pair: tuple[Path, Path]
) -> None:
    first, second = engine.generate(asked()), engine.generate(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(engine.load, request_for(pair[0]))
        assert engine.loaded is not None and engine.loaded.name == "target + draft"
        gate.open()
        assert finished(first).token_ids == finished(second).token_ids
        assert loading.result(PATIENCE).name == "target"


def test_after_unloading_requests_are_refused_and_a_waiting_one_is_told(
    engine: LocalEngine, gate: Gate
) -> None:
    running = engine.generate(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        unloading = pool.submit(engine.unload)
        while not engine._scheduler._waiting:
            time.sleep(0.001)
        late = engine.generate(asked())
        gate.open()
        unloading.result(PATIENCE)
    assert finished(running).reason is FinishReason.LENGTH
    assert isinstance(failed := list(late)[-1], Failed)
    assert "unloaded while this request waited" in failed.message
    assert engine.loaded is None
    with pytest.raises(NotLoaded):
        engine.generate(asked())


class Looking:
    """A watcher, which ends a load at a stage."""

    def __init__(self, end: Stage | None = None) -> None:
        self.cancelled, self.seen, self._end = False, list[LoadProgress](), end

    def on_progress(self, progress: DownloadProgress) -> None: ...

    def on_loading(self, progress: LoadProgress) -> None:
        self.seen.append(progress)
        self.cancelled = progress.stage is self._end and progress.bytes >= progress.total // 4


def test_a_load_tells_what_it_does_and_how_far_it_is(
    engine: LocalEngine, pair: tuple[Path, Path]
) -> None:
    watcher = Looking()
    engine.load(request_for(*pair), watcher)
    stages = list(dict.fromkeys(progress.stage for progress in watcher.seen))
    others = (
        Stage.CONNECTING, Stage.COMPILING, Stage.WAITING, Stage.TRYING, Stage.CAPTURING,
    )  # fmt: skip
    assert stages == [stage for stage in Stage if stage not in others]
    shares = [
        share for share in (progress.fraction for progress in watcher.seen) if share is not None
    ]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert len(set(shares)) > 10


@pytest.mark.parametrize("stage", [Stage.CHECKING, Stage.TARGET])
def test_a_cancelled_load_leaves_the_loaded_pair(
    engine: LocalEngine, pair: tuple[Path, Path], stage: Stage
) -> None:
    """Cancel ended downloads alone: a file was read to its end. Later the pair was left on one thread."""
    before, watcher = engine.loaded, Looking(stage)
    engine.when_idle(lambda pair: torch.set_num_threads(3))
    with pytest.raises(LoadCancelled):
        engine.load(request_for(pair[0]), watcher)
    assert watcher.seen[-1].stage is stage
    assert engine.loaded is before
    assert engine.when_idle(lambda pair: torch.get_num_threads()) == 3
    assert finished(engine.generate(asked())).token_ids
