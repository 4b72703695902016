"""The endpoint's switch, its key and its origins."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from app.main import Settings, switch_of
from app.settings import preferences
from app.settings.preferences import EndpointSettings
from app.web.switch import ApiKeyMissing, ApiSwitch, origin_of
from engine.errors import ForetokenError, InvalidRequest


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


def test_what_is_set_counts_at_the_next_start_and_is_read_by_its_owner_alone(
    tmp_path: Path,
) -> None:
    switch, made_up = switch_of(Settings(), tmp_path)
    assert (switch.on, switch.api_key, made_up) == (False, None, None)
    switch.set(True)
    switch.make_key()
    switch.allow_origin("http://LOCALHOST:3000/")
    again, _ = switch_of(Settings(), tmp_path)
    assert again.on
    assert again.api_key == switch.api_key
    assert len(again.api_key or "") > 20
    assert again.allows("http://localhost:3000")
    assert not again.allows("http://localhost:3001")
    if os.name != "nt":
        assert (tmp_path / preferences.ENDPOINT).stat().st_mode & 0o777 == 0o600
    without_pages, _ = switch_of(Settings(pages=False, api=True), tmp_path)
    assert without_pages.api_key is None


def test_beyond_this_machine_a_kept_key_counts_and_a_kept_switch_does_not(tmp_path: Path) -> None:
    kept = EndpointSettings(on=True, key="kept-key")
    preferences.change_endpoint(tmp_path, lambda _: kept)
    switch, made_up = switch_of(Settings(host="0.0.0.0"), tmp_path)
    assert (switch.on, switch.api_key, made_up) == (False, "kept-key", None)
    with pytest.raises(ApiKeyMissing):
        switch.remove_key()
    preferences.change_endpoint(tmp_path, lambda _: EndpointSettings())
    switch, made_up = switch_of(Settings(host="0.0.0.0"), tmp_path)
    assert made_up is not None
    assert switch.api_key == made_up


def test_what_was_given_at_the_start_is_not_changed_and_not_kept(tmp_path: Path) -> None:
    given = Settings(api_key="given", origins=("https://given.example/",))
    switch, _ = switch_of(given, tmp_path)
    for change in (switch.make_key, switch.remove_key, lambda: switch.set_key("another-one")):
        with pytest.raises(InvalidRequest, match="--api-key"):
            change()
    with pytest.raises(InvalidRequest, match="--allow-origin"):
        switch.forbid_origin("https://given.example")
    switch.allow_origin("https://given.example")
    switch.allow_origin("https://other.example")
    kept = preferences.read_endpoint(tmp_path)
    assert kept == EndpointSettings(origins=("https://other.example",))


def test_of_two_apps_with_one_folder_neither_undoes_what_the_other_changed(tmp_path: Path) -> None:
    """A key that was replaced, because it leaked, came back when the other app changed an origin."""
    first, _ = switch_of(Settings(), tmp_path)
    first.set_key("leaked-key")
    second, _ = switch_of(Settings(), tmp_path)
    exposed, _ = switch_of(Settings(host="0.0.0.0"), tmp_path)
    first.make_key()
    first.allow_origin("http://first.example")
    second.allow_origin("http://second.example")
    kept = preferences.read_endpoint(tmp_path)
    assert kept.key == second.api_key == first.api_key != "leaked-key"
    assert kept.origins == ("http://first.example", "http://second.example")
    second.remove_key()
    exposed.set(True)  # it is never open to the network without a key
    assert exposed.api_key == "leaked-key"
    assert preferences.read_endpoint(tmp_path).key is None


@pytest.mark.parametrize(
    "text", ["", "*", "https://*.example", "null", "localhost:3000", "http://["]
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not an origin"):
        origin_of(text)


def test_what_cannot_be_kept_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / preferences.ENDPOINT).mkdir()
    switch, _ = switch_of(Settings(), tmp_path)
    with pytest.raises(ForetokenError):
        switch.make_key()
    assert switch.api_key is None


@pytest.mark.parametrize("text", ["", "[]", "null", '{"key": 5}', '{"origins": [1]}', "nonsense"])
def test_a_broken_file_is_told_and_means_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / preferences.ENDPOINT).write_text(text)
    with caplog.at_level(logging.WARNING):
        assert preferences.read_endpoint(tmp_path) == EndpointSettings()
    assert preferences.ENDPOINT in caplog.text
