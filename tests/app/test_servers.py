"""Servers in people's own catalog: kept, found again, and taken out without touching their own lines."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from app import paths, servers
from app.inventory import open_inventory, own_catalog
from app.loading import LoadState
from app.runtime import create_runtime
from app.ui.pages.models.servers import ServersBackend
from engine.api import LoadRequest
from engine.errors import CatalogError, InvalidRequest
from engine.machine.secrets import server_key
from engine.values.address import Address
from tests.support.model_server import Played, playing

PLACE = Address.parse("http://127.0.0.1:8000")
WRITTEN = """# mine
servers:
  # the one at work
  - id: office  # fast
    name: Office
    address: https://gpu.office
  # the one at home
  - id: home
    name: Home
    address: http://home:1234

pairs: []
"""


@pytest.fixture(autouse=True)
def _no_keys_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("FORETOKEN_SERVER_KEYS", str(tmp_path / "keys"))


def test_what_is_kept_is_found_and_forgotten_with_its_key(tmp_path: Path) -> None:
    small = servers.keep(tmp_path, PLACE, "org/small")
    assert servers.keep(tmp_path, PLACE, "org/small") == small
    large = servers.keep(tmp_path, PLACE, "org/large")
    server_key(PLACE).store("secret")
    kept = {each.id: each for each in open_inventory(tmp_path).catalog.servers}
    assert set(kept) == {small, large}
    assert Address.parse(kept[small].address) == Address(PLACE.root, "org/small")
    servers.forget(tmp_path, kept[small])
    assert server_key(PLACE).get()[0] == "secret"  # the other one needs it
    servers.forget(tmp_path, kept[large])
    assert server_key(PLACE).get()[0] is None and open_inventory(tmp_path).catalog.servers == ()
    with pytest.raises(InvalidRequest, match="is not in"):
        servers.forget(tmp_path, kept[large])


def test_only_an_entrys_own_lines_go(tmp_path: Path) -> None:
    file = paths.own_catalog(tmp_path)
    file.write_text(WRITTEN)
    assert own_catalog.remove(file, paths.catalog_file(), "servers", "office")
    own = ("office", "Office")
    assert file.read_text().splitlines() == [
        line for line in WRITTEN.splitlines() if not any(word in line for word in own)
    ]
    assert not own_catalog.remove(file, paths.catalog_file(), "servers", "office")
    assert own_catalog.remove(file, paths.catalog_file(), "servers", "home")
    assert [each.id for each in open_inventory(tmp_path).catalog.servers] == []
    file.write_text("servers: [{id: a, name: A, address: 'http://a'}]\n")
    with pytest.raises(CatalogError, match="by hand"):
        own_catalog.remove(file, paths.catalog_file(), "servers", "a")


def test_a_server_is_asked_with_the_key_that_is_given_or_kept() -> None:
    with playing(Played(key="right")) as played:
        place = Address.parse(played.url)
        assert servers.look(place, "right ").models[0].id == "small"
        server_key(place).store("right")
        assert servers.look(place).models[0].id == "small"


def test_only_a_server_that_could_be_connected_to_is_kept(tmp_path: Path) -> None:
    """It stayed in the list of known servers, where each click failed again."""
    with closing(create_runtime(tmp_path, LoadRequest(target="pip"))) as runtime:
        backend = ServersBackend(runtime)

        def connect(url: str, model: str) -> LoadState:
            asked = {"address": url, "model": model, "key": "secret"}
            backend.connect(asked)
            end = time.monotonic() + 60
            while runtime.loader.working and time.monotonic() < end:
                time.sleep(0.01)
            return runtime.loader.status.state

        with playing(Played(key="secret")) as played:
            assert connect(played.url, "large") is LoadState.FAILED
            assert backend.servers()["servers"] == []
            assert server_key(Address.parse(played.url)).get()[0] is None
            server_key(Address.parse(played.url)).store("earlier")
            assert connect(played.url, "large") is LoadState.FAILED
            assert (
                server_key(Address.parse(played.url)).get()[0] == "earlier"
            )  # it went with what failed
            assert connect(played.url, "small") is LoadState.READY
            assert connect(played.url, "large") is LoadState.FAILED
            played.models = ()
            assert connect(played.url, "small") is LoadState.FAILED  # it is known from before
            assert [each["name"][:5] for each in backend.servers()["servers"]] == ["small"]
            assert server_key(Address.parse(played.url)).get()[0] == "secret"
