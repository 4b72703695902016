"""``foretoken train``: the recipe it finds, and the mistakes it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.train import find_recipe
from tests.app.cli.conftest import Foretoken


@pytest.mark.parametrize("name", ["pip-mlp", "pip-mlp.yaml", "recipes/pip-mlp.yaml"])
def test_shipped_recipes_are_found_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert find_recipe(name).name == "pip-mlp.yaml"


def test_a_recipe_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip-mlp.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_recipe("pip-mlp.yaml") == Path("pip-mlp.yaml")


def test_an_unknown_recipe_is_told(foretoken: Foretoken) -> None:
    result = foretoken("train", "no-such-recipe")
    assert result.status == 2
    assert "Included recipes: eagle3, pip-block, " in result.err and ".yaml" not in result.err


def test_a_broken_recipe_names_the_key(foretoken: Foretoken, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("colour: blue\n")
    result = foretoken("train", recipe, "--out", tmp_path / "out")
    assert result.status == 2
    assert "colour" in result.err
