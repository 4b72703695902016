"""Dynamo's programs: a frontend and its workers, on this machine or on several hosts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.hosts import Host
from tests.support.processes import Program, free_port, running

VARIABLE = "FORETOKEN_DYNAMO"


def dynamo_python() -> str:
    """The interpreter of the environment with Dynamo; skips, visibly, where none is named."""
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} names no virtual environment with Dynamo")
    return str(Path(place) / "bin" / "python")


COMMON = {"DYN_LOG": "info", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
"""The environment of all programs here."""


def discovery(folder: Path) -> dict[str, str]:
    """The environment in which programs find each other through files in ``folder``."""
    found = str(folder / "found")
    return {**COMMON, "DYN_FILE_KV": found, "DYN_DISCOVERY_BACKEND": "file"}


@contextlib.contextmanager
def etcd(host: Host, folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which programs on several hosts find each other by an etcd on ``host``; skips,
    visibly, where there is no etcd."""
    program = shutil.which(
        "etcd", path=f"{Path(dynamo_python()).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if program is None:
        pytest.skip("there is no etcd in PATH")
    there = f"http://{host.address}:2379"
    listens = ["--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", there]
    words = [program, "--data-dir", str(folder / "etcd"), *listens]
    with running(host.words(words), folder / "etcd.log") as started:
        started.until(lambda: urllib.request.urlopen(f"{there}/health").read())
        yield {**COMMON, "ETCD_ENDPOINTS": there}


@dataclass(frozen=True, slots=True)
class Frontend:
    """A frontend at ``url``, whose workers are started beside it, in the same ``environment``."""

    program: Program
    url: str
    folder: Path
    environment: Mapping[str, str]

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
def frontend(
    folder: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    host: Host | None = None,
) -> Iterator[Frontend]:
    """Dynamo's frontend with ``options``, ready, on ``host`` or this one; found through files, unless
    ``environment`` says otherwise."""
    environment = environment or discovery(folder)
    port = free_port()
    words = [dynamo_python(), "-m", "dynamo.frontend", "--http-port", str(port), *options]
    words = words if host is None else host.words(words)
    # A home of its own, or it would know the cards that it fetched in an earlier test.
    homely = {**environment, "HOME": str(folder)}
    with running(words, folder / "frontend.log", homely) as program:
        where = "127.0.0.1" if host is None else host.address
        made = Frontend(program, f"http://{where}:{port}", folder, environment)
        program.until(lambda: made.get("/health"))
        yield made


@contextlib.contextmanager
def worker(
    front: Frontend, name: str, options: Sequence[str] = (), host: Host | None = None
) -> Iterator[Program]:
    """``foretoken worker --dynamo`` with Pip, ready: the frontend knows it."""
    data = str(front.folder / name)
    words = [dynamo_python(), "-m", "app", "worker", "--dynamo", "--data-dir", data, *options]
    words = words if host is None else host.words(words)
    known = front.instances()
    with running(words, front.folder / f"{name}.log", front.environment) as program:
        program.until(lambda: front.instances() - known)
        yield program
