"""What the pickers offer and show, also of what the Models page opened."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.loading import LoadState
from app.paths import catalog_file
from app.runtime import Runtime
from app.training.runs import Trainings
from app.ui import words
from app.ui.controls.pickers import Pickers
from app.ui.pages.chat.pair import PairBackend, chosen
from app.ui.pages.models.backend import ModelsBackend
from app.ui.pages.train.backend import TrainBackend
from engine.kernels.formats import QUANTIZATIONS
from engine.loading.catalog import open_catalog
from engine.loading.request import LoadRequest
from tests.app.ui.runs import write_run
from tests.support.checkpoints import write_random, write_tokenizer
from tests.support.fake_engine import FakeEngine
from tests.support.folders import write_model
from tests.support.gguf_files import write_gguf
from tests.support.recital import reciting_engine
from tests.support.vocabularies import write_sentencepiece


def shown(pickers: Pickers) -> list[Any]:
    """What the page is told to show: the loaded model, its draft and the load button."""
    backend = PairBackend(pickers)
    rows = backend.pair_models()
    loaded = next(row["id"] for row in rows if row["loaded"])
    target = SimpleNamespace(value=loaded, choices=[(row["name"], row["id"]) for row in rows])
    view = backend.pair_choices({"target": loaded})
    draft = view["fields"][0]
    choices = [(one["label"], one["id"]) for one in draft["choices"]]
    return [target, SimpleNamespace(value=draft["value"], choices=choices), view["load"]]


@pytest.fixture
def pickers(tmp_path: Path) -> Pickers:
    runtime = Runtime(
        reciting_engine(), open_catalog(catalog_file()), tmp_path, tmp_path / "models"
    )
    return Pickers(runtime)


def models(pickers: Pickers) -> ModelsBackend:
    return ModelsBackend(pickers.runtime)


def test_a_model_of_the_users_own_catalog_is_shown_with_its_place(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        f"models:\n  - {{id: mine, name: Mine, path: {tmp_path / 'mine'}, licence: mit}}\n"
        "pairs:\n  - {id: own, name: Own, target: mine}\n"
    )
    catalog = open_catalog(catalog_file(), own)
    listed = ModelsBackend(Runtime(reciting_engine(), catalog, tmp_path, tmp_path / "models"))
    sources = {row["pair"]: row["source"] for row in listed.table()["rows"]}
    assert sources["own"] == str(tmp_path / "mine")
    assert sources["pip"] == words.SHIPPED


def opened(pickers: Pickers, **data: str) -> LoadState:
    assert models(pickers).open(data)
    return settled(pickers)


def settled(pickers: Pickers) -> LoadState:
    deadline = time.monotonic() + 20
    while pickers.runtime.loader.working:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return pickers.runtime.loader.status.state


def test_an_opened_folder_stands_in_the_target_picker_with_what_fits(
    pickers: Pickers, tmp_path: Path
) -> None:
    """It was not listed, so the picker named a model that was not loaded."""
    folder = write_model(tmp_path / "mine", hidden=16)
    small = write_model(tmp_path / "small", hidden=8)
    assert opened(pickers, folder=str(folder)) is LoadState.READY
    target, draft, load = shown(pickers)
    assert ("mine", str(folder)) in target.choices
    assert target.value == str(folder)
    assert (draft.choices, draft.value) == ([(words.NO_DRAFT, "")], "")
    assert load == words.LOAD
    assert opened(pickers, folder=str(folder), draft=str(small)) is LoadState.READY
    target, draft, _ = shown(pickers)
    assert target.value == str(folder)
    assert draft.choices == [("small", str(small)), (words.NO_DRAFT, "")]
    assert draft.value == str(small)
    again = LoadRequest(target=target.value, draft=draft.value)
    assert pickers.runtime.catalog.resolve(again).name == "mine + small"


def test_a_pair_of_the_catalog_is_shown_when_it_was_opened_by_a_page(
    pickers: Pickers, tmp_path: Path
) -> None:
    """The pages tell its name, which is no id: the picker fell back to the first target. What was open
    before is remembered."""
    folder = write_model(tmp_path / "mine")
    opened(pickers, folder=str(folder))
    opened(pickers, pair="pip")
    target, draft, _ = shown(pickers)
    pip = pickers.runtime.catalog.pair("pip")
    assert pip.draft is not None
    assert (target.value, draft.value) == (pip.target.id, pip.draft.id)
    assert str(folder) in [value for _, value in target.choices]


def test_weights_are_offered_as_the_file_stores_them_for_gguf_files_alone(
    pickers: Pickers, tmp_path: Path
) -> None:
    write_random(tmp_path / "folder")
    file = str(write_gguf(tmp_path / "folder", tmp_path / "m.gguf"))

    def offered(target: str, held: str) -> tuple[set[str], str]:
        asked = {"target": target, "quantization": held}
        field = PairBackend(pickers).pair_choices(asked)["fields"][1]
        return {each["id"] for each in field["choices"]}, field["value"]

    every = set(QUANTIZATIONS)
    assert offered(file, "stored") == (every, "stored")
    assert offered(file, "int8") == (every, "int8")
    for target in (str(tmp_path / "folder"), "pip", str(tmp_path / "gone.gguf")):
        assert offered(target, "nf4") == (every - {"stored"}, "nf4")


def asked_for(pickers: Pickers) -> LoadRequest:
    """What is loaded was asked for like this."""
    loaded = pickers.runtime.engine.loaded
    assert loaded is not None
    return loaded.request


def test_every_page_loads_on_the_device_and_with_the_steps_that_the_app_was_started_with(
    pickers: Pickers, tmp_path: Path
) -> None:
    """`--device cpu --threads 1` held until another pair was chosen."""
    start = LoadRequest(
        target="pip",
        heads=("head",),
        quantization="int8",
        device="cpu",
        native=False,
        cuda_graphs=False,
        threads=1,
    )
    runtime, folder = pickers.runtime, write_model(tmp_path / "mine")
    runtime.first = start
    expected = replace(start, heads=(), quantization="auto")
    opened(pickers, pair="pip")
    assert asked_for(pickers) == expected
    opened(pickers, folder=str(folder))
    assert asked_for(pickers) == replace(expected, target=str(folder), draft="")
    runtime.loader.start(chosen(runtime, "pip", "", "fp32", "fp8"))
    settled(pickers)
    assert asked_for(pickers) == replace(
        expected, draft="", quantization="fp32", kv_cache_dtype="fp8"
    )
    write_run(tmp_path, phase="done", folder=str(folder), pair="smollm2-360m")
    TrainBackend(runtime, Trainings(tmp_path), pickers).open_trained()
    settled(pickers)
    assert asked_for(pickers) == replace(expected, target="smollm2-360m")


def test_the_loaded_models_held_in_another_way_keep_their_heads(
    pickers: Pickers, tmp_path: Path
) -> None:
    """The pickers name target and draft: a trained head was dropped without a word."""
    runtime = pickers.runtime
    (head := tmp_path / "head").mkdir()
    (head / "config.json").write_text(json.dumps({"medusa_num_heads": 2}))
    with_head = LoadRequest(target="pip", heads=(str(head),))
    runtime.engine.load(with_head)
    target, draft = (update.value for update in shown(pickers)[:2])
    request = chosen(runtime, target, draft, "fp32", "auto")
    assert request == replace(with_head, quantization="fp32")
    assert chosen(runtime, target, "", "fp32", "auto").heads == ()


def test_after_a_failure_the_pickers_show_what_is_still_loaded(
    pickers: Pickers, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "mine")
    opened(pickers, folder=str(folder))
    assert isinstance(pickers.runtime.engine, FakeEngine)
    pickers.runtime.engine.load_error = ZeroDivisionError("a bug")
    assert opened(pickers, pair="pip") is LoadState.FAILED
    assert shown(pickers)[0].value == str(folder)


def test_a_model_is_marked_as_loaded_until_another_has_taken_its_place(pickers: Pickers) -> None:
    """While another was loaded, none was marked, though the first still wrote."""
    assert isinstance(pickers.runtime.engine, FakeEngine)
    opened(pickers, pair="pip")
    pickers.runtime.engine.seconds_to_load = 0.3
    models(pickers).open({"pair": "smollm2-360m"})
    if pickers.runtime.engine.loaded is not None:
        assert shown(pickers)[0].value == "pip"
    settled(pickers)
    assert shown(pickers)[0].value == "smollm2-360m"


def test_a_folder_that_is_gone_is_shown_no_more(pickers: Pickers, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "mine")
    opened(pickers, folder=str(folder))
    (folder / "config.json").unlink()
    assert not any(row["loaded"] for row in PairBackend(pickers).pair_models())
    assert pickers.load_label(str(folder), "") == words.LOAD


def test_a_draft_with_another_vocabulary_is_offered_and_says_so(
    pickers: Pickers, tmp_path: Path
) -> None:
    target = write_model(tmp_path / "mine", hidden=16, vocabulary=320)
    write_tokenizer(target)
    draft = write_model(tmp_path / "other", hidden=8, vocabulary=400)
    write_sentencepiece(draft)
    assert opened(pickers, folder=str(target), draft=str(draft)) is LoadState.READY
    choices, _, _ = pickers.drafts_of(str(target))
    assert ("other, different vocabulary", str(draft)) in choices
    listed = PairBackend(pickers).pair_models()
    assert [row["draft"] for row in listed if row["loaded"]] == ["+ other"], "not the default"
    reasons = {each["name"]: each for each in models(pickers).why_not({"target": "pip"})["drafts"]}
    assert reasons["Pip's draft"]["across"] is None and reasons["Pip's draft"]["reason"] is None
