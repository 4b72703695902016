"""How the app starts where the command line says nothing: kept, read, and never in the way of a start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app import main
from app.settings.preferences import FILE, Preferences, PreferencesFile, StartWith
from app.settings.settings_file import UnreadableFile
from engine.errors import DiskError, InvalidRequest
from engine.loading.request import LoadRequest
from tests.app.cli.conftest import Foretoken, foretoken
from tests.support.folders import write_model

__all__ = ["foretoken"]  # a fixture
GIVEN = LoadRequest(target="pip", device="cpu", threads=1)


@pytest.fixture
def file(tmp_path: Path) -> PreferencesFile:
    return PreferencesFile(tmp_path)


def test_what_is_kept_is_there_for_the_next_app(file: PreferencesFile, tmp_path: Path) -> None:
    assert file.read() == Preferences()
    file.keep(device="cpu", threads=1, native=False)
    file.keep(start_with=StartWith.CHOSEN, chosen=LoadRequest(target="qwen3-8b", draft=""))
    found = PreferencesFile(tmp_path).read()
    assert (found.device, found.threads, found.native) == ("cpu", 1, False)
    assert found.pair == LoadRequest(target="qwen3-8b", draft="")


def test_the_command_line_goes_before_what_is_kept() -> None:
    pair = LoadRequest(target="qwen3-8b", quantization="int8")
    kept = Preferences(start_with=StartWith.CHOSEN, chosen=pair, device="auto", native=False)
    assert kept.over(GIVEN, ()) == replace(pair, native=False)
    assert kept.over(GIVEN, {"device", "threads", "port"}) == replace(
        pair, device="cpu", threads=1, native=False
    )
    # How weights are held suits a pair: one that is stated keeps the stated pair, too.
    assert kept.over(GIVEN, {"quantization"}).target == "pip"
    assert kept.over(GIVEN, {"pair"}) == LoadRequest(target="pip", native=False)


def test_a_pair_is_remembered_by_whole_paths_and_without_how_it_was_computed(
    file: PreferencesFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "little")
    monkeypatch.chdir(tmp_path)
    file.remember(LoadRequest(target="./little", draft="", threads=1))
    file.keep(start_with=StartWith.LAST)
    assert file.read().pair == LoadRequest(target=str(tmp_path / "little"), draft="")


@pytest.mark.parametrize(
    "kept",
    [
        "{",
        "[1]",
        '{"threads": 1e400}',
        '{"version": 1, "device": "tpu", "threads": 100000, "last": {"target": 3}}',
    ],
)
def test_what_is_no_use_is_told_and_left_out(
    kept: str, file: PreferencesFile, caplog: pytest.LogCaptureFixture
) -> None:
    file.path.write_text(kept)
    assert file.read() == Preferences()
    assert str(file.path) in caplog.text
    file.keep(threads=1)
    assert file.read() == Preferences(threads=1)


def test_a_file_of_a_newer_version_is_not_written_over(file: PreferencesFile) -> None:
    newer = json.dumps({"version": 2, "device": "cpu"})
    file.path.write_text(newer)
    assert file.read() == Preferences()
    with pytest.raises(UnreadableFile, match="newer version"):
        file.keep(threads=1)
    file.remember(LoadRequest(target="pip"))  # a load does not fail by it
    assert file.path.read_text() == newer


def test_what_cannot_be_is_refused_and_what_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    file = PreferencesFile(tmp_path)
    with pytest.raises(InvalidRequest, match="threads is 0"):
        file.keep(threads=0)
    with pytest.raises(DiskError, match="No space left"):
        file.keep(threads=1)


@pytest.mark.parametrize("part", ["target", "draft"])
def test_a_pair_that_is_gone_does_not_keep_the_app_from_starting(
    file: PreferencesFile, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    gone = replace(LoadRequest(target="pip"), **{part: str(tmp_path / "gone.gguf")})
    file.keep(start_with=StartWith.CHOSEN, chosen=gone, native=False)
    settings = main.first_load(tmp_path, main.Settings())
    assert settings.load == LoadRequest(target="pip", native=False)
    assert "gone.gguf" in settings.note and settings.note in capsys.readouterr().out


def test_the_command_shows_and_changes_them(foretoken: Foretoken, tmp_path: Path) -> None:
    words = ("settings", "--data-dir", tmp_path)
    assert "CPU threads: 1." in foretoken(*words, "--threads", "1", "--start", "last").out
    assert json.loads((tmp_path / FILE).read_text())["start_with"] == "last"
    told = foretoken(*words, "--threads", "default", "--json")
    assert "CPU threads: automatic." in told.out
    assert told.last_json["start_with"] == "last"
    PreferencesFile(tmp_path).remember(LoadRequest(target="pip"))
    kept = json.loads((tmp_path / FILE).read_text())  # with a pair, --json ended in a traceback
    assert {**foretoken(*words, "--json").last_json, "version": 1} == kept
    assert kept["last"]["target"] == "pip"
    for mistake in (("--threads", "many"), ("--start", "/nowhere/x.gguf"), ("--device", "tpu")):
        refused = foretoken(*words, *mistake)
        assert refused.status == 2
        assert mistake[1] in refused.err
    assert json.loads((tmp_path / FILE).read_text())["start_with"] == "last"


def test_the_app_begins_with_what_was_loaded_last_and_pip_before_that(
    file: PreferencesFile, tmp_path: Path
) -> None:
    """It began with Pip each time, in chats that another model had written."""
    assert main.first_load(tmp_path, main.Settings()).load.target == "pip"
    last = LoadRequest(target=str(write_model(tmp_path / "mine")), draft="", context=512)
    file.remember(last)
    settings = main.first_load(tmp_path, main.Settings())
    assert settings.load == last
    assert settings.instead is not None and settings.instead.target == "pip"
    stated = main.first_load(tmp_path, main.Settings(load=GIVEN, fixed=frozenset({"pair"})))
    assert (stated.load.target, stated.instead) == ("pip", None)
    context = main.Settings(load=replace(GIVEN, context=64), fixed=frozenset({"context"}))
    assert main.first_load(tmp_path, context).load == replace(last, context=64)
    file.keep(start_with=StartWith.SHIPPED)
    assert main.first_load(tmp_path, main.Settings()).load.target == "pip"
