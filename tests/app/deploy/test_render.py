"""What plans look like for each engine: whole files, beside what must hold for all of them.

To write the files anew after a change that is meant: FORETOKEN_WRITE_GOLDEN=1, then read the difference.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.text.plan import plan_text
from app.deploy.gpus import parse_gpus
from app.deploy.launch_plan import facts
from app.deploy.methods import CAN, NONE
from app.deploy.model import find, of_path
from app.deploy.planning import make_plan
from app.deploy.render import render
from app.deploy.render.rendered import LOOPBACK, Shell, command, container_name
from app.deploy.request import Plan, PlanRequest
from app.deploy.support import notes
from tests.app.deploy.example_plans import PLANS, example_plan
from tests.support.places import PIP

FOLDER = Path(__file__).with_name("golden")
MANY = {"target": "llama-3.1-8b", "gpus": "8xH100", "users": 7200, "context": 256}
NODES = {"target": "llama-3.3-70b", "gpus": "32xH100", "users": 2000, "context": 2048}
"""Several copies on one node, and one on each of several."""


def planned(engine: str, *, target: str, gpus: str, users: int, context: int) -> Plan:
    """A plan with EAGLE-3."""
    found = find(target)
    assert found is not None
    asked = PlanRequest(
        engine, found, parse_gpus(gpus), method="eagle3", users=users, context=context
    )
    return make_plan(asked)


@pytest.fixture(params=sorted(PLANS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


GOLDEN = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.glob("*/*"))


@pytest.mark.parametrize("golden", GOLDEN)
def test_files_are_the_golden_ones(golden: str) -> None:
    """Each engine, several copies and hosts, Dynamo, and a draft model, MTP, n-grams and EAGLE-3."""
    name, file = golden.split("/")
    text = render(example_plan(name)).folder[file]
    if os.environ.get("FORETOKEN_WRITE_GOLDEN"):
        (FOLDER / golden).write_text(text, encoding="utf-8")
    assert text == (FOLDER / golden).read_text(encoding="utf-8")


OPTIONS = {
    ("vllm", "ngram"): ('"method": "ngram"', '"prompt_lookup_min": 2, "prompt_lookup_max": 5'),
    ("vllm", "suffix"): ('"method": "suffix"',),
    ("vllm", "draft_model"): ('"method": "draft_model"',),
    ("vllm", "eagle"): ('"method": "eagle"',),
    ("vllm", "eagle3"): ('"method": "eagle3"',),
    ("vllm", "medusa"): ('"method": "medusa"',),
    ("vllm", "mtp"): ('"method": "mtp"',),
    ("vllm", "dflash"): ('"method": "dflash"',),
    ("vllm", "dspark"): ('"method": "dspark"',),
    ("sglang", "ngram"): ("algorithm NGRAM", "--speculative-ngram-max-bfs-breadth 1"),
    ("sglang", "draft_model"): ("algorithm STANDALONE", "--speculative-eagle-topk 1"),
    ("sglang", "eagle"): ("algorithm EAGLE ", "--speculative-eagle-topk 1"),
    ("sglang", "eagle3"): ("algorithm EAGLE3 ", "--speculative-eagle-topk 1"),
    ("sglang", "mtp"): ("algorithm NEXTN", "--speculative-eagle-topk 1"),
    ("sglang", "dflash"): ("algorithm DFLASH",),
    ("sglang", "dspark"): ("algorithm DSPARK",),
    ("trtllm", "ngram"): ("decoding_type: NGram", "disable_overlap_scheduler: true"),
    ("trtllm", "suffix"): ("decoding_type: SA\n",),
    ("trtllm", "draft_model"): ("decoding_type: DraftTarget", "enable_block_reuse: false"),
    ("trtllm", "eagle3"): ("decoding_type: Eagle3", "enable_block_reuse: false"),
    ("trtllm", "mtp"): ("decoding_type: MTP",),
    ("trtllm", "dflash"): ("decoding_type: DFlash",),
}
"""What the files say of a method, by the engine that computes."""
DEPTHS = {
    "vllm": '"num_speculative_tokens": {0}',
    "sglang": "--speculative-num-draft-tokens {1}",
    "trtllm": "max_draft_len: {0}",
}


def test_the_files_have_the_options_of_the_method(name: str) -> None:
    plan = example_plan(name)
    rendered, engine = render(plan).folder, plan.request.computes
    text = "".join(rendered.values())
    expected = [*OPTIONS[engine, plan.request.method]] if plan.drafts else []
    if plan.drafts:
        expected.append(DEPTHS[engine].format(plan.depth, plan.depth + 1))
    expected += [each for each in (plan.target.name, plan.draft) if each]
    if plan.quantised_online:
        expected.append(f"--quantization {plan.target.format}")
    for each in expected:
        assert each in text, each


def test_every_method_of_every_engine_is_rendered_here() -> None:
    plans = map(example_plan, PLANS)
    assert {(p.request.computes, p.request.method) for p in plans if p.drafts} == OPTIONS.keys()
    assert OPTIONS.keys() == {(engine, m) for engine in CAN for m in CAN[engine] if m != NONE}


@pytest.mark.parametrize("name", [name for name in PLANS if not name.startswith("dynamo")])
def test_the_container_runs_what_the_script_runs(name: str) -> None:
    """But for where it listens, where its files are, and that one container is one copy."""
    rendered = render(example_plan(name))
    start, container = (set(_options(text)) for text in (rendered.start, rendered.container))
    assert start <= container


def _options(text: str) -> Iterator[str]:
    """Lines of a command that are options, as written in a script."""
    for line in text.splitlines():
        words = line.strip().removesuffix(" \\")
        if words.startswith("--") and not words.startswith(
            ("--host", "--extra_llm", "--entrypoint")
        ):
            yield words


def test_scripts_are_shell_and_the_rest_is_yaml(name: str) -> None:
    for file, text in render(example_plan(name)).folder.items():
        if file.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        else:
            parts = list(yaml.safe_load_all(text))
            assert all(isinstance(part, dict) for part in parts)
            assert "&id" not in text


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object among the words of a script."""
    for word in shlex.split(text, comments=True):
        if word.startswith("{"):
            yield json.loads(word)


@pytest.mark.parametrize("name", [name for name in PLANS if name.startswith("vllm-")])
def test_plain_and_in_docker_vllm_is_told_the_same(name: str) -> None:
    plan = example_plan(name)
    rendered = render(plan)
    told = list(objects(rendered.start))
    assert told == list(objects(rendered.container))
    assert bool(told) == plan.drafts
    for config in told:
        assert config["num_speculative_tokens"] == plan.depth
        assert config.get("model") == plan.draft


def test_a_plan_is_plain_values_for_programs(name: str) -> None:
    plan = example_plan(name)
    known = facts(plan, render(plan))
    assert json.loads(json.dumps(known)) == known
    assert known["memory_of_a_gpu"]["needed"] <= known["memory_of_a_gpu"]["available"]
    assert known["notes"] == list(notes(plan))
    if plan.has_ground:
        assert known["estimate"]["by_users"][-1]["users"] == plan.request.users


@pytest.mark.parametrize("script", ["start.sh", "docker.sh"])
def test_no_script_listens_on_all_addresses_of_the_host(name: str, script: str) -> None:
    """In a container yes, whose port is published on loopback; not on the host's own network."""
    text = render(example_plan(name)).folder[script]
    assert "0.0.0.0" not in text or f"-p {LOOPBACK}:" in text or '-p "$HOST:' in text
    assert "--network host" not in text or "0.0.0.0" not in text


def test_dynamo_over_nodes_is_one_dynamo() -> None:
    """Found by etcd, one frontend, routed by what caches hold, replies that go on elsewhere."""
    start = render(example_plan("dynamo-vllm-nodes")).start
    for part in (
        'ETCD_ENDPOINTS="${ETCD_ENDPOINTS:?',
        'if [ -n "${FRONTEND:-}" ]; then',
        "--router-mode kv --migration-limit 3",
        "--discovery-backend etcd",
        "enable_kv_cache_events",
        '--http-host "${HTTP_HOST:-127.0.0.1}"',
    ):
        assert part in start, part
    assert "--discovery-backend file" not in start


def test_copies_of_dynamo_s_workers_publish_at_ports_of_their_own(tmp_path: Path) -> None:
    plan = planned("dynamo", **MANY)
    start = render(plan).start
    assert plan.copies_per_start == 8
    line = next(line for line in start.splitlines() if "kv-events-config" in line)
    (word,) = subprocess.run(
        ["bash", "-c", f"copy=3; printf '%s\\n' {line.strip().removesuffix(chr(92))}"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()[1:]  # fmt: skip
    assert json.loads(word)["endpoint"] == "tcp://*:20083"


def test_around_a_plan_are_scripts_to_download_ask_and_end() -> None:
    folder = render(example_plan("vllm-eagle3")).folder
    assert "hf download yuhuili/EAGLE3-LLaMA3.1-Instruct-8B" in folder["download.sh"]
    assert "/v1/chat/completions" in folder["test.sh"]
    assert "docker stop llama-3-1-8b" in folder["stop.sh"]
    encodings = render(example_plan("trtllm-gpt-oss")).folder
    assert "o200k_base.tiktoken" in encodings["download.sh"]
    assert "TIKTOKEN_ENCODINGS_BASE" in encodings["start.sh"]
    assert "enable_autotuner: false" in encodings["extra-llm-api-config.yml"]


@pytest.mark.parametrize("own", ["vllm", "sglang", "trtllm", "dynamo-vllm", "dynamo-trtllm"])
def test_an_engine_may_run_a_tokenizer_that_comes_with_the_model(own: str) -> None:
    """Kimi's is a program in its repository; without the option vLLM ends with a RuntimeError."""
    plan = example_plan(f"{own}-own-tokenizer")
    folder = render(plan).folder
    of_yaml = own == "dynamo-trtllm"
    option = "trust_remote_code: true" if of_yaml else "--trust-remote-code"
    if own == "trtllm":
        option = "--trust_remote_code"
    started = folder["engine.yaml"] if of_yaml else folder["start.sh"]
    assert started.count(option) == 1
    assert any("read it first" in note for note in notes(plan))
    if own == "dynamo-vllm":
        asked = yaml.safe_load(folder["deployment-request.yaml"])["spec"]["overrides"]
        assert asked == {"trustRemoteCode": True}
    others = "".join(render(example_plan("dynamo-vllm-nodes")).folder.values())
    assert "trust" not in others.lower()


def test_a_plan_says_one_thing_of_its_experts() -> None:
    """It had "experts split over 8 GPUs" beside "Experts are not split between GPUs"."""
    plan = example_plan("vllm-attention-apart")
    text = plan_text(plan, render(plan), notes(plan))
    assert "whole experts spread over 8 GPUs" in text
    assert "experts split" not in text


def test_a_folder_tells_whether_its_tokenizer_is_a_program(tmp_path: Path) -> None:
    shutil.copy(PIP / "target" / "config.json", tmp_path)
    tokenizer = tmp_path / "tokenizer_config.json"
    assert not of_path(tmp_path).own_tokenizer
    for text, own in (
        ("{}", False),
        ("[]", False),
        ('{"auto_map": {"AutoTokenizer": ["a.b"]}}', True),
    ):
        tokenizer.write_text(text, encoding="utf-8")
        assert of_path(tmp_path).own_tokenizer == own


def test_experts_lie_whole_where_parts_are_no_blocks() -> None:
    assert "--enable-expert-parallel" in render(example_plan("vllm-experts-fp8")).start
    assert "--ep-size 8" in render(example_plan("sglang-experts-fp8")).start
    apart = render(example_plan("sglang-attention-apart")).start
    assert "--enable-dp-attention --dp-size 8" in apart
    vllm = render(example_plan("vllm-attention-apart"))
    assert "--tensor-parallel-size 1" in vllm.start
    assert "--data-parallel-size 8" in vllm.start
    assert "--max-num-seqs 64" in vllm.start


def test_amd_s_and_turing_s_containers_are_their_own() -> None:
    amd, turing = (render(example_plan(name)) for name in ("vllm-mi300x", "vllm-t4"))
    assert "--device /dev/kfd" in amd.container
    assert "vllm-openai-rocm:v0.31.0" in amd.container
    assert "amd.com/gpu" in amd.files["kubernetes.yaml"]
    assert "--dtype half" in turing.start


@pytest.mark.parametrize(
    ("engine", "left_out", "asked"),
    [
        ("vllm", True, MANY),
        ("dynamo", False, MANY),  # each copy is a worker of its own
        ("vllm", False, NODES),  # and here a server on a node of its own
    ],
)
def test_the_schedule_stands_there_or_it_is_said_why_not(
    engine: str, left_out: bool, asked: dict[str, Any]
) -> None:
    plan = planned(engine, **asked)
    start = render(plan).start
    assert ("--data-parallel-size" in start) == left_out
    assert ("num_speculative_tokens_per_batch_size" in start) != left_out
    assert any("data parallelism, so" in note for note in notes(plan)) == left_out
    shallower = plan.estimate.best_depth != plan.depth
    adapts = any("the files let vLLM adapt it" in note for note in notes(plan))
    assert adapts == (shallower and not left_out)
    assert shallower or engine != "vllm" or left_out


def test_a_server_without_copies_is_started_once_for_each() -> None:
    text = render(example_plan("trtllm-ngram-copies")).start
    assert "for copy in 0 1" in text
    assert "8000 + copy" in text


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("org/Qwen3-8B", "qwen3-8b"),
        (f"{'a' * 49}-b", "a" * 49),
        ("/models/\u00c4pfel 2", "pfel-2"),
        ("/models/\u6a21\u578b", "model"),
        ("4bit", "model-4bit"),
    ],
)
def test_a_name_is_one_that_kubernetes_takes(id: str, name: str) -> None:
    plan = example_plan(sorted(PLANS)[0])
    assert container_name(replace(plan, target=replace(plan.target, id=id))) == name


def test_a_name_does_not_leave_its_comment() -> None:
    plan = planned("vllm", target="llama-3.1-8b", gpus="1xH100", users=8, context=1024)
    odd = replace(plan, target=replace(plan.target, id="a\ntouch here"), draft="b\ntouch there")
    scripts = render(odd).folder
    assert "# a touch here on" in scripts["start.sh"]
    assert "models--b touch there" in scripts["stop.sh"]
    for name in ("start.sh", "docker.sh", "stop.sh"):
        assert "\ntouch here" not in scripts[name]
    assert "\ntouch there" not in scripts["stop.sh"]


def test_names_are_quoted_for_the_shell() -> None:
    line = command([("serve", "it's; rm -rf"), ("--at", Shell('"$HOME"'))])
    assert shlex.split(line.replace("\\\n", " ")) == ["serve", "it's; rm -rf", "--at", "$HOME"]
