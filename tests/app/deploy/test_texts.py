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
            given = {each.arg for each in node.keywords}
            if None not in given:  # ``**values`` are known at run time alone
                assert _places(TEXTS["refusals"][key]) <= given | {"field"}, (file.name, key)
            raised.add(key)
    assert raised == TEXTS["refusals"].keys()
