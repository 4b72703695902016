"""Recipes: Pip's own is sound, and a wrong one is told what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from engine.train.schema import RecipeError
from tests.support.places import ROOT
from tools.pip.network import config_of, new_model
from tools.pip.recipe import Recipe, Shape, load_recipe

PIP = ROOT / "tools" / "pip" / "pip.yaml"


def test_the_recipe_of_pip_is_valid_and_small_enough() -> None:
    recipe = load_recipe(PIP)
    assert parameters(recipe, recipe.target.model) < 8_000_000
    assert parameters(recipe, recipe.draft.model) <= 1_500_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeed": 1}, "seeed: unknown; allowed: name, seed"),
        ({"seed": "one"}, "seed: 'one' is not allowed; it must be a whole number"),
        ({"seed": None}, "seed: missing"),
        ({"device": "tpu"}, "device: 'tpu' is not allowed; it must be one of auto, cpu, cuda"),
        ({"tokenizer": {}}, "tokenizer.vocabulary: missing"),
        ({"tokenizer": 4096}, "tokenizer: 4096 is not allowed; it must be a mapping"),
        ({"tokenizer": {"vocabulary": -1}}, "zero or more"),
        ({"threads": True}, "threads: true"),
    ],
)
def test_a_wrong_recipe_names_the_key_and_what_is_allowed(
    recipe_file: Path, change: dict[str, object], message: str
) -> None:
    recipe_file.write_text(yaml.safe_dump(yaml.safe_load(recipe_file.read_text()) | change))
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe_file)
    assert message in str(caught.value)


def test_a_budget_needs_tokens_or_minutes(recipe_file: Path) -> None:
    recipe = yaml.safe_load(recipe_file.read_text())
    recipe["target"]["budget"] = {}
    recipe_file.write_text(yaml.safe_dump(recipe))
    with pytest.raises(RecipeError, match=r"target\.budget: needs tokens, minutes or both"):
        load_recipe(recipe_file)


def parameters(recipe: Recipe, shape: Shape) -> int:
    with torch.device("meta"):
        model = new_model(config_of(shape, recipe.tokenizer.vocabulary, 0, 1, 2), seed=0)
    return sum(param.numel() for param in model.parameters())
