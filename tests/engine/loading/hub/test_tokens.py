"""Where the access token is kept, and that it is sent."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from engine.errors import InvalidRequest, TokenNeeded
from engine.loading.hub.fetch import download
from engine.loading.hub.repository import look_up, search
from engine.machine.secrets import SecretSource, hub_token
from tests.engine.loading.hub.conftest import SPEC, failure
from tests.support.hub_server import HostedRepository, HubServer


def test_without_a_keyring_it_is_in_a_file_that_only_its_owner_reads(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.gated = True
    with pytest.raises(TokenNeeded):
        download(SPEC, models)
    assert hub_token().store(f" {repository.token}\n") is SecretSource.FILE
    assert stat.S_IMODE(hub_token().file.stat().st_mode) == 0o600
    assert download(SPEC, models)
    assert hub_token().delete() and not hub_token().delete()
    assert hub_token().get() == (None, SecretSource.NOWHERE)


def test_with_a_keyring_there_is_no_file(
    server: HubServer, repository: HostedRepository, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.private = True
    hub_token().store("hf_old")  # before there was a keyring
    kept: dict[tuple[str, str], str] = {}
    ring = ModuleType("keyring")
    ring.get_password = lambda *place: kept.get(place)  # type: ignore[attr-defined]
    ring.set_password = lambda *given: kept.update({given[:2]: given[2]})  # type: ignore[attr-defined]
    ring.delete_password = lambda *place: kept.pop(place)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    assert hub_token().store(repository.token) is SecretSource.KEYRING
    assert not hub_token().file.exists()
    assert hub_token().get() == (repository.token, SecretSource.KEYRING)
    assert download(SPEC, models)
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    assert hub_token().get() == ("hf_environment", SecretSource.ENVIRONMENT)
    assert hub_token().delete() and not kept


def test_what_is_no_token_is_refused(server: HubServer) -> None:
    for text in ("", "  ", "two words", "hf_ü"):
        with pytest.raises(InvalidRequest, match="not an access token"):
            hub_token().store(text)
    assert not hub_token().file.exists()


@pytest.mark.parametrize(
    "ask", [lambda models: download(SPEC, models), lambda _: look_up("o/n"), lambda _: search("x")]
)
def test_a_variable_that_no_header_can_hold_is_refused_by_name(
    server: HubServer, models: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Path], object]
) -> None:
    """It was an error of Python's encoder, and a search blamed HF_ENDPOINT."""
    monkeypatch.setenv("HF_TOKEN", "hf_ü")
    with pytest.raises(InvalidRequest, match="HF_TOKEN: This is not an access token"):
        ask(models)


def test_a_private_repository_asks_for_a_token_and_a_missing_one_does_not(
    server: HubServer, repository: HostedRepository, models: Path
) -> None:
    repository.private = True
    with pytest.raises(TokenNeeded, match="private"):
        download(SPEC, models)
    del server.repositories["owner/tiny"]
    assert "Check the name" in failure(models)
