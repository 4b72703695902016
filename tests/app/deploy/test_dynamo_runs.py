"""A plan for Dynamo, started as it is: its frontend, and its workers with the mocker in their place.

The mocker answers random tokens and needs no GPU; whatever else the script says is Dynamo's to take.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from app.deploy.gpus import parse_gpus
from app.deploy.model import of_path
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.render.rendered import PORT
from app.deploy.request import PlanRequest
from engine.api import LoadRequest
from engine.remote.engine import RemoteEngine
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.values.messages import Message
from tests.support.dynamo import Frontend, discovery, dynamo_python
from tests.support.places import PIP
from tests.support.processes import free_port, running

MOCKER = """
import os, sys
python, words = sys.argv[1], sys.argv[2:]
if words[:2] == ["-m", "dynamo.vllm"]:
    said = dict(zip(words[2::2], words[3::2]))
    words = ["-m", "dynamo.mocker", "--model-path", said["--model"], "--model-name", "pip",
             "--max-num-seqs", said["--max-num-seqs"],
             "--discovery-backend", said["--discovery-backend"]]
os.execv(python, [python, *words])
"""


@pytest.mark.dynamo
@pytest.mark.slow
def test_a_plan_starts_a_frontend_and_its_workers_and_ends_them(tmp_path: Path) -> None:
    python = dynamo_python()
    plan = make_plan(
        PlanRequest("dynamo", of_path(PIP / "target"), parse_gpus("2xL4"), users=8, context=1024)
    )
    assert plan.layout.replicas == 2
    port = free_port()
    script = tmp_path / "start.sh"
    script.write_text(render(plan).start.replace(str(PORT), str(port)), encoding="utf-8")
    (tmp_path / "mocker.py").write_text(MOCKER, encoding="utf-8")
    (tmp_path / "python3").write_text(
        f'#!/bin/sh\nexec {sys.executable} {tmp_path / "mocker.py"} {python} "$@"\n',
        encoding="utf-8",
    )
    (tmp_path / "python3").chmod(0o755)
    environment = {**discovery(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with running(["bash", str(script)], tmp_path / "log", environment) as program:
        front = Frontend(program, f"http://127.0.0.1:{port}", tmp_path, environment)
        program.until(lambda: len(front.instances()) == plan.layout.replicas)
        program.until(lambda: (front.get("/v1/models") or {}).get("data"))
        with closing(RemoteEngine()) as engine:
            assert engine.load(LoadRequest(target=front.url)).server.startswith("Dynamo ")
            said, by_server = (Message("user", "Hello"),), Speculation(proposer="server")
            asked = Request(messages=said, speculation=by_server, max_tokens=8)
            reply = ReplyState.of(engine.generate(asked))
            assert reply.statistics.completion_tokens == 8
        started = psutil.Process(program.process.pid).children(recursive=True)
        program.send(signal.SIGTERM)
        program.ended()
        gone, alive = psutil.wait_procs(started, timeout=60)
        assert len(gone) == len(started) >= 3
        assert not alive, json.dumps([one.cmdline() for one in alive])
