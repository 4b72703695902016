"""Requests check themselves: every bad value names its field, and says what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.request import Request, Speculation
from engine.values import MAX_DEPTH
from engine.values.messages import Message
from engine.values.sampling import AcceptanceRule, Sampling
from engine.values.tools import json_object

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", (-0.1, 5.1, NAN, INFINITE)),
        ("top_k", (-1,)),
        ("top_p", (0.0, -0.5, 1.01, NAN)),
        ("min_p", (-0.1, 1.0, NAN)),
        ("repetition_penalty", (0.0, -1.0, 10.5, NAN, INFINITE)),
        ("presence_penalty", (-2.1, 2.1, NAN, INFINITE)),
        ("frequency_penalty", (-2.1, 2.1, NAN, -INFINITE)),
        ("seed", (2**64, -(2**63) - 1)),
    ],
)
def test_a_bad_sampling_value_names_its_field(field: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidRequest, match=field) as caught:
            Sampling(**{field: value})  # type: ignore[arg-type]
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", (0.0, 5.0)),
        ("top_k", (0, 1, 10**6)),
        ("top_p", (1e-9, 1.0)),
        ("min_p", (0.0, 0.999)),
        ("repetition_penalty", (1e-3, 10.0)),
        ("presence_penalty", (-2.0, 2.0)),
        ("seed", (None, 0, -(2**63), 2**64 - 1)),
    ],
)
def test_the_borders_of_what_is_allowed_are_allowed(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        assert getattr(Sampling(**{field: value}), field) == value


@pytest.mark.parametrize("depth", [0, -1, MAX_DEPTH + 1, 99])
def test_a_depth_that_cannot_be_verified_at_once_is_refused(depth: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"depth is {depth}; it must be 1 to 15") as caught:
        Speculation(depth=depth)
    assert caught.value.field == "depth"


def test_depth_0_is_fine_where_nothing_is_drafted() -> None:
    assert Speculation(proposer="none", depth=0).depth == 0


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("messages", {}),
        ("messages", {"prompt": "a", "token_ids": (1,)}),
        ("messages", {"prompt": "a", "messages": (Message("user", "b"),)}),
        ("messages", {"messages": (Message("user", "  \n"),)}),
        ("max_tokens", {"prompt": "a", "max_tokens": 0}),
        ("max_tokens", {"prompt": "a", "max_tokens": -5}),
        ("stop", {"prompt": "a", "stop": ("x", "")}),
    ],
)
def test_a_bad_request_names_its_field(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=field) as caught:
        Request(**values)
    assert caught.value.field == field


def test_the_message_begins_with_the_field_and_gives_the_value() -> None:
    with pytest.raises(InvalidRequest, match=r"^top_p is 1\.5; it must be above 0 and at most 1"):
        Sampling(top_p=1.5)


def test_greedy_with_a_temperature_is_refused() -> None:
    """The temperature was ignored in silence."""
    greedy = Speculation(acceptance=AcceptanceRule.GREEDY)
    with pytest.raises(InvalidRequest, match=r"^acceptance is 'greedy'.* the temperature is 0\.8"):
        Request(prompt="a", speculation=greedy, sampling=Sampling(temperature=0.8))
    assert Request(prompt="a", speculation=greedy).sampling.temperature == 0


def test_requests_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Request(prompt="a").max_tokens = 5  # type: ignore[misc]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "-1e999"])
def test_what_cannot_be_written_again_as_json_is_none(number: str) -> None:
    assert json_object(f'{{"a": [{number}]}}') is None
    assert json_object('{"a": [1e99]}') == {"a": [1e99]}
