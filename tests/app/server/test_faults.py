"""What goes wrong around a request, and that it goes wrong for this request alone."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.server.fields import schemas as reading
from app.ui.uploads import IMPORT, uploads
from app.web import connections
from engine.api import LoadRequest
from engine.errors import OutOfMemory
from engine.request import Request
from tests.support.fake_engine import FakeEngine, Script
from tests.support.serving import Served, fake_runtime, served

CHAT = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "Hello"}]}
WORDS = tuple(f" word{n}" for n in range(4000))


class Faulty(FakeEngine):
    """Recites words without end, or fails as the question asks: ``raise``, ``memory``, ``prompt``."""

    def __init__(self) -> None:
        super().__init__(self.reply, seconds_a_round=0.002)

    def reply(self, request: Request) -> Script:
        asked = request.messages[-1].content
        if asked == "raise":
            raise RuntimeError("the kernel failed")
        if asked == "memory":
            raise OutOfMemory("The model does not fit. Close something.")
        return Script(WORDS if asked == "long" else ["Fine", "."])

    def generate(self, request: Request) -> Any:
        if request.messages and request.messages[-1].content == "prompt":
            raise RuntimeError("the tokenizer failed")
        return super().generate(request)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runtime = fake_runtime(tmp_path_factory.mktemp("data"), Faulty())
    runtime.engine.load(LoadRequest(target="pip"))
    with served(runtime) as running:
        yield running


@pytest.fixture(autouse=True)
def next_one_succeeds(server: Served, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After every fault."""
    yield
    until(lambda: not server.runtime.engine.busy)
    until(lambda: not server.app.state.queue.tickets)
    with server.client() as http:
        reply = http.post(CHAT, json=ASK)
        assert reply.json()["choices"][0]["message"]["content"] == "Fine."


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.005)


def asked(words: str, **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": words}], **more}


def head(body: bytes | None, length: int, path: str = CHAT) -> bytes:
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", "", "")
    return "\r\n".join(lines).encode() + (body or b"")


def connected(server: Served) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    return found


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    ("fault", "told"),
    [("raise", "the kernel failed"), ("memory", "does not fit"), ("prompt", "RuntimeError")],
)
@pytest.mark.parametrize("stream", [True, False])
def test_what_fails_inside_is_told_in_the_apis_form(
    server: Served, fault: str, told: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with server.client() as http:
        reply = http.post(CHAT, json=asked(fault, stream=stream))
    if stream and fault != "prompt":  # which fails before there is a stream
        *_, last, done, end = reply.text.split("\n\n")
        assert (done, end) == ("data: [DONE]", "")
        error = json.loads(last.removeprefix("data: "))["error"]
    else:
        assert reply.status_code == 500
        error = reply.json()["error"]
    assert error["code"] == "engine_failed"
    assert told in error["message"]


def test_a_client_that_leaves_in_mid_upload_is_no_error(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """It once was a traceback in the log."""
    with connected(server) as client:
        client.sendall(head(b'{"messages": [', 5000))
        time.sleep(0.05)
    time.sleep(0.2)
    with server.client() as http:
        http.post(CHAT, json=ASK)
    assert not caplog.records


def test_half_a_body_is_not_waited_for_without_end(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_S", 0.2)
    with connected(server) as client:
        client.sendall(head(b"{", 5000))
        answer = rest(client)
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"] == "request_timeout"


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFF", b"90000000", b"G"])
def test_a_chunk_of_a_size_that_no_body_has_is_a_400(server: Served, size: bytes) -> None:
    """One of 17 digits was waited for, 30 seconds long."""
    asked = (
        f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    for sent in (
        (asked + size + b"\r\n{",),
        (asked, size + b"\r\n", b"{"),
        (asked + b"1\r\n{\r\n", size + b"\r\n"),
    ):
        with connected(server) as client:
            for part in sent:
                client.sendall(part)
                time.sleep(0.05)
            assert rest(client).startswith(b"HTTP/1.1 400")


def test_a_body_that_is_said_to_be_too_large_is_not_waited_for(server: Served) -> None:
    with connected(server) as client:
        client.sendall(head(b"{", 10**19))
        assert client.recv(100).startswith(b"HTTP/1.1 413")


def test_half_a_body_of_any_other_path_is_not_waited_for_either(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    monkeypatch.setattr(connections, "BODY_S", 0.3)
    monkeypatch.setattr(reading, "BODY_S", 3600.0)
    with connected(server) as client:
        client.sendall(head(b"{", 5000))
        assert rest(client) == b""


def test_a_file_may_take_longer_than_other_bodies(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every upload ended after two minutes, however fast it came."""
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    monkeypatch.setattr(connections, "BODY_S", 0.5)
    routes = uploads(tmp_path, None, lambda path, _: path.stat().st_size)  # type: ignore[arg-type,return-value]
    server.app.include_router(routes)
    with connected(server) as client:
        client.sendall(head(None, 6, IMPORT))
        for _ in range(6):
            time.sleep(0.15)
            client.sendall(b"x")
        assert rest(client).endswith(b"\r\n6")


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_half_a_head_is_not_waited_for_without_end(
    server: Served, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with connected(server) as client:
        client.sendall(sent)
        assert rest(client) == b""


def test_half_a_head_behind_an_answer_is_not_waited_for_either(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    with connected(server) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        answer = rest(client)
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_reply_that_takes_longer_than_any_head_may_is_not_cut(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(connections, "BODY_S", 1.0)
    monkeypatch.setattr(server.runtime.engine, "seconds_a_round", 0.3)
    with server.client() as http:
        reply = http.post(CHAT, json=asked("long", max_tokens=5, proposer="none"))
    assert reply.json()["usage"]["completion_tokens"] == 5


def test_who_does_not_read_is_dropped_and_holds_no_place(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream whose client is silent once kept its place for ever."""
    monkeypatch.setattr(connections, "UNREAD_S", 1.0)
    monkeypatch.setattr(server.runtime.engine, "seconds_a_round", 0.0)
    # Far more than a connection holds unread.
    body = json.dumps(asked("long", stream=True, logprobs=True, n=16)).encode()
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(("127.0.0.1", server.port))
        client.sendall(head(body, len(body)))
        assert client.recv(100)
        until(lambda: not server.app.state.queue.tickets)
        # What the system still holds would take minutes through so small a window.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert b"[DONE]" not in rest(client)


@pytest.mark.parametrize("how", ["half-closed", "closed", "reset"])
def test_a_client_that_leaves_in_mid_reply_ends_it(
    server: Served, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps(asked("long", stream=True, proposer="none")).encode()
    client = connected(server)
    client.sendall(head(body, len(body)))
    assert client.recv(100)
    assert server.app.state.queue.tickets
    if how == "half-closed":
        client.shutdown(socket.SHUT_WR)
    elif how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.close()
    else:
        client.close()
    until(lambda: not server.app.state.queue.tickets)
    client.close()
    assert not caplog.records


def test_a_client_that_sends_slowly_is_served(server: Served) -> None:
    body = json.dumps(ASK).encode()
    with connected(server) as client:
        client.sendall(head(None, len(body)))
        for byte in body:
            client.sendall(bytes([byte]))
            time.sleep(0.001)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_clocks_may_jump(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards and forwards by years, between any two looks."""
    jumping = iter(range(10**9))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + (-1) ** next(jumping) * 1e9)
    with server.client() as http:
        reply = http.post(CHAT, json=asked("long", max_tokens=50)).json()
        assert reply["usage"]["completion_tokens"] == 50
        assert reply["timings"]["predicted_ms"] >= 0
        assert "[DONE]" in http.post(CHAT, json=asked("Hi", stream=True)).text


def waiting_replies(url: str) -> float:
    """How many the server says there are."""
    told = httpx.get(f"{url}/metrics", timeout=60).text
    return sum(map(float, re.findall(r"^vllm:num_requests_waiting\{.*\} (.*)$", told, re.M)))


END = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from app import main
    from app.web.listen import listen
    from app.main import Settings
    from app.web.switch import ApiSwitch
    from engine.api import LoadRequest
    from tests.app.server.test_faults import Faulty
    from tests.support.serving import fake_runtime

    engine = Faulty()
    runtime = fake_runtime(Path(sys.argv[1]), engine)
    engine.load(LoadRequest(target="pip"))
    engine.seconds_a_round = float(sys.argv[2])
    app = main.create_app(runtime, ApiSwitch(True), Settings(pages=False, api=True))
    listener = listen("127.0.0.1", 0)
    main.run_server(app, listener, lambda: print(listener.port, flush=True))
    main.leave()
    """
)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM for one process")
@pytest.mark.parametrize("seconds_a_round", [0.05, 30.0])
def test_when_the_server_is_ended_all_are_told(tmp_path: Path, seconds_a_round: float) -> None:
    """Streams were cut without a word, who waited had a plain 500. Also in a round that takes long."""
    argv = [sys.executable, "-c", END, str(tmp_path), str(seconds_a_round)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        replies: dict[str, Any] = {}
        opened = threading.Event()

        def stream() -> None:
            with httpx.stream(
                "POST", url + CHAT, json=asked("long", stream=True), timeout=60
            ) as reply:
                lines = reply.iter_lines()
                replies["stream"] = [next(lines)]
                opened.set()
                replies["stream"] += lines

        def wait() -> None:
            with httpx.stream(
                "POST", url + CHAT, json=asked("long", stream=True), timeout=60
            ) as reply:
                lines = reply.iter_lines()
                replies["queued"] = [next(lines)]
                waiting.set()
                replies["queued"] += lines

        def whole() -> None:
            replies["whole"] = httpx.post(url + CHAT, json=ASK, timeout=60)

        waiting = threading.Event()
        threads = [threading.Thread(target=each) for each in (stream, wait, whole)]
        threads[0].start()
        assert opened.wait(30)
        for thread in threads[1:]:
            thread.start()
        assert waiting.wait(30)
        until(lambda: waiting_replies(url) == 2)
        process.terminate()
        for thread in threads:
            thread.join(30)
        printed, logged = process.communicate(timeout=30)
    finally:
        process.kill()
    for name in ("stream", "queued"):
        *_, error, blank, done, end = replies[name]
        assert (blank, done, end) == ("", "data: [DONE]", "")
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "cancelled"
    assert replies["whole"].status_code == 503
    assert int(replies["whole"].headers["retry-after"]) >= 1
    assert replies["whole"].json()["error"]["code"] == "cancelled"
    assert process.returncode == 0
    assert printed.strip().endswith("Stopped.")
    assert logged == ""
