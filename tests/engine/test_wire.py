"""Capabilities survive the way to JSON and back; what a newer version adds is left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine.api import OptionInfo, Unavailable
from engine.request import Control
from engine.tool_calls.styles import MISTRAL
from engine.values.sampling import AcceptanceRule
from engine.wire import capabilities_from_json, capabilities_to_json
from tests.support.fake_engine import CAPABILITIES

LESS = replace(
    CAPABILITIES,
    rules=(AcceptanceRule.GREEDY,),
    controllers=(Control.AUTO,),
    sampling=frozenset({"temperature"}),
    rounds=False,
    tokens=False,
    grammars=True,
    calls=MISTRAL,
    unavailable=(),
)


@pytest.mark.parametrize("found", [CAPABILITIES, LESS], ids=["all", "less"])
def test_they_come_back_as_they_were(found: object) -> None:
    assert found in (CAPABILITIES, LESS)
    told = json.loads(json.dumps(capabilities_to_json(found)))  # type: ignore[arg-type]
    assert capabilities_from_json(told) == found


def test_what_is_new_is_left_out() -> None:
    told = capabilities_to_json(CAPABILITIES)
    told["rules"] = [*told["rules"], "a rule to come"]
    told["sampling"] = [*told["sampling"], "a field to come"]
    told["controllers"] = [*told["controllers"], "a controller to come"]
    told["more"] = 1
    told["calls"] = {**capabilities_to_json(LESS)["calls"], "a string to come": "]"}
    told["unavailable"] = [{"name": "eagle9", "reason": "It is not loaded.", "a mark to come": 1}]
    told["proposers"][0]["options"] = [
        {"name": "x", "kind": "list", "default": [], "help": "", "choices": []},
        {"name": "y", "kind": "int", "default": 1, "help": "", "choices": []},
    ]
    found = capabilities_from_json(told)
    assert found.proposers[0].options == (OptionInfo("y", int, 1, ""),)
    assert found.calls == MISTRAL
    assert found.unavailable == (Unavailable("eagle9", "It is not loaded."),)
    plain = replace(
        found,
        proposers=(replace(found.proposers[0], options=()), *found.proposers[1:]),
        calls=CAPABILITIES.calls,
        unavailable=CAPABILITIES.unavailable,
    )
    assert plain == CAPABILITIES
