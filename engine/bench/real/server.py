"""A local HTTP server as a child process."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from engine.bench.real.process import end, last_words, launch, peak_bytes
from engine.errors import PeerFailed, what_failed

HOST = "127.0.0.1"
_ANSWER_S = 600.0


class Server:
    """A running server, ready once it is created. ``{port}`` in the command becomes its port."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        """Raises PeerFailed with the end of ``log`` if it does not get ready."""
        self.name, self.log = name, log
        port = str(free_port())
        self.address = f"http://{HOST}:{port}"
        placed = [word.replace("{port}", port) for word in command]
        self.process = launch(name, placed, log, environment or {})
        try:
            self._wait(timeout_s)
        except BaseException:
            self.close()
            raise

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer's JSON. Raises PeerFailed."""
        with self._open(path, body) as response:
            return json.load(response)

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, Any]]:
        """Yield server-sent events as they come: seconds, and the JSON. Raises PeerFailed."""
        with self._open(path, body) as response:
            for line in response:
                data = line.decode().strip().removeprefix("data:").strip()
                if data.startswith("{"):
                    yield perf_counter(), json.loads(data)

    def close(self) -> None:
        """End the program."""
        end(self.process)

    def _open(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json"}
        )
        # No proxy: a request to this machine must not leave it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            return opener.open(request, timeout=_ANSWER_S)
        except urllib.error.HTTPError as error:
            with error:
                message = error.read().decode(errors="replace")[:500]
            raise PeerFailed(f"{self.name} answered {error.code}: {message}") from error
        except OSError as error:
            raise PeerFailed(
                f"{self.name} does not answer: {what_failed(error)}. {last_words(self.log)}"
            ) from error

    def _wait(self, timeout_s: float) -> None:
        """Wait until /health says that the model is loaded."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if self.process.poll() is not None:
                status = self.process.returncode
                raise PeerFailed(f"{self.name} ended with status {status}. {last_words(self.log)}")
            try:
                self._open("/health").close()
            except PeerFailed:
                time.sleep(0.05)
            else:
                return
        raise PeerFailed(
            f"{self.name} was not ready after {timeout_s:.0f} seconds. {last_words(self.log)}"
        )


class ServedEngine:
    """What the HTTP servers of other engines have in common as a ``contest.Running``."""

    server: Server

    def step_times(self) -> Mapping[int, float]:
        return {}

    def reading(self) -> None:
        return None

    def peak_bytes(self) -> int | None:
        return peak_bytes(self.server.process)

    def close(self) -> None:
        self.server.close()


def free_port() -> int:
    """Return a port that nothing listens on right now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
