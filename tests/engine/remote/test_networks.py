"""Servers behind TLS and behind a proxy: what the environment says of both counts, and what is wrong is
told."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from engine.api import LoadRequest
from engine.events import Finished
from engine.remote import connection, errors
from engine.remote.engine import RemoteEngine
from engine.remote.errors import ServerError
from engine.request import Request, Speculation
from engine.values.messages import Message
from tests.support.model_server import Played, playing, said, sse

ASKED = Request(messages=(Message("user", "Hi"),), speculation=Speculation(proposer="server"))
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def own_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Certificates are read once, and proxies are those of whoever runs the tests."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(errors, "BACKOFF_S", 0.001)
    connection._certificates.cache_clear()
    yield
    connection._certificates.cache_clear()


def said_by(url: str) -> str:
    """A reply of the server there."""
    with closing(RemoteEngine(key_of=lambda address: "secret")) as engine:
        engine.load(LoadRequest(target=url))
        last = list(engine.generate(ASKED))[-1]
    assert isinstance(last, Finished), last
    return last.text


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """One that 127.0.0.1 gave itself, with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file = tmp_path / "server.pem"
    file.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, pkcs8, plain))
    return file


def test_tls_is_checked_by_the_authorities_that_the_environment_names(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with playing(Played(stream=sse(*said("Yes"))), context) as played:
        with pytest.raises(ServerError, match="does not trust the certificate") as told:
            said_by(played.url)
        assert "SSL_CERT_FILE" in str(told.value)
        assert not played.asked  # no key was sent
        connection._certificates.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert said_by(played.url) == "Yes"
        assert {each.key for each in played.asked} == {"secret"}


def test_https_where_there_is_none_is_told() -> None:
    with playing(Played()) as played:
        url = played.url.replace("http:", "https:")
        with pytest.raises(ServerError, match="Is it http:// instead of https://"):
            said_by(url)


def test_a_proxy_is_used_for_other_machines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"data": [{"id": "far", "owned_by": "someone"}]}
    far = "http://gpu.invalid:8000"
    played = Played(found={f"{far}/v1/models": listed}, stream=sse(*said("Yes")))
    with playing(played) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert said_by(far) == "Yes"
        assert len(played.posted(f"{far}/v1/chat/completions")) == 1
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # nobody is there
    with playing(Played(stream=sse(*said("Here")))) as here:
        assert said_by(here.url) == "Here"
    with pytest.raises(ServerError, match="through the proxy"):
        said_by(far)
    monkeypatch.setenv("NO_PROXY", "gpu.invalid")
    with pytest.raises(ServerError, match="are host and port right") as told:
        said_by(far)
    assert "proxy" not in str(told.value)
