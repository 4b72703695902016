"""Adding to the user's own catalog: their lines stay, and what would not load is not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import paths
from app.inventory import own_catalog
from engine.errors import CatalogError
from engine.loading.catalog import load_catalog

SHIPPED = paths.catalog_file()
PAIR = {"id": "mine", "name": "Mine: the first", "target": "pip", "draft": "pip-draft"}
OTHER = {"id": "other", "name": "Other", "target": "pip"}


def test_a_first_entry_makes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "data" / "model_catalog.yaml"
    assert own_catalog.add(file, SHIPPED, "pairs", PAIR)
    pair = load_catalog(SHIPPED, file).pair("mine")
    assert (pair.name, pair.target.id) == ("Mine: the first", "pip")


def test_lines_and_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "model_catalog.yaml"
    text = (
        "# my models\n"
        "pairs:  # few\n"
        "  - {id: old, name: Old, target: pip}  # the best\n"
        "models:\n"
        f"  - {{id: local, name: Local, path: {tmp_path}, licence: mit}}"
    )
    file.write_text(text)
    own_catalog.add(file, SHIPPED, "pairs", PAIR)
    own_catalog.add(file, SHIPPED, "models", {"id": "m", "name": "M", "path": "x", "licence": "y"})
    changed = file.read_text()
    assert all(line in changed.splitlines() for line in text.splitlines())
    catalog = load_catalog(SHIPPED, file)
    assert catalog.pair("mine").name == "Mine: the first" and catalog.pair("old").name == "Old"
    assert {"local", "m"} <= {spec.id for spec in catalog.models}


def test_an_entry_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    file = tmp_path / "model_catalog.yaml"
    assert own_catalog.add(file, SHIPPED, "pairs", PAIR)
    before = file.read_text()
    assert not own_catalog.add(file, SHIPPED, "pairs", PAIR)
    assert file.read_text() == before
    assert own_catalog.add(file, SHIPPED, "pairs", OTHER)
    assert {pair.id for pair in load_catalog(SHIPPED, file).pairs} >= {"mine", "other"}


def test_an_id_is_free_for_the_same_content_alone_and_never_a_shipped_one(tmp_path: Path) -> None:
    file = tmp_path / "model_catalog.yaml"

    def free(section: str = "pairs", **changes: str) -> bool:
        return own_catalog.is_free(file, SHIPPED, section, {**PAIR, **changes})

    assert free()
    own_catalog.add(file, SHIPPED, "pairs", PAIR)
    assert free() and free(name="As people call it")
    assert not free(draft="smollm2-135m")
    assert not free(id="pip") and not free("models", id="pip-draft") and free(id="pip-draft")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pairs: [{id: old, name: Old, target: pip}]\n", id="one line"),
        pytest.param("pairs:\n- {id: old, name: Old, target: pip}\n", id="other indent"),
    ],
)
def test_what_would_not_load_is_not_written(tmp_path: Path, text: str) -> None:
    file = tmp_path / "model_catalog.yaml"
    file.write_text(text)
    with pytest.raises(CatalogError, match="was not changed"):
        own_catalog.add(file, SHIPPED, "pairs", PAIR)
    assert file.read_text() == text
    assert list(tmp_path.iterdir()) == [file]


def test_a_broken_file_is_told_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "model_catalog.yaml"
    file.write_text("pairs: {{{\n")
    with pytest.raises(CatalogError):
        own_catalog.add(file, SHIPPED, "pairs", PAIR)
    assert file.read_text() == "pairs: {{{\n"
