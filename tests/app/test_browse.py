"""Folders for who looks for a model, and who may look."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.inventory.model_folders import find, from_this_machine, listing
from engine.errors import InvalidRequest
from tests.support.folders import write_model


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "Z.gguf").write_bytes(bytes(9))
    (tmp_path / "secret.txt").write_text("no")
    write_model(tmp_path / "mine")
    return tmp_path


def test_models_stand_first_then_folders_and_nothing_else(home: Path) -> None:
    found = listing("", home)
    told = [(each["name"], each["kind"], each["bytes"]) for each in found["entries"]]
    assert told == [("mine", "model", 0), ("Z.gguf", "model", 9), ("deep", "folder", 0)]
    assert (found["path"], found["parent"], found["more"]) == (str(home), str(home.parent), 0)
    assert listing(str(home / "Z.gguf"), Path("/"))["path"] == str(home)
    assert listing("/", home)["parent"] is None
    for bad in (str(home / "none"), "~nobody-here/models", "a\0b"):
        with pytest.raises(InvalidRequest, match="cannot be opened"):
            listing(bad, home)


def test_a_dropped_file_is_found_by_name_and_size(home: Path) -> None:
    assert find("Z.gguf", 9, [home / "none", home]) == str(home / "Z.gguf")
    assert find("Z.gguf", 8, [home]) is None
    assert find("../Z.gguf", 9, [home / "deep"]) is None


@pytest.mark.parametrize(
    ("client", "headers", "here"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("192.168.0.7", {}, False),
        (None, {}, False),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, False),
        ("127.0.0.1", {"forwarded": "for=203.0.113.9"}, False),
    ],
)
def test_only_this_machine_may_look(
    client: str | None, headers: dict[str, str], here: bool
) -> None:
    assert from_this_machine(client, headers) is here
