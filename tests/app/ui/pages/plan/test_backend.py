"""What the plan page asks, without a browser."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from app.ui.pages.plan.backend import PlanBackend
from engine.errors import InvalidRequest, OutOfMemory
from tests.app.cli.conftest import Foretoken, foretoken

__all__ = ["foretoken"]

CHOSEN = {
    "target": "llama-3.1-8b",
    "gpus": "2xH100",
    "engine": "trtllm",
    "method": "eagle3",
    "users": "4",
    "depth": "",
    "context": "2048",
    "acceptance": "0.6",
    "draft": " ",
}


@pytest.fixture
def backend(tmp_path: Path) -> PlanBackend:
    return PlanBackend(tmp_path)


def test_every_engine_is_offered_with_its_methods(backend: PlanBackend) -> None:
    offer = backend.offer()
    json.dumps(offer)
    of_sglang = {each["id"] for each in offer["methods"] if "sglang" in each["engines"]}
    assert {"eagle3", "ngram"} <= of_sglang
    assert "medusa" not in of_sglang
    assert "medusa" not in {each["id"] for each in offer["methods"] if "sglang" in each["engines"]}


def test_a_plan_is_made_and_its_command_makes_the_same(
    backend: PlanBackend, foretoken: Foretoken
) -> None:
    made = backend.make(CHOSEN)
    command = made.pop("command")
    assert made["users"] == 4
    assert made["assumptions"]["acceptance"] == 0.6
    again = foretoken(*shlex.split(command)[1:], "--json")
    assert again.last_json == made


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"users": "many"}, "many"),
        ({"target": ""}, "model"),
        ({"gpus": "1xZ80"}, "Z80"),
        ({"target": "nonsense"}, r"Known: (\S+, ){4}\S+ and \d+ more\."),
    ],
)
def test_what_is_no_choice_is_told(backend: PlanBackend, wrong: dict, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        backend.make({**CHOSEN, **wrong})


def test_what_does_not_fit_is_told_with_what_would(backend: PlanBackend) -> None:
    with pytest.raises(OutOfMemory, match="What would fit"):
        backend.make({"target": "llama-3.1-405b", "gpus": "8xH100"})
