"""A server of models that says what it is told to say, over a real socket: of any kind, and any
mistake."""

from __future__ import annotations

import json
import select
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 60.0
Json = Mapping[str, Any]
Part = bytes | threading.Event | None
"""Of a stream: bytes as they are sent, an event that is waited for, or None: the connection is cut."""
EVENTS = "text/event-stream"


def sse(*objects: Any, done: bool = True) -> list[Part]:
    """Server-sent events, each in a part of its own."""
    parts: list[Part] = [f"data: {json.dumps(each)}\n\n".encode() for each in objects]
    return [*parts, b"data: [DONE]\n\n"] if done else parts


def said(*texts: str, reason: str | None = "stop", **last: Any) -> list[Json]:
    """The chunks of a chat's reply; ``last`` stands beside the choices of the last one."""
    chunks: list[Json] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    ]
    chunks += [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    if reason is not None:
        end = {"index": 0, "delta": {}, "finish_reason": reason}
        chunks.append({"choices": [end], **last})
    return chunks


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    key: str | None
    body: Any


@dataclass
class Played:
    """What it answers. ``found``: by path, what GETs bring: JSON, a text, a list of what each next one
    brings, or a refusal. ``refusals``: status, headers and body of the next POSTs. ``stream``: of each
    POST."""

    models: Sequence[Json] = ({"id": "small", "owned_by": "someone"},)
    found: dict[str, Any] = field(default_factory=dict)
    stream: Iterable[Part] = ()
    content_type: str = EVENTS
    key: str | None = None
    refusals: list[tuple[int, Mapping[str, str], Any]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    """Set once a client left in the middle."""
    url: str = ""

    def posted(self, path: str) -> list[Any]:
        """The bodies that were sent there."""
        return [each.body for each in self.asked if (each.method, each.path) == ("POST", path)]


@contextmanager
def playing(played: Played, tls: ssl.SSLContext | None = None) -> Iterator[Played]:
    """Answers as ``played`` says, which may change meanwhile, at ``played.url``; ``tls``: encrypted."""

    class Handler(_Handler):
        play = played

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if tls is None else "https"
    played.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    try:
        yield played
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    play: Played
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self._refused_key():
            return
        if self.path == "/v1/models" and "/v1/models" not in self.play.found:
            return self._answer(200, {"object": "list", "data": list(self.play.models)})
        if self.path not in self.play.found:
            return self._answer(404, {"detail": "Not Found"})
        found = self.play.found[self.path]
        if isinstance(found, list) and found and isinstance(found[0], str):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, tuple):
            status, headers, body = found
            return self._answer(status, body, headers)
        self._answer(200, found)

    def do_POST(self) -> None:
        if self._refused_key():
            return
        if self.play.refusals:
            status, headers, body = self.play.refusals.pop(0)
            return self._answer(status, body, headers)
        self.send_response(200)
        self.send_header("Content-Type", self.play.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in self.play.stream:
                if part is None:
                    return self._cut()
                if isinstance(part, threading.Event):
                    self._wait(part)
                else:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.play.left.set()
            self.close_connection = True

    def _wait(self, event: threading.Event) -> None:
        """Raises OSError where the client leaves before."""
        for _ in range(int(PATIENCE_S / 0.02)):
            if event.wait(0.01):
                return
            readable, _, _ = select.select([self.connection], [], [], 0.01)
            if readable and not self.connection.recv(1):
                raise ConnectionResetError
        raise AssertionError("nobody let it go on")

    def _cut(self) -> None:
        self.close_connection = True
        self.wfile.flush()

    def _refused_key(self) -> bool:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        key = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        self.play.asked.append(
            Asked(self.command, self.path, key, json.loads(raw) if raw else None)
        )
        wanted = self.play.key
        if wanted is None or key == wanted:
            return False
        self._answer(401, {"error": {"message": "Incorrect API key.", "code": "invalid_api_key"}})
        return True

    def _answer(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        text = isinstance(value, str)
        data = value.encode() if text else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, each in (headers or {}).items():
            self.send_header(name, each)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None: ...
