"""Addresses as people write them, and servers in a catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.paths import catalog_file
from engine.errors import CatalogError, IncompatiblePair, InvalidRequest
from engine.loading.catalog import load_catalog
from engine.loading.request import LoadRequest
from engine.values.address import Address, is_address

OFFICE = """servers:
  - id: office
    name: The office's vLLM
    address: https://gpu.office:8000/v1
    model: org/model:8b
"""


@pytest.mark.parametrize(
    ("text", "root", "model"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", ""),
        ("127.0.0.1:8000/v1/", "http://127.0.0.1:8000", ""),
        ("gpu.office:8000", "http://gpu.office:8000", ""),
        ("HTTPS://Host.Example/api/v1#org/m:8b", "https://host.example/api", "org/m:8b"),
        ("http://[::1]:11434/#qwen2.5:0.5b", "http://[::1]:11434", "qwen2.5:0.5b"),
    ],
)
def test_an_address_is_read_and_written_again(text: str, root: str, model: str) -> None:
    found = Address.parse(text)
    assert (found.root, found.model, found.api) == (root, model, f"{root}/v1")
    assert Address.parse(found.text) == found


def test_another_version_of_the_api_stays_where_it_is() -> None:
    """OpenVINO Model Server was asked at /v3/v1."""
    found = Address.parse("http://127.0.0.1:8000/v3/#OpenVINO/Qwen3-8B-int4-ov")
    assert found.api == found.root == "http://127.0.0.1:8000/v3"
    assert Address.parse(found.text) == found


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://",
            "http://user:pw@host",
            "http://host:99999",
            "http://a b",
            "http://h/?k=1",
            "#m",
        ),
        *("http://☃.invalid", "http://a..b", "999.1.1.1", "h/\x01"),
        *("ftp://user:pw@host", "http:/user:pw@host:80"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_a_password(text: str) -> None:
    with pytest.raises(InvalidRequest, match="address") as caught:
        Address.parse(text)
    assert "pw" not in str(caught.value)


def test_what_is_sent_in_the_open_is_known() -> None:
    opened = [
        url for url in ("http://h", "https://h", "http://localhost") if Address.parse(url).is_open
    ]
    assert opened == ["http://h"]


def test_a_request_may_name_an_address(tmp_path: Path) -> None:
    assert is_address(" http://x") and not is_address("pip::http://x")
    request = LoadRequest.parse("http://[::1]:8000#a::b")
    assert (request.target, request.draft, request.heads) == ("http://[::1]:8000#a::b", None, ())
    catalog = load_catalog(catalog_file())
    target = catalog.named(request).target
    assert (target.address, target.name) == (
        request.target.replace("::b", "::b"),
        "a::b on [::1]:8000",
    )
    for wrong in (
        LoadRequest(target="http://h", draft="pip-draft"),
        LoadRequest(target="http://h", heads=("head",)),
        LoadRequest(target="pip", draft="http://h"),
    ):
        with pytest.raises(IncompatiblePair, match="cannot draft for"):
            catalog.named(wrong)


def test_a_catalog_may_hold_servers(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OFFICE)
    catalog = load_catalog(catalog_file(), own)
    (server,) = catalog.servers
    pairing = catalog.named(LoadRequest(target="office"))
    assert pairing.target is server and pairing.name == "The office's vLLM"
    assert Address.parse(server.address) == Address("https://gpu.office:8000", "org/model:8b")
    assert server not in catalog.models  # nothing is downloaded, compared or reckoned
    own.write_text(OFFICE.replace("https://gpu.office:8000/v1", "https://me:pw@host"))
    with pytest.raises(CatalogError, match=r"line 4, key 'servers\[0\].address'"):
        load_catalog(catalog_file(), own)
