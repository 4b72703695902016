"""Recipes of drafters: what they may say, and how mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from engine.train.heads import kinds
from engine.train.recipe import load_recipe
from engine.train.schema import RecipeError
from tests.support.places import ROOT

RECIPES = ROOT / "engine" / "train" / "recipes"
GOOD = {
    "kind": "medusa",
    "name": "Mine",
    "target": "pip",
    "seed": 1,
    "budget": {"minutes": 1},
    "shape": {"heads": 2},
}


def load(folder: Path, **changes: object):
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({**GOOD, **changes}))
    return load_recipe(file)


def test_defaults_fill_what_is_not_said(tmp_path: Path) -> None:
    recipe = load(tmp_path)
    assert recipe.replies.prompts == "pip"
    assert recipe.replies.temperatures == (0.0, 0.8)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kind": "crystal ball"}, r"kind: must be one of .*medusa"),
        ({"shape": {"heads": "two"}}, r"shape\.heads: 'two'.*whole number"),
        ({"shape": {"hats": 2}}, r"shape\.hats: unknown; allowed: heads, layers"),
        ({"shape": 3}, r"shape: 3 is not allowed"),
        ({"shape": {"heads": 0}}, r"shape\.heads: must be 1 or more"),
        ({"kind": "eagle3", "shape": {"steps": 0}}, r"shape\.steps: must be 1 or more"),
        (
            {"kind": "block", "shape": {"num_key_value_heads": 0}},
            r"shape\.num_key_value_heads: must be 1 or more",
        ),
        ({"budget": {"minutes": float("nan")}}, r"budget\.minutes: .*zero or more"),
        ({"replies": {"count": 0}}, r"replies\.count: must be 1 or more"),
        ({"replies": {"held_out": 0}}, r"replies\.held_out"),
        ({"replies": {"temperatures": []}}, r"replies\.temperatures"),
        ({"budget": {}}, "budget: needs tokens, minutes or both"),
        ({"window": 8}, "window: must be 16 to batch_tokens"),
        ({"micro_batches": 0}, "micro_batches"),
        ({"colour": "blue"}, "colour: unknown"),
    ],
)
def test_a_mistake_names_the_key(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    with pytest.raises(RecipeError, match=named):
        load(tmp_path, **changes)


@pytest.mark.parametrize("value", ["2024-13-45", "!!bool perhaps", "[a"])
def test_what_yaml_cannot_read_is_refused_in_words(tmp_path: Path, value: str) -> None:
    """A date that no calendar has was a traceback."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"name: {value}\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="is not valid YAML"):
        load_recipe(recipe)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("kind: medusa\n")
    with pytest.raises(RecipeError, match="name: missing"):
        load_recipe(file)


def test_every_shipped_recipe_can_be_read_and_every_kind_has_one() -> None:
    assert {load_recipe(file).kind for file in RECIPES.glob("*.yaml")} == set(kinds.names())
