"""A process that is asked in lines of JSON: the end that asks, as a ``Running`` of the contest."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import engine
from engine.bench.real.contest import Method, Reply, Setting
from engine.bench.real.memory import peak_bytes
from engine.bench.real.server import last_words
from engine.errors import PeerFailed

ROOT = Path(engine.__file__).resolve().parents[1]
"""Where a child finds ``engine``, whatever Python runs it."""
_PATIENCE_S = 900.0


class Worker:
    """Started and ready once it is made. Its first line says ``weights`` and ``settings``."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        """Raises PeerFailed with the end of ``log`` where it does not get ready."""
        self.name, self.log = name, log
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with log.open("wb") as output:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    env={**os.environ, "PYTHONPATH": path, **environment},
                )
            except OSError as error:
                raise PeerFailed(f"{name} cannot be started: {error}.") from error
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
        """See ``Running``."""
        told = self._ask({"setting": setting.name, "prompt": list(prompt), "limit": limit})
        return Reply(**{**told, "tokens": tuple(told["tokens"])})

    def step_times(self) -> Mapping[int, float]:
        """See ``Running``."""
        return {int(rows): float(seconds) for rows, seconds in self._ask({"steps": True}).items()}

    def peak_bytes(self) -> int | None:
        """See ``Running``."""
        return peak_bytes(self.process.pid)

    def close(self) -> None:
        """Ends it, by force if it does not listen."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # it is gone already
                    pipe.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

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
        value: dict[str, Any] = json.loads(line)
        if "error" in value:
            raise PeerFailed(f"{self.name}: {value['error']}")
        return value
