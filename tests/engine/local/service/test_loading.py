"""Pairs that come and go: loading, unloading, and loads that fail."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.drafting import proposers
from engine.errors import IncompatiblePair, InvalidRequest, ModelError, NotLoaded, OutOfMemory
from engine.events import Failed, FinishReason
from engine.local.service import EngineService
from tests.engine.local.service.conftest import PATIENCE, Gate, asked, finished


def test_without_a_pair_requests_are_refused() -> None:
    service = EngineService()
    with pytest.raises(NotLoaded, match="No model is loaded"):
        service.submit(asked())
    assert service.loaded is None
    service.close()


def test_what_is_loaded_is_described(
    service: EngineService, pair: tuple[Path, Path], pair_heads: tuple[Path, ...]
) -> None:
    loaded = service.loaded
    assert loaded is not None
    assert (loaded.name, loaded.target, loaded.draft) == ("Random", "target", "draft")
    assert (loaded.context, loaded.vocabulary, loaded.dtype) == (512, 320, "fp32")
    assert loaded.proposers == ("none", "draft", "ngram", "suffix", "hybrid", "best")
    assert loaded.parameters > 0
    whole = service.load(*pair, name="All", heads=pair_heads)
    assert whole.proposers == proposers.names()
    assert whole.heads == tuple(folder.name for folder in pair_heads)
    alone = service.load(pair[0], None, name="Alone")
    assert (alone.draft, alone.proposers) == (None, ("none", "ngram", "suffix", "best"))
    assert service.loaded == alone


def test_a_pair_of_two_vocabularies_is_loaded_and_told(
    service: EngineService, pair: tuple[Path, Path], pieces: Path
) -> None:
    """The draft was refused; now it drafts, in tokens of the target, and the words are the same."""
    expected = finished(service.submit(asked())).token_ids
    loaded = service.load(pair[0], pieces, name="Across")
    assert "draft" in loaded.proposers
    assert any("The draft works across vocabularies" in note for note in loaded.notes)
    assert finished(service.submit(asked())).token_ids == expected


def test_a_load_that_fails_keeps_the_pair_that_was_there(
    service: EngineService, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    before = service.loaded
    expected = finished(service.submit(asked())).token_ids
    truncated = tmp_path / "truncated"
    truncated.mkdir()
    for file in pair[0].iterdir():
        (truncated / file.name).write_bytes(
            file.read_bytes()[: 4000 if "model." in file.name else None]
        )
    for folder in (tmp_path / "missing", tmp_path, truncated):
        with pytest.raises(ModelError):
            service.load(folder, None, name="Broken")
    with pytest.raises(IncompatiblePair):
        service.load(pair[1], pair[0], name="The wrong way round")
    with pytest.raises(InvalidRequest, match="quantization"):
        service.load(*pair, name="Odd", dtype="int3")
    assert service.loaded == before
    assert finished(service.submit(asked())).token_ids == expected


def test_the_engines_thread_computes_with_as_many_threads_as_it_was_given(
    pair: tuple[Path, Path],
) -> None:
    """The setting is each thread's own: made in the main thread, it would not count."""
    with closing(EngineService(threads=1)) as made:
        made.load(*pair, name="Random")
        assert made.measure(lambda model: torch.get_num_threads()) == 1


def test_too_little_memory_is_told_before_anything_is_loaded_with_what_would_fit(
    service: EngineService, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = service.loaded
    monkeypatch.setattr("engine.local.service.load_model", lambda *_, **__: pytest.fail("it was loaded"))
    monkeypatch.setattr("engine.loading.fit.free_bytes", lambda: 300_230_000)
    with pytest.raises(OutOfMemory, match=r"300 MB are free.*bf16 would need 300 MB\."):
        service.load(*pair, name="Big", dtype="fp32")
    monkeypatch.setattr("engine.loading.fit.free_bytes", lambda: 1000)
    with pytest.raises(OutOfMemory, match=r"Even nf4 would need 300 MB\."):
        service.load(*pair, name="Big", dtype="fp32")
    assert service.loaded == before


@pytest.mark.parametrize(
    ("role", "broken", "said"),
    [
        (0, {"rms_norm_eps": "small"}, "'rms_norm_eps' expected float, got str (value: 'small')"),
        (0, {"hidden_size": 31}, "not a multiple of the number of attention heads"),
        (0, {"rope_parameters": {"rope_type": "default", "rope_theta": "big"}}, "'big'"),
        (1, {"rms_norm_eps": "small"}, "'small'"),
        (1, {"rope_parameters": "none"}, "config.json holds a value that cannot be used"),
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
    service = EngineService()
    with pytest.raises(ModelError) as caught:
        service.load(*folders, name="Broken")
    service.close()
    assert str(folder / "config.json") in str(caught.value)
    assert said in str(caught.value)
    assert "tokenizer" not in str(caught.value)


def test_a_pair_is_replaced_after_the_requests_already_waiting(
    service: EngineService, gate: Gate, pair: tuple[Path, Path]
) -> None:
    first, second = service.submit(asked()), service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(service.load, pair[0], None, name="Next")
        assert service.loaded is not None and service.loaded.name == "Random"
        gate.open()
        assert finished(first).token_ids == finished(second).token_ids
        assert loading.result(PATIENCE).name == "Next"


def test_after_unloading_requests_are_refused_and_a_waiting_one_is_told(
    service: EngineService, gate: Gate
) -> None:
    running = service.submit(asked())
    gate.reached.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        unloading = pool.submit(service.unload)
        while not service._waiting:
            time.sleep(0.001)
        late = service.submit(asked())
        gate.open()
        unloading.result(PATIENCE)
    assert finished(running).reason is FinishReason.LENGTH
    assert isinstance(failed := list(late)[-1], Failed)
    assert "unloaded while this request waited" in failed.message
    assert service.loaded is None
    with pytest.raises(NotLoaded):
        service.submit(asked())
