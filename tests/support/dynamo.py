"""Dynamo's programs on this machine: a frontend, and workers that it finds through files."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.processes import Program, free_port, running

VARIABLE = "FORETOKEN_DYNAMO"


def dynamo_python() -> str:
    """The interpreter of the environment with Dynamo; skips, visibly, where none is named."""
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} names no virtual environment with Dynamo")
    return str(Path(place) / "bin" / "python")


def discovery(folder: Path) -> dict[str, str]:
    """The environment in which programs find each other through files in ``folder``."""
    return {
        "DYN_FILE_KV": str(folder / "found"),
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_LOG": "info",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


@dataclass(frozen=True, slots=True)
class Frontend:
    """A frontend at ``url``, whose workers are started beside it."""

    program: Program
    url: str
    folder: Path

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    def get(self, path: str) -> Any:
        """What a path answers, read as JSON; None where it says that it is not ready."""
        with contextlib.suppress(OSError), urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)
        return None

    def instances(self) -> set[int]:
        """The ids of the workers that it knows."""
        health = self.get("/health") or {}
        return {
            each["instance_id"]
            for each in health.get("instances", [])
            if each["endpoint"] == "generate"
        }


@contextlib.contextmanager
def frontend(folder: Path, *options: str) -> Iterator[Frontend]:
    """Dynamo's frontend with ``options``, ready."""
    port = free_port()
    words = [dynamo_python(), "-m", "dynamo.frontend", "--http-port", str(port), *options]
    with running(words, folder / "frontend.log", discovery(folder)) as program:
        made = Frontend(program, f"http://127.0.0.1:{port}", folder)
        program.until(lambda: made.get("/health"))
        yield made


@contextlib.contextmanager
def worker(front: Frontend, name: str, options: Sequence[str] = ()) -> Iterator[Program]:
    """``foretoken worker --dynamo`` with Pip, ready: the frontend knows it."""
    words = [dynamo_python(), "-m", "app", "worker", "--dynamo"]
    data = str(front.folder / name)
    known = front.instances()
    with running(
        [*words, "--data-dir", data, *options],
        front.folder / f"{name}.log",
        discovery(front.folder),
    ) as program:
        program.until(lambda: len(front.instances()) > len(known))
        yield program
