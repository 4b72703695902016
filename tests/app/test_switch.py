"""The endpoint's switch."""

from __future__ import annotations

import pytest

from app.switch import ApiKeyMissing, ApiSwitch


def test_the_endpoint_is_off_until_somebody_switches_it_on() -> None:
    switch = ApiSwitch()
    assert not switch.on
    switch.set(True)
    assert switch.on


def test_beyond_this_machine_the_endpoint_needs_a_key() -> None:
    with pytest.raises(ApiKeyMissing, match="--api-key"):
        ApiSwitch(True, needs_key=True)
    switch = ApiSwitch(needs_key=True)
    with pytest.raises(ApiKeyMissing):
        switch.set(True)
    assert not switch.on


def test_with_a_key_the_endpoint_opens_beyond_this_machine() -> None:
    assert ApiSwitch(True, api_key="k", needs_key=True).on
