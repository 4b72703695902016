"""Child processes: a program with a log of its own, an HTTP server, and the parent of ``child.py``."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

import engine
from engine.bench.real.contest import Method, Reply, Setting
from engine.errors import PeerFailed, what_failed
from engine.files import parse_json

HOST = "127.0.0.1"
ROOT = Path(engine.__file__).resolve().parents[1]
"""The folder from which a child imports ``engine``, whatever Python runs it."""
_TAIL = 12
"""Lines of a log that a message quotes."""
_GRACE_S, _ANSWER_S, _PATIENCE_S = 10.0, 600.0, 900.0
"""Seconds for an end, for a server's answer, and for a worker's."""


class Child:
    """A running program whose output goes into ``log``."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        piped: bool = False,
        folder: Path | None = None,
    ) -> None:
        """Start it in ``folder``; ``environment`` is added to this process's. ``piped``: its standard
        input and output are pipes. Raises PeerFailed."""
        self.name, self.log = name, log
        with log.open("wb") as output:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if piped else output,
                    stderr=output,
                    env={**os.environ, **(environment or {})},
                    cwd=folder,
                )
            except OSError as error:
                raise PeerFailed(f"{name} cannot be started: {what_failed(error)}.") from error

    def failed(self, what: str) -> PeerFailed:
        """Return the error that says ``what`` happened, and the end of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        last = "Its last words:\n" + "\n".join(lines) if lines else "It printed nothing."
        return PeerFailed(f"{self.name} {what}. {last}")

    def peak_bytes(self) -> int | None:
        """Return the peak of its resident set, mapped files included, and of those of its children:
        vLLM's weights are in one. None once the process has ended."""
        try:
            own = psutil.Process(self.process.pid)
            return sum(map(_peak, (own, *own.children(recursive=True))))
        except psutil.Error:
            return None

    def close(self) -> None:
        """End it, by force if it ignores that. One with pipes ends once it has no more to read."""
        pipes = [pipe for pipe in (self.process.stdin, self.process.stdout) if pipe is not None]
        for pipe in pipes:
            with contextlib.suppress(OSError):  # it is gone already
                pipe.close()
        if not pipes and self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _peak(process: psutil.Process) -> int:
    """Return the peak; on macOS, which hides other processes' peaks, the current size."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no such system, or no such process
        pass
    memory = process.memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


class Server(Child):
    """An HTTP server, ready once it is created. ``{port}`` in the command becomes its port."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
    ) -> None:
        """Raises PeerFailed with the end of ``log`` if /health does not say in time that the model is
        loaded."""
        with socket.socket() as probe:  # a port that nothing listens on right now
            probe.bind((HOST, 0))
            port = str(probe.getsockname()[1])
        self.address = f"http://{HOST}:{port}"
        placed = [word.replace("{port}", port) for word in command]
        super().__init__(name, placed, log, environment)
        try:
            self._wait(timeout_s)
        except BaseException:
            self.close()
            raise

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer's JSON. Raises PeerFailed."""
        with self._open(path, body) as response, self._reading():
            return json.load(response)

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, Any]]:
        """Yield server-sent events as they come: seconds, and the JSON. Raises PeerFailed."""
        with self._open(path, body) as response, self._reading():
            for line in response:
                data = line.decode().strip().removeprefix("data:").strip()
                if data.startswith("{"):
                    yield perf_counter(), json.loads(data)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise PeerFailed for an answer that breaks off or is no JSON."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self.failed(f"broke off: {what_failed(error)}") from error

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
            raise self.failed(f"does not answer: {what_failed(error)}") from error

    def _wait(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise self.failed(f"ended with status {self.process.returncode}")
            try:
                self._open("/health").close()
            except PeerFailed:
                time.sleep(0.05)
            else:
                return
        raise self.failed(f"was not ready after {timeout_s:.0f} seconds")


@dataclass(frozen=True, slots=True)
class Served:
    """Another engine's HTTP server as a ``Running``. ``ask`` has it continue a prompt."""

    server: Server
    weights: str
    settings: tuple[Setting, ...]
    ask: Callable[[Server, Sequence[int], int], Reply]

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        return self.ask(self.server, prompt, limit)

    def told(self, what: str) -> dict[str, Any]:
        return {}

    def peak_bytes(self) -> int | None:
        return self.server.peak_bytes()

    def close(self) -> None:
        self.server.close()


class Worker(Child):
    """A module of ``engine.bench.real`` as a ``Running``, ready once it is made; see ``child``."""

    def __init__(
        self,
        name: str,
        module: str,
        options: Mapping[str, Any],
        log: Path,
        python: Path | str = sys.executable,
        environment: Mapping[str, str] | None = None,
        checkout: Path | None = None,
    ) -> None:
        """``options`` are the module's one argument, as JSON. ``checkout``: the folder of another
        version, whose code runs instead. Raises PeerFailed with the end of ``log`` if it does not get
        ready."""
        path = os.pathsep.join(filter(None, (str(checkout or ROOT), os.environ.get("PYTHONPATH"))))
        added = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **(environment or {})}
        command = [str(python), "-m", f"engine.bench.real.{module}", json.dumps(options)]
        super().__init__(name, command, log, added, piped=True, folder=checkout)
        try:
            ready = self._read()
            self.weights = str(ready["weights"])
            self.settings: tuple[Setting, ...] = tuple(
                Setting(name, Method(method)) for name, method in ready["settings"]
            )
        except BaseException:
            self.close()
            raise

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        reply = self._ask({"setting": setting.name, "prompt": list(prompt), "limit": limit})
        return Reply(**{**reply, "tokens": tuple(reply["tokens"])})

    def told(self, what: str) -> dict[str, Any]:
        return self._ask({what: True})

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.failed("ended") from error
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        watch = threading.Timer(_PATIENCE_S, self.process.kill)
        watch.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            raise self.failed("ended without an answer")
        value: dict[str, Any] = parse_json(line)
        if "error" in value:
            raise PeerFailed(f"{self.name}: {value['error']}")
        return value
