"""The pickers and the Models page, without a browser."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.paths import catalog_file
from app.runtime import OpeningState, Runtime
from app.ui.opener import Opener
from app.ui.pages.pair import pair_text, picker_updates
from app.ui.shelf import Shelf
from app.ui.words import Words
from engine.loading.catalog import open_catalog
from tests.app.ui.scripted import ScriptedService
from tests.support.checkpoints import write_tokenizer
from tests.support.folders import write_model
from tests.support.vocabularies import write_sentencepiece


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    runtime = Runtime(ScriptedService(), open_catalog(catalog_file()), tmp_path)
    return Shelf(runtime, Opener(runtime))


def opened(shelf: Shelf, **data: str) -> OpeningState:
    assert shelf.open(data) == {"error": None}
    deadline = time.monotonic() + 20
    while shelf.runtime.opening.status.state is OpeningState.WORKING:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return shelf.runtime.opening.status.state


def test_an_opened_folder_stands_in_the_target_picker_with_what_fits(
    shelf: Shelf, tmp_path: Path
) -> None:
    """It was not listed, so the picker named a model that was not loaded."""
    folder = write_model(tmp_path / "mine", hidden=16)
    small = write_model(tmp_path / "small", hidden=8)
    assert opened(shelf, folder=str(folder)) is OpeningState.READY
    target, draft, load = picker_updates(shelf)
    assert target.choices[0] == ("mine", str(folder))
    assert target.value == str(folder)
    assert (draft.choices, draft.value) == ([(Words.NO_DRAFT, "")], "")
    assert load == Words.LOAD
    assert opened(shelf, folder=str(folder), draft=str(small)) is OpeningState.READY
    target, draft, _ = picker_updates(shelf)
    assert target.value == str(folder)
    assert draft.choices == [("small", str(small)), (Words.NO_DRAFT, "")]
    assert draft.value == str(small)
    again = shelf.runtime.catalog.resolve(pair_text(target.value, draft.value))
    assert again.name == "mine + small"


def test_a_pair_of_the_catalog_is_shown_when_it_was_opened_by_a_page(
    shelf: Shelf, tmp_path: Path
) -> None:
    """The pages tell its name, which is no id: the picker fell back to the first target."""
    folder = write_model(tmp_path / "mine")
    opened(shelf, folder=str(folder))
    opened(shelf, pair="pip")
    target, draft, _ = picker_updates(shelf)
    pip = shelf.runtime.catalog.pair("pip")
    assert pip.draft is not None
    assert (target.value, draft.value) == (pip.target.id, pip.draft.id)
    assert str(folder) not in [value for _, value in target.choices]


def test_after_a_failure_the_pickers_show_what_is_still_loaded(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "mine")
    opened(shelf, folder=str(folder))
    monkeypatch.setattr(shelf.runtime.service, "load", lambda *_, **__: 1 / 0)
    assert opened(shelf, pair="pip") is OpeningState.FAILED
    assert picker_updates(shelf)[0].value == str(folder)


def test_a_folder_that_is_gone_is_shown_no_more(shelf: Shelf, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "mine")
    opened(shelf, folder=str(folder))
    (folder / "config.json").unlink()
    target, *_ = picker_updates(shelf)
    assert target.value == shelf.targets()[0][1] != str(folder)
    assert shelf.load_label(str(folder), "") == Words.LOAD


def test_a_draft_with_another_vocabulary_is_offered_and_says_so(
    shelf: Shelf, tmp_path: Path
) -> None:
    target = write_model(tmp_path / "mine", hidden=16, vocabulary=320)
    write_tokenizer(target)
    draft = write_model(tmp_path / "other", hidden=8, vocabulary=400)
    write_sentencepiece(draft)
    assert opened(shelf, folder=str(target), draft=str(draft)) is OpeningState.READY
    choices, _ = shelf.drafts_of(str(target))
    assert (Words.across("other"), str(draft)) in choices
    reasons = {each["name"]: each for each in shelf.why_not({"target": "pip"})}
    assert reasons["Pip's draft"]["across"] is None and reasons["Pip's draft"]["reason"] is None
