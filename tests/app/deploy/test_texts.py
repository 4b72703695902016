"""Texts for people are found by name, with a value for each of their places."""

from __future__ import annotations

import ast
from string import Formatter

from app.deploy.tables import TEXTS
from tests.support.places import ROOT


def _places(text: str) -> set[str]:
    return {name.split(".")[0] for _, name, _, _ in Formatter().parse(text) if name}


def test_every_refusal_is_raised_with_the_values_of_its_text() -> None:
    raised = set()
    for file in (ROOT / "app" / "deploy").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refusal"):
                continue
            key = ast.literal_eval(node.args[1])
            given = {"field", *(each.arg for each in node.keywords)}
            assert _places(TEXTS["refusals"][key]) <= given, (file.name, key)
            raised.add(key)
    assert raised == TEXTS["refusals"].keys()


def test_every_note_is_told_with_the_values_of_its_text() -> None:
    told = set()
    for node in ast.walk(ast.parse((ROOT / "app" / "deploy" / "support.py").read_text())):
        if not (isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple)):
            continue
        name, values = node.value.elts
        keys = values.keys if isinstance(values, ast.Dict) else [None]
        given = {"plan", "gpu", *(ast.literal_eval(key) for key in keys if key is not None)}
        for each in ast.walk(name):  # it may depend on a condition
            if isinstance(each, ast.Constant) and each.value in TEXTS["notes"]:
                if None not in keys:  # others are known at run time alone
                    assert _places(TEXTS["notes"][each.value]) <= given, each.value
                told.add(each.value)
    assert told == TEXTS["notes"].keys() - {"unchecked-served"}  # which launch_plan.py fills
