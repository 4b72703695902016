"""The scripts of plans, run with programs of the same names that write down their words and variables."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import psutil
import pytest
import yaml

from app.deploy.gpus import parse_gpus
from app.deploy.launch_plan import write_folder
from app.deploy.model import find, of_path
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.request import PlanRequest
from tests.app.deploy.example_plans import example_plan
from tests.support.places import PIP

PROGRAM = """#!{python}
import json, os, sys, time
known = {{"words": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid()}}
known["at"] = time.monotonic()
told = os.path.join(os.environ["TOLD"], str(os.getpid()))
with open(told + ".part", "w") as file:
    json.dump(known, file)
os.rename(told + ".part", told + ".json")
time.sleep(float(os.environ.get("SECONDS_TO_RUN", "0")))
"""
PATIENCE_S = 60


class Machine:
    """Runs scripts in a folder, with ``programs`` that only write down their words and environment."""

    def __init__(self, folder: Path, *programs: str) -> None:
        self.folder, self.bin, self.told = folder, folder / "bin", folder / "told"
        self.bin.mkdir()
        self.told.mkdir()
        for name in programs:
            (self.bin / name).write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
            (self.bin / name).chmod(0o755)

    def plan(self, name: str) -> Path:
        """Write the plan's folder, as the command does."""
        rendered = render(example_plan(name))
        folder = self.folder / "plan with a space"
        write_folder(folder, rendered, "", {"files": dict(rendered.folder)})
        return folder

    def start(self, script: Path, **environment: str) -> subprocess.Popen[str]:
        """Start ``script`` from another folder, in a process group of its own."""
        known = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": "/root"}
        return subprocess.Popen(
            ["bash", str(script)],
            cwd=self.folder,
            env={**known, "TOLD": str(self.told), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script: Path, **environment: str) -> tuple[int, str, list[dict[str, Any]]]:
        """The exit status of ``script``, what it said, and what it started."""
        process = self.start(script, **environment)
        out, error = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out + error, list(self.started())

    def started(self) -> Iterator[dict[str, Any]]:
        """What was started so far."""
        for file in sorted(self.told.glob("*.json")):
            yield json.loads(file.read_text(encoding="utf-8"))

    def until_started(self, count: int) -> list[int]:
        """Wait until ``count`` programs run; their ids."""
        end = time.monotonic() + PATIENCE_S
        while len(found := [one["pid"] for one in self.started()]) < count:
            assert time.monotonic() < end
            time.sleep(0.02)
        return found


def passed_on(words: list[str]) -> list[str]:
    """The variables that a docker command passes on as they are."""
    return [
        words[at + 1] for at, word in enumerate(words) if word == "-e" and "=" not in words[at + 1]
    ]


@pytest.mark.parametrize("name", ["dynamo-vllm-nodes", "dynamo-sglang-nextn-nodes"])
def test_dynamo_s_container_over_nodes_gets_what_its_script_needs(
    name: str, tmp_path: Path
) -> None:
    """Its start.sh asked for ETCD_ENDPOINTS, which docker.sh did not pass on, and one plan's was on no
    network that other nodes reach."""
    machine = Machine(tmp_path, "docker", "python3")
    folder = machine.plan(name)
    ranks = {"NODE_RANK": "0", "HEAD_ADDRESS": "10.0.0.1"}
    code, said, started = machine.run(folder / "docker.sh", **ranks)
    assert (code, started) == (1, [])
    assert "ETCD_ENDPOINTS: http://HOST:2379 of an etcd" in said
    given = {
        **ranks,
        "ETCD_ENDPOINTS": "http://etcd:2379",
        "FRONTEND": "1",
        "HTTP_HOST": "10.0.0.1",
    }
    _, _, (docker,) = machine.run(folder / "docker.sh", **given)
    words = docker["words"]
    assert words[words.index("--network") + 1] == "host"
    assert "-p" not in words
    inside = {each: docker["environment"][each] for each in passed_on(words) if each in given}
    assert inside.keys() >= given.keys() - ranks.keys()
    code, said, started = machine.run(folder / "start.sh", **inside)
    assert code == 0, said
    frontends = [one["words"] for one in started if "dynamo.frontend" in one["words"]]
    assert [words[words.index("--http-host") + 1] for words in frontends] == ["10.0.0.1"]


@pytest.mark.parametrize("name", ["dynamo-vllm-nodes", "trtllm-ngram-copies"])
@pytest.mark.parametrize("ended_by", [None, signal.SIGTERM, signal.SIGINT])
def test_a_script_ends_what_it_started_and_not_its_caller(
    name: str, ended_by: signal.Signals | None, tmp_path: Path
) -> None:
    """`kill 0` ended a Makefile's, CI's or ssh's shell that had called the script."""
    machine = Machine(tmp_path, "python3", "trtllm-serve")
    script = machine.plan(name) / "start.sh"
    caller = tmp_path / "caller.sh"
    caller.write_text(
        f'(trap - INT; echo $BASHPID >"$TOLD/script"; exec bash "{script}") &\n'
        'wait $! && echo "went on after 0" || echo "went on after $?"\n',
        encoding="utf-8",
    )
    seconds = "600" if ended_by else "0"
    given = {"SECONDS_TO_RUN": seconds, "ETCD_ENDPOINTS": "http://etcd:2379", "FRONTEND": "1"}
    process = machine.start(caller, **given)
    workers = machine.until_started(2)
    if ended_by:
        os.kill(int((machine.told / "script").read_text()), ended_by)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == f"went on after {128 + ended_by if ended_by else 0}\n"
    assert not [pid for pid in workers if psutil.pid_exists(pid)]


def test_ctrl_c_ends_a_script_by_that_signal(tmp_path: Path) -> None:
    """A shell that called it sees so that it has to stop too."""
    machine = Machine(tmp_path, "python3")
    process = machine.start(machine.plan("dynamo-vllm-eagle3") / "start.sh", SECONDS_TO_RUN="600")
    workers = machine.until_started(2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGINT
    assert not [pid for pid in workers if psutil.pid_exists(pid)]


@pytest.mark.parametrize(
    "name", ["trtllm-eagle3", "trtllm-gpt-oss", "dynamo-vllm-eagle3", "dynamo-trtllm-eagle3-copies"]
)
def test_a_container_finds_its_files_from_any_folder(name: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "docker")
    _, _, (docker,) = machine.run(machine.plan(name) / "docker.sh")
    words = docker["words"]
    mounts = [words[at + 1] for at, word in enumerate(words) if word == "-v"]
    sources = [mount.split(":")[0] for mount in mounts]
    ours = [source for source in sources if source.startswith(str(tmp_path))]
    assert ours
    assert all(Path(source).exists() for source in ours if not source.endswith("/tiktoken"))


def test_a_server_listens_beyond_this_machine_only_with_a_key(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "vllm")
    start = machine.plan("vllm-nodes-balanced") / "start.sh"
    _, _, (alone,) = machine.run(start)
    words = alone["words"]
    assert words[words.index("--host") :][:2] == ["--host", "127.0.0.1"]
    assert alone["environment"]["VLLM_API_KEY"] == ""  # then it demands none
    code, said, started = machine.run(start, HOST="10.0.0.1")
    assert (code, len(started)) == (1, 1)
    assert "API_KEY: set a key that clients send" in said


@pytest.mark.parametrize("script", ["start.sh", "docker.sh"])
def test_no_command_line_shows_vllm_s_key(script: str, tmp_path: Path) -> None:
    """Every account of a machine can read command lines; a variable is its owner's."""
    machine = Machine(tmp_path, "vllm", "docker")
    folder = machine.plan("vllm-nodes-balanced")
    _, said, (one,) = machine.run(folder / script, HOST="10.0.0.1", API_KEY="secret")
    words = one["words"]
    assert one["environment"]["VLLM_API_KEY"] == "secret"
    assert "10.0.0.1" in " ".join(words)
    assert "secret" not in said + " ".join(words)
    assert script == "start.sh" or "VLLM_API_KEY" in passed_on(words)


def test_sglang_has_its_key_from_an_option(tmp_path: Path) -> None:
    """It reads it from nowhere else (srt/arg_groups/fields/serving.py)."""
    machine = Machine(tmp_path, "python3")
    start = machine.plan("sglang-nodes-balanced") / "start.sh"
    _, _, (one,) = machine.run(start, HOST="10.0.0.1", API_KEY="secret")
    words = one["words"]
    assert words[words.index("--api-key") + 1] == "secret"


@pytest.mark.parametrize("name", ["vllm-suffix", "dynamo-vllm-suffix"])
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_container_installs_what_suffix_decoding_needs(
    name: str, installer: str, tmp_path: Path
) -> None:
    """vLLM refuses the method without it; only vLLM's own docker.sh installed it."""
    machine = Machine(tmp_path, "docker", "uv", "vllm", "python3")
    folder = machine.plan(name)
    without_pip = machine.bin / "python3"
    if installer == "uv":
        told = without_pip.read_text()
        without_pip.write_text(told + "sys.exit('pip' in sys.argv)\n", encoding="utf-8")
    _, _, (docker,) = machine.run(folder / "docker.sh")
    words = docker["words"]
    at = words.index("--entrypoint")
    inside = [words[at + 1], *words[at + 3 :]]  # the image's name between them
    for command in (inside, _in_cluster(folder)):
        for file in machine.told.glob("*.json"):
            file.unlink()
        script = tmp_path / "inside.sh"
        script.write_text(shlex.join(command).replace("/plan/", f"'{folder}'/"), encoding="utf-8")
        code, said, started = machine.run(script)
        assert code == 0, said
        ran = [one["words"] for one in sorted(started, key=lambda one: one["at"])]
        installs = [words for words in ran if "install" in words]
        assert [words[-1] for words in installs] == ["arctic-inference==0.1.1"] * len(installs)
        assert len(installs) == (1 if installer == "pip" else 2)
        assert ran[: len(installs)] == installs
        servers = [words for words in ran if "--speculative-config" in words]
        assert len(servers) == 1


def _in_cluster(folder: Path) -> list[str]:
    """The command of the pod that computes."""
    (file,) = [*folder.glob("kubernetes.yaml"), *folder.glob("deployment.yaml")]
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        spec = document.get("spec", {})
        parts = [part for part in spec.get("components", []) if part["name"] == "Worker"]
        pods = [part["podTemplate"] for part in parts] or [spec.get("template")]
        for pod in filter(None, pods):
            (container,) = pod["spec"]["containers"]
            return [*container["command"], *container["args"]]
    raise AssertionError(file)


def test_a_download_fetches_the_target_and_its_drafter(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "hf")
    code, said, started = machine.run(machine.plan("vllm-eagle3") / "download.sh")
    assert code == 0, said
    assert {tuple(one["words"]) for one in started} == {
        ("download", "meta-llama/Llama-3.1-8B-Instruct"),
        ("download", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"),
    }


def test_a_folder_is_not_downloaded_and_the_script_says_so(tmp_path: Path) -> None:
    """It announced gigabytes and did nothing."""
    machine, folder = Machine(tmp_path, "hf"), tmp_path / "plan"
    asked = PlanRequest("vllm", of_path(PIP / "target"), parse_gpus("1xL4"), users=2, context=512)
    write_folder(folder, render(make_plan(asked)), "", {})
    code, said, started = machine.run(folder / "download.sh")
    assert (code, started) == (0, [])
    assert said == f"Nothing to download: {PIP / 'target'} should be on this machine.\n"
    assert "GB" not in (folder / "download.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "gpus", "users", "gigabytes"),
    [
        ("deepseek-r1", "16xH100", 256, 688.6),  # the sum of its files on the hub
        ("qwen3.5-27b", "1xH100", 4, None),  # has no checkpoint in fp8: the engine converts
    ],
)
def test_downloads_and_volumes_have_the_size_of_what_is_published(
    target: str, gpus: str, users: int, gigabytes: float | None
) -> None:
    """Layouts that hold some weights on several GPUs counted these several times, and weights that the
    engine quantises in their later size, for which a cluster's volume was too small."""
    found = find(target)
    assert found is not None
    asked = PlanRequest(
        "sglang", found, parse_gpus(gpus), method="mtp", quantization="fp8", users=users
    )
    plan = make_plan(asked)
    expected = gigabytes or 2 * found.parameters / 1e9
    assert plan.quantised_online == (gigabytes is None)
    folder = render(plan).folder
    (size,) = re.findall(r"About ([0-9,]+) GB", folder["download.sh"])
    assert float(size.replace(",", "")) == pytest.approx(expected, rel=0.05)
    volumes = re.findall(r" storage: ([0-9]+)Gi", folder.get("kubernetes.yaml", ""))
    assert all(int(each) * 2**30 > expected * 1e9 for each in volumes)
    assert bool(volumes) == (plan.nodes == 1)


class _Server(BaseHTTPRequestHandler):
    """Refuses a model with a reason, as engines do, and notes the keys that came."""

    keys: ClassVar[list[str | None]] = []
    status = 404

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self.status, b'{"message": "The model is not served here."}')

    def do_GET(self) -> None:
        self._answer(200, b"vllm:spec_decode_num_drafts_total 7\nvllm:other 1\n")

    def _answer(self, status: int, body: bytes) -> None:
        self.keys.append(self.headers["Authorization"])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.parametrize("key", ["", "secret"])
@pytest.mark.parametrize("status", [404, 200])
def test_a_test_call_shows_the_server_s_answer_also_if_it_refuses(
    key: str, status: int, tmp_path: Path
) -> None:
    """Of a refusal it showed `curl: (22) ... 404`, without the reason."""
    handler = type("Handler", (_Server,), {"keys": [], "status": status})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    machine = Machine(tmp_path)
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        script = machine.plan("vllm-eagle3") / "test.sh"
        code, said, _ = machine.run(script, ADDRESS=address, API_KEY=key)
    finally:
        server.shutdown()
        server.server_close()
    assert '{"message": "The model is not served here."}' in said
    assert (code == 0) == (status == 200)
    assert ("spec_decode_num_drafts_total 7" in said) == (status == 200)
    assert set(handler.keys) == {f"Bearer {key}" if key else None}


def test_a_test_call_s_key_is_on_no_command_line(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "curl")
    _, _, started = machine.run(machine.plan("vllm-eagle3") / "test.sh", API_KEY="secret")
    assert len(started) == 2
    assert "secret" not in "".join(word for one in started for word in one["words"])
