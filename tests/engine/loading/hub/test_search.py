"""The hub is searched for repositories, and the catalog compared with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.errors import DownloadError, InvalidRequest
from engine.loading.hub import repository
from engine.loading.hub.repository import Hit, compare_catalog, search
from engine.loading.specs import ModelSpec
from tests.support.hub_server import HostedRepository, HubServer

TALE = {"Tale-Q4_K_M.gguf": bytes(800), "Tale-Q8_0.gguf": bytes(1500)}


def test_repositories_are_found_by_words_the_most_downloaded_first(server: HubServer) -> None:
    few = HostedRepository(TALE, downloads=20, likes=3)
    many = HostedRepository(TALE, downloads=7_500, gated=True)
    server.repositories |= {"a/Tale-7B-GGUF": few, "b/tale-7b-it-GGUF": many}
    server.repositories["c/Tale-7B"] = HostedRepository({"model.safetensors": b"x"}, downloads=9)
    assert search("  tale 7b ") == (
        Hit("b/tale-7b-it-GGUF", 7_500, 0, True),
        Hit("a/Tale-7B-GGUF", 20, 3, False),
    )
    assert search("nothing like it") == ()
    with pytest.raises(InvalidRequest, match="Enter part of a model's name"):
        search("  ")


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that takes one connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:

        def serve() -> None:
            connection, _ = taken.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        thread.join(5)


def other_json(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"a": [1,2]}')


def silence(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (silence, r"cannot be reached, so the search for 'tale' failed\. Check"),
        (other_json, "did not answer like the Hugging Face hub"),
    ],
)
def test_a_search_that_fails_ends_and_says_what_to_do(
    server: HubServer,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[socket.socket], None],
    said: str,
) -> None:
    monkeypatch.setattr(repository, "ANSWER_S", 0.3 if answer is silence else 60.0)
    with listening(answer) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        with pytest.raises(DownloadError, match=said):
            search("tale")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="cannot be reached"):
        search("tale")


def test_what_the_hub_has_otherwise_than_the_catalog_is_told(server: HubServer) -> None:
    server.repositories["a/Tale-GGUF"] = HostedRepository(TALE)
    server.repositories["a/gated"] = HostedRepository({"config.json": b"{}"}, gated=True)
    right = ModelSpec(
        id="tale:Q4_K_M", name="Tale", repository="a/Tale-GGUF", file="Tale-Q4_K_M.gguf", bytes=790
    )
    files = (
        right,
        replace(right, id="tale:Q8_0", file="Tale-Q8_0.gguf", bytes=700),
        replace(right, id="tale:Q2_K", file="Tale-Q2_K.gguf"),
        replace(right, id="tale:safetensors", repository="a/gated", file=""),
    )
    head = ModelSpec(id="tale:eagle3", name="Head", repository="a/head", method="eagle3")
    tale = replace(right, id="tale", files=files, drafters=(head,))

    def absent(name: str) -> str:
        where = f"There is no repository {name} at {server.url}."
        return f"{where} Check the name (owner/name, case-sensitive)."

    assert list(compare_catalog([tale], ["owner/tiny", "a/plan"])) == [
        f"a/plan: {absent('a/plan')}",
        "tale:Q8_0: a/Tale-GGUF has 1,500 bytes there, not about 700.",
        "tale:Q2_K: a/Tale-GGUF has no Tale-Q2_K.gguf.",
        "tale:safetensors: a/gated is gated.",
        "tale:safetensors: a/gated has no model in safetensors.",
        f"a/head: {absent('a/head')}",
    ]


def test_without_a_hub_nothing_is_compared(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="cannot be reached"):
        list(compare_catalog((), ["a/plan"]))
