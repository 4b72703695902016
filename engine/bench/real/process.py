"""Child processes: a program with a log of its own, an HTTP server, and the parent of ``child.py``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

import engine
from engine.bench.real.contest import Method, Reading, Reply, Setting
from engine.errors import PeerFailed, what_failed
from engine.files import parse_json

_TAIL = 12
"""Lines of a log that a message quotes."""
_GRACE_S = 10.0


def launch(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    *,
    piped: bool = False,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in ``folder``, in this environment and ``environment``; its output goes into
    ``log``. ``piped``: its standard input and output are pipes. Raises PeerFailed."""
    with log.open("wb") as output:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else output,
                stderr=output,
                env={**os.environ, **environment},
                cwd=folder,
            )
        except OSError as error:
            raise PeerFailed(f"{name} cannot be started: {what_failed(error)}.") from error


def end(process: subprocess.Popen[bytes], *, requested: bool = False) -> None:
    """End the process, by force if it ignores that. ``requested``: it was told to end already."""
    if process.poll() is None and not requested:
        process.terminate()
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(log: Path) -> str:
    """Return the end of a log, as a message quotes it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
    return "Its last words:\n" + "\n".join(lines) if lines else "It printed nothing."


def peak_bytes(process: subprocess.Popen[bytes]) -> int | None:
    """Return the peak of its resident set, mapped files included; on macOS, which hides other
    processes' peaks, the current size. None once the process has ended."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no such system, or no such process
        pass
    try:
        memory = psutil.Process(process.pid).memory_info()
    except psutil.Error:
        return None
    return int(getattr(memory, "peak_wset", memory.rss))


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


ROOT = Path(engine.__file__).resolve().parents[1]
"""The folder from which a child imports ``engine``, whatever Python runs it."""
_PATIENCE_S = 900.0


class Worker:
    """See ``Running``. It is ready once it is made. Its first line says ``weights`` and ``settings``."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        checkout: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``checkout``: the folder of another version, whose code runs instead. ``environment`` is added
        to this process's. Raises PeerFailed with the end of ``log`` if it does not get ready."""
        self.name, self.log = name, log
        root = str(checkout or ROOT)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        added = {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", **(environment or {})}
        self.process = launch(name, command, log, added, piped=True, folder=checkout)
        try:
            ready = self._read()
            self.weights = str(ready["weights"])
            self.settings: tuple[Setting, ...] = tuple(
                Setting(name, Method(method)) for name, method in ready["settings"]
            )
        except BaseException:
            self.close()
            raise

    @classmethod
    def of_module(
        cls,
        name: str,
        module: str,
        options: Mapping[str, Any],
        log: Path,
        python: Path | str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start a module of ``engine.bench.real``, whose one argument is ``options`` as JSON."""
        command = [str(python), "-m", f"engine.bench.real.{module}", json.dumps(options)]
        return cls(name, command, log, environment=environment)

    def answer(self, setting: Setting, prompt: Sequence[int], limit: int) -> Reply:
        reply = self._ask({"setting": setting.name, "prompt": list(prompt), "limit": limit})
        return Reply(**{**reply, "tokens": tuple(reply["tokens"])})

    def step_times(self) -> Mapping[int, float]:
        return {int(rows): float(seconds) for rows, seconds in self._ask({"steps": True}).items()}

    def reading(self) -> Reading | None:
        told = self._ask({"reading": True})
        return Reading(**told) if told else None

    def peak_bytes(self) -> int | None:
        return peak_bytes(self.process)

    def close(self) -> None:
        """Close its pipes and wait: it ends once it has no more to read."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # it is gone already
                    pipe.close()
        end(self.process, requested=True)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise PeerFailed(f"{self.name} ended. {last_words(self.log)}") from error
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
            raise PeerFailed(f"{self.name} ended without an answer. {last_words(self.log)}")
        value: dict[str, Any] = parse_json(line)
        if "error" in value:
            raise PeerFailed(f"{self.name}: {value['error']}")
        return value
