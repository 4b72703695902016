"""The parent's side of ``child.py``, as a ``Running`` of the contest."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import engine
from engine.bench.real import process
from engine.bench.real.contest import Method, Reading, Reply, Setting
from engine.errors import PeerFailed
from engine.files import parse_json

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
        self.process = process.launch(name, command, log, added, piped=True, folder=checkout)
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

    def step_times(self) -> Mapping[int, float]:
        return {int(rows): float(seconds) for rows, seconds in self._ask({"steps": True}).items()}

    def reading(self) -> Reading | None:
        told = self._ask({"reading": True})
        return Reading(**told) if told else None

    def peak_bytes(self) -> int | None:
        return process.peak_bytes(self.process)

    def close(self) -> None:
        """Close its pipes and wait: it ends once it has no more to read."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # it is gone already
                    pipe.close()
        process.end(self.process, requested=True)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise PeerFailed(f"{self.name} ended. {process.last_words(self.log)}") from error
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
            raise PeerFailed(f"{self.name} ended without an answer. {process.last_words(self.log)}")
        value: dict[str, Any] = parse_json(line)
        if "error" in value:
            raise PeerFailed(f"{self.name}: {value['error']}")
        return value
