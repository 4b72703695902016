"""Web pages by address: their text with its source, in bounded time, and nothing of private networks."""

from __future__ import annotations

import gzip
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.documents import web
from app.documents.web import PrivateAddress, fetch_page
from engine.errors import InvalidRequest
from tests.support import documents as made

PAGE = f"<title>Foxes</title><nav>Home</nav><main><p>{'They are red. ' * 40}</p></main>".encode()
BOMB = gzip.compress(bytes(17 << 20))


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, rest = self.path.partition("?")
        match path:
            case "/page":
                self.answer(200, PAGE, "text/html; charset=utf-8")
            case "/packed":
                self.answer(200, gzip.compress(PAGE), "text/html", {"Content-Encoding": "gzip"})
            case "/bomb":
                self.answer(200, BOMB, "text/html", {"Content-Encoding": "gzip"})
            case "/pdf":
                self.answer(200, made.pdf(["One", "Two"]), "application/pdf")
            case "/to":
                self.answer(302, b"", "text/html", {"Location": rest})
            case "/cut":
                self.answer(200, PAGE[:99], "text/html", {"Content-Length": str(len(PAGE))})
            case "/packed-cut":
                packed = gzip.compress(PAGE)[:-9]
                self.answer(200, packed, "text/html", {"Content-Encoding": "gzip"})
            case "/negative":
                self.answer(200, b"-5\r\nhello", "text/html", {"Transfer-Encoding": "chunked"})
            case "/again":
                self.answer(302, b"", "text/html", {"Location": "/again"})
            case "/slow":
                self.send_response(200)
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b"x")
                    time.sleep(0.1)
            case _:
                self.answer(404, b"No", "text/plain")

    def answer(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client left
            self.close_connection = True


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_page_s_main_text_comes_with_its_title_and_source(site: str) -> None:
    for path in ("page", "packed", "to?/page", f"to?{site}/page"):
        found = fetch_page(f"{site}/{path}", private=True).attachment
        assert found.name == "Foxes"
        assert found.text.startswith("They are red.") and "Home" not in found.text
        assert found.source == f"{site}/{'packed' if path == 'packed' else 'page'}"
    assert fetch_page(f"{site}/pdf", private=True).attachment.pages == ("One", "Two")


def test_private_networks_are_read_only_where_their_number_was_typed(site: str) -> None:
    with pytest.raises(
        PrivateAddress, match=r"127\.0\.0\.1 is on this machine or in a private network"
    ):
        fetch_page(f"{site}/page")
    port = site.rpartition(":")[2]
    for other in (
        f"http://localhost:{port}/page",
        "http://[::1]/",
        "http://169.254.169.254/latest",
    ):
        with pytest.raises(PrivateAddress):
            fetch_page(f"{site}/to?{other}", private=True)


@pytest.mark.parametrize(
    "number",
    """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 ::1 ::
    fe80::1 fc00::1 fec0::1 ::127.0.0.1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1
    255.255.255.255""".split(),
)
def test_a_name_that_leads_into_a_private_network_is_refused(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One public number beside it, as DNS rebinding has it, changes nothing; nor does the permission."""
    found = [(0, 0, 0, "", (each, 0)) for each in ("93.184.216.34", number)]
    monkeypatch.setattr(web.socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(PrivateAddress):
        fetch_page("http://example.org/", private=True)


def test_the_number_that_was_checked_is_the_one_that_is_read(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked up again, the name could lead elsewhere by then (DNS rebinding)."""
    asked: list[object] = []

    def connect(address: tuple[str, int], timeout: float) -> object:
        asked.append(address)
        raise ConnectionRefusedError

    found = [(0, 0, 0, "", ("93.184.216.34", 0))]
    monkeypatch.setattr(web.socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(web.socket, "create_connection", connect)
    with pytest.raises(InvalidRequest, match="the connection failed"):
        fetch_page("http://example.org:8080/")
    assert asked == [("93.184.216.34", 8080)]


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = shutil.which("openssl") and subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"], check=False, capture_output=True,
    )  # fmt: skip
    if not made or made.returncode:
        pytest.skip("openssl makes no certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        with pytest.raises(InvalidRequest, match="its certificate or encryption was rejected"):
            fetch_page(f"https://127.0.0.1:{server.server_port}/page", private=True)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("none", "the server answered 404 Not Found"),
        ("again", "it redirects more than 5 times"),
        ("to?ftp://example.org/x", "is not a web address"),
        ("to?file:///etc/passwd", "is not a web address"),
        ("bomb", "it is larger than 16 MB"),
        ("slow", "it takes too long"),
        ("cut", "it ended early"),
        ("packed-cut", "it ended early"),
        ("negative", "the connection failed"),
        ("to?http://[", "is not a web address"),
    ],
)
def test_what_a_server_does_wrong_is_said_in_time(site: str, path: str, told: str) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidRequest, match=told):
        fetch_page(f"{site}/{path}", private=True, seconds=1.0 if path == "slow" else 20.0)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://a:b@c/",
        "http://[x",
        "http://127.0.0.1:0/",
        "http://example.org/" + "x" * 60_000,
    ],
)
def test_only_addresses_of_web_pages_are_taken(address: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a web address") as caught:
        fetch_page(address)
    assert len(str(caught.value)) < 400


def test_a_server_that_is_not_there_is_said(site: str) -> None:
    with pytest.raises(InvalidRequest, match=r"the connection failed|its name is unknown"):
        fetch_page("http://127.0.0.1:1/", private=True)
    with pytest.raises(InvalidRequest, match="the connection failed") as caught:
        fetch_page("http://127.0.0.1:1/" + "x" * 4000, private=True)
    assert len(str(caught.value)) < 400
