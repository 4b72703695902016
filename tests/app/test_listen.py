"""Taking a port, or the next free one."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.web.listen import CannotListen, is_loopback, listen


def test_a_free_port_is_taken_as_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    listener = listen("127.0.0.1", port)
    with listener.socket:
        assert listener.port == port
        assert not listener.moved
        assert listener.url == f"http://127.0.0.1:{port}"


def test_other_devices_open_the_addresses_in_their_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def card(address: str, family: int = socket.AF_INET) -> SimpleNamespace:
        return SimpleNamespace(address=address, family=family)

    cards = {
        "lo": [card("127.0.0.1")],
        "eth0": [card("192.168.1.5"), card("fe80::1", socket.AF_INET6), card("169.254.3.4")],
        "wlan0": [card("10.0.0.7")],
    }
    monkeypatch.setattr("psutil.net_if_addrs", lambda: cards)
    for host, places in (("0.0.0.0", ("192.168.1.5", "10.0.0.7")), ("127.0.0.1", ())):
        listener = listen(host, 0)
        with listener.socket:
            elsewhere = tuple(f"http://{place}:{listener.port}" for place in places)
            assert listener.urls_elsewhere == elsewhere


def test_files_that_are_no_certificate_are_refused_before_anything_listens(tmp_path: Path) -> None:
    empty = tmp_path / "cert.pem"
    with pytest.raises(CannotListen, match="not a certificate and its key"):
        listen("127.0.0.1", 0, certificate=(empty, empty))
    empty.touch()
    with pytest.raises(CannotListen, match="not a certificate and its key"):
        listen("127.0.0.1", 0, certificate=(empty, empty))


def test_a_taken_port_gives_the_next_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listener = listen("127.0.0.1", port)
        with listener.socket:
            assert listener.port > port
            assert listener.moved


def test_two_listeners_never_share_a_port() -> None:
    first = listen("127.0.0.1", 0)
    with first.socket:
        second = listen("127.0.0.1", first.port)
        with second.socket:
            assert second.port != first.port


def test_port_zero_lets_the_system_choose_and_is_no_move() -> None:
    listener = listen("127.0.0.1", 0)
    with listener.socket:
        assert listener.port > 0
        assert not listener.moved


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio sets TCP_NODELAY only where the protocol is named: each request once took 40 ms more."""

    async def nodelay() -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            done.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(accepted, sock=listener.socket):
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.close()
            return await done

    assert asyncio.run(nodelay())


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(CannotListen, match="does not exist"):
        listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(CannotListen, match="--host"):
        listen("192.0.2.1", 0)


def test_a_name_that_is_no_address_is_refused() -> None:
    with pytest.raises(CannotListen, match="--host"):
        listen("no such host", 0)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.7", False),
        ("example.org", False),
    ],
)
def test_loopback_is_this_machine_only(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_listening_everywhere_shows_an_address_that_opens() -> None:
    listener = listen("0.0.0.0", 0)
    with listener.socket:
        assert listener.url == f"http://127.0.0.1:{listener.port}"
        assert not listener.loopback
