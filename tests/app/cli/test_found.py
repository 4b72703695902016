"""``foretoken models``: what lies on the machine already."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.app.cli.conftest import Foretoken
from tests.support.places import PIP


@pytest.fixture(autouse=True)
def models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETOKEN_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_what_other_programs_hold_is_listed_and_what_is_broken_says_why(
    foretoken: Foretoken, model: Path, tmp_path: Path
) -> None:
    studio = tmp_path / ".lmstudio" / "models" / "someone"
    shutil.copytree(model, studio / "whole")
    (studio / "broken.gguf").write_bytes(b"GGUF")
    (studio / "\x1b[2J.gguf").write_bytes(b"GGUF")
    result = foretoken("models", "list", "--json")
    assert result.status == 0
    found = {one["name"]: one for one in result.last_json["found"]}
    assert found["someone/whole"]["architecture"] == "LlamaForCausalLM"
    assert found["someone/whole"]["reason"] is None
    assert found["someone/broken"]["reason"] is not None
    assert "someone/whole" in result.out.split("Unsupported files:")[0]
    assert "someone/broken (LM Studio): " in result.out
    assert "someone/?[2J (LM Studio): " in result.out


def test_folders_are_added_and_forgotten(foretoken: Foretoken, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "disk" / "mine")
    assert foretoken("models", "add-folder", tmp_path / "disk").status == 0
    assert "is in the list already" in foretoken("models", "add-folder", tmp_path / "disk").err
    (found,) = foretoken("models", "list", "--json").last_json["found"]
    assert (found["name"], found["place"]) == ("mine", str(tmp_path / "disk"))
    assert foretoken("models", "remove-folder", tmp_path / "disk").status == 0
    assert foretoken("models", "list", "--json").last_json["found"] == []
    again = foretoken("models", "remove-folder", tmp_path / "disk")
    assert again.status != 0
    assert "is not among the added folders" in again.err
    absent = foretoken("models", "add-folder", tmp_path / "nowhere")
    assert "There is no folder" in absent.err


def test_a_broken_list_of_folders_is_told_and_left_out(
    foretoken: Foretoken, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "model_folders.json").write_text("{")
    assert foretoken("models", "list").status == 0
    assert "model_folders.json" in caplog.text


def test_drafts_for_a_model_say_whether_they_fit(
    foretoken: Foretoken, pair: tuple[Path, Path], models_folder: Path
) -> None:
    target, draft = pair
    alone = shutil.copytree(target, models_folder.parent / "alone" / "target")
    assert "No other model" in foretoken("models", "drafts", alone).out
    beside = foretoken("models", "drafts", target).out  # as a load finds it
    assert f"draft ({draft})\n  suitable" in beside
    shutil.copytree(draft, models_folder / "draft")
    shutil.copytree(target, models_folder / "same")
    result = foretoken("models", "drafts", alone, "--json")
    listed = {one["name"]: one["reason"] for one in result.last_json["drafts"]}
    assert listed["draft"] is None
    assert "not smaller" in listed["same"]
    by_name = foretoken("models", "drafts", "same")  # as `models` lists it
    assert by_name.status == 0 and f"draft ({models_folder / 'draft'})\n  suitable" in by_name.out
    assert "suitable: same vocabulary" in result.out


def test_the_heads_of_a_pair_are_listed_by_their_titles_and_judged_as_a_load_does(
    foretoken: Foretoken, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the draft was listed, by its folder's name; and a pair that loads was refused."""
    listed = foretoken("models", "drafts", "pip", "--json").last_json["drafts"]
    assert [one["name"] for one in listed if not one["head"]] == ["Pip's draft"]
    assert {"Medusa heads", "EAGLE-3 head"} < {one["name"] for one in listed}
    fit = foretoken("models", "fit", "pip")
    assert "\nhead      Medusa heads " in fit.out and "medusa" not in fit.out
    assert "Pip, Pip's draft, Medusa heads" in fit.out
    monkeypatch.setattr("engine.loading.planning.pairing.FEWEST_SHARED", 0.5)
    for target, draft, status, told in (
        ("pip", model, 0, "can draft for Pip, but it is not worth it. At most"),
        ("pip", PIP / "medusa", 0, "Medusa heads can draft for Pip."),
        (model, PIP / "medusa", 1, "Medusa heads cannot draft for"),
    ):
        shown = foretoken("models", "why", target, draft)
        assert shown.status == status and told in shown.out
