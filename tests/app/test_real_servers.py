"""vLLM by our own plans and llama-server, where they are installed: the app chats with what was started,
shows what it drafted, and races it against the engine here."""

from __future__ import annotations

import os
import shlex
import signal
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app import cli
from app.deploy.gpus import parse_gpus
from app.deploy.model import of_path
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.render.engines import environment_of
from app.deploy.render.rendered import PORT
from app.deploy.request import PlanRequest
from tests.app.deploy.test_vllm_parses import VARIABLE as VLLM
from tests.engine.remote.test_llama_server import VARIABLE as LLAMA_CPP
from tests.support.commands import Command, command
from tests.support.places import PIP, real_models
from tests.support.processes import free_port, running

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(900)]

ON_A_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; a share of the memory would be most of this machine's
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
DRAFTERS: dict[str, dict[str, Any]] = {
    "ngram": {},
    "suffix": {},
    "draft_model": {"draft": str(PIP / "draft"), "draft_model": of_path(PIP / "draft")},
    "eagle3": {"draft": str(PIP / "eagle3")},
}
TEXT = "Rewrite this: The tall grey heron stood by the river and the river stood still."


@pytest.fixture
def foretoken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    return command(cli.main, tmp_path / "data", monkeypatch, capsys)


@contextmanager
def serving(
    words: Sequence[str], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of the server that ``words`` start, once it answers; it ends when it is asked to."""
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return bool(answer.status == 200)

    with running(words, log, environment) as server:
        server.until(answers)
        yield url
        server.send(signal.SIGTERM)
        server.ended()


def folder(variable: str) -> Path:
    """What the environment names; skips, visibly, where it names nothing."""
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} names no folder")
    return Path(named)


def chatted(foretoken: Command, url: str) -> dict[str, Any]:
    """What ``foretoken chat`` tells of a reply of the server."""
    result = foretoken("chat", TEXT, "--pair", url, "--max-tokens", 64, "--json")
    assert result.status == 0, result.err
    told = result.last_json
    assert told["text"] and told["completion_tokens"] > 0 and told["tokens_per_s"] > 0
    assert told["shared"] is False  # nobody else is answered: what was counted is the reply's
    return told


def raced(foretoken: Command, url: str, base: object) -> None:
    """The server against ``base``, loaded here."""
    words = ("--pairs", 1, "--max-tokens", 32, "--json")
    result = foretoken("race", TEXT, "--pair", url, "--base-pair", base, *words)
    assert result.status == 0, result.err
    (pair,) = result.last_json["pairs"]
    assert pair["ratio"] > 0 and pair["acceptance_rate"] is not None
    assert url.removeprefix("http://") in result.last_json["rival"]


@pytest.mark.parametrize("method", DRAFTERS)
def test_a_plan_for_vllm_is_started_chatted_with_and_raced(
    method: str, tmp_path: Path, foretoken: Command
) -> None:
    place = folder(VLLM)
    target, gpus = of_path(PIP / "target"), parse_gpus("1xL4")
    asked = PlanRequest("vllm", target, gpus, method, users=2, context=1024, **DRAFTERS[method])
    plan, port = make_plan(asked), free_port()
    script = render(plan).start.replace(str(PORT), str(port))
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    words = words[words.index("serve") + 1 :]
    # bin/vllm asks for the version of a package "vllm", which the build for CPUs is not called; and
    # compiling the model takes minutes, and says nothing of the plan.
    program = [str(place / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
    program += ["--model", *words, "--enforce-eager"]
    environment = {**ON_A_CPU, **environment_of(plan)}
    with serving(program, port, tmp_path / "log", environment) as url:
        told = chatted(foretoken, url)
        assert 0 < told["accepted"] <= told["drafted"] and told["rounds"] > 0
        raced(foretoken, url, "pip")


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "draft model"])
def test_llama_server_is_chatted_with_and_raced(
    drafts: bool, tmp_path: Path, foretoken: Command
) -> None:
    program, port = folder(LLAMA_CPP) / "llama-server", free_port()
    draft, target, *_ = real_models()
    words = [str(program), "--model", str(target), "--ctx-size", "512", "--threads", "2"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--parallel", "1"]
    if drafts:
        words += ["--model-draft", str(draft), "--spec-type", "draft-simple"]
    with serving(words, port, tmp_path / "log") as url:
        told = chatted(foretoken, url)
        if drafts:
            assert 0 < told["accepted"] <= told["drafted"] and told["rounds"] is None
            raced(foretoken, url, draft)
        else:
            assert told["drafted"] is told["accepted"] is None
