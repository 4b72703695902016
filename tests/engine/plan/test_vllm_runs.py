"""Plans for vLLM, started as they are where vLLM's build for CPUs is installed: the app chats with what
each starts, shows what it drafted, and races it against the engine here."""

from __future__ import annotations

import json
import os
import shlex
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.cli import cli
from engine.plan.gpus import parse_gpus
from engine.plan.model import of_path
from engine.plan.plan import Plan
from engine.plan.planning import make_plan
from engine.plan.render import render
from engine.plan.render.rendered import PORT
from engine.plan.request import PlanRequest
from tests.engine.plan.test_vllm_parses import VARIABLE
from tests.support.places import PIP
from tests.support.processes import Program, free_port, running

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
TOKENS = 64


@contextmanager
def started(plan: Plan, log: Path) -> Iterator[tuple[Program, str]]:
    """vLLM by the words of the plan's script, and its address; skips where it is not installed."""
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} names no virtual environment with vLLM")
    port = free_port()
    script = render(plan).start.replace(str(PORT), str(port))
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    words = words[words.index("serve") + 1 :]
    # bin/vllm asks for the version of a package "vllm", which the build for CPUs is not called.
    program = [str(Path(place) / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
    # Compiling the model takes minutes, and says nothing of the plan.
    words = ["--model", *words, "--enforce-eager"]
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return bool(answer.status == 200)

    with running([*program, *words], log, ON_A_CPU) as server:
        server.until(answers)
        yield server, url


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", DRAFTERS)
def test_what_a_plan_starts_is_chatted_with_raced_and_ended(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> Any:
        """The last line of a command as it is typed."""
        data = ("--data-dir", str(tmp_path), "--json")
        cli([*words, "--max-tokens", str(TOKENS), *data], standalone_mode=False)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    target = of_path(PIP / "target")
    asked = PlanRequest(
        "vllm", target, parse_gpus("1xL4"), method, users=2, context=1024, **DRAFTERS[method]
    )
    with started(make_plan(asked), tmp_path / "log") as (server, url):
        said = told("chat", TEXT, "--pair", url, "--temperature", "0")
        assert said["text"] and said["completion_tokens"] > 0
        assert 0 < said["accepted"] <= said["drafted"] and said["rounds"] > 0
        assert said["shared"] is False  # nobody else is answered: what was counted is the reply's
        race = told("race", TEXT, "--pair", url, "--base-pair", "pip", "--pairs", "2")
        assert len(race["pairs"]) == 2
        assert race["rival"].endswith(f"on {url.removeprefix('http://')}")
        server.send(signal.SIGTERM)
        server.ended()
