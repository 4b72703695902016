"""Dynamo: its frontend with workers on this machine, and a DynamoGraphDeployment for Kubernetes.

Options checked against ai-dynamo/dynamo at 04521f47 (examples/backends/*/deploy/v1beta1, of release 1.3)
and 51e158b3 (examples/backends/vllm/launch/agg_spec_decoding.sh); the frontend and its discovery in files
against release 1.6.1. Workers take the options of the engine that computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.plan.plan import Plan
from engine.plan.render import sglang, trtllm, vllm
from engine.plan.render.rendered import (
    PORT,
    Options,
    Rendered,
    Shell,
    as_yaml,
    command,
    docker,
    each_copy,
    ranks,
    says,
    script,
)
from engine.plan.request import SGLANG, TRTLLM, VLLM

CHECKED = "Dynamo 1.6.1"
RELEASE = "1.6.1"
ENGINE_FILE, DEPLOYMENT = "engine.yaml", "deployment.yaml"
SECRET = "hf-token-secret"
DISCOVERY = ("--discovery-backend", "file")
CONFIG_FOLDER = "/plan"

_NAMES = {VLLM: "vllm", SGLANG: "sglang", TRTLLM: "tensorrtllm"}


def render(plan: Plan) -> Rendered:
    """A script for one machine, the same in Dynamo's image, and a deployment for a cluster."""
    backend = plan.request.backend
    files = {DEPLOYMENT: _documents(plan)}
    if backend == TRTLLM:
        files[ENGINE_FILE] = as_yaml(trtllm.engine_yaml(plan))
    start = _local(plan)
    mounts = ['"$PWD:/plan:ro"']
    words: Options = [("bash", f"{CONFIG_FOLDER}/start.sh")]
    inside = docker(plan, _image(plan), words, mounts=mounts)
    return Rendered(start, script(*ranks(plan), inside, says=says(plan, CHECKED)), files)


def _local(plan: Plan) -> str:
    frontend = command(
        [("python3", "-m", "dynamo.frontend"), ("--http-port", str(PORT)), DISCOVERY]
    )
    environment = vllm.environment_of(plan) if plan.request.backend == VLLM else {}
    worker = _worker(plan, Shell(f'"$here/{ENGINE_FILE}"'))
    if plan.nodes > 1:
        worker += _between_nodes(plan)
        workers = command([*worker, DISCOVERY], environment) + " &"
        frontend = f'[ "$NODE_RANK" != 0 ] || {frontend}'
    else:
        workers = each_copy(plan, [*worker, DISCOVERY], environment)
    return script(
        'here="$(cd "$(dirname "$0")" && pwd)"',
        "trap 'kill 0' EXIT",
        *ranks(plan),
        f"{frontend} &",
        workers,
        "wait",
        says=says(plan, CHECKED),
    )


def _between_nodes(plan: Plan) -> Options:
    rank = ("--nnodes", str(plan.nodes), "--node-rank", Shell('"$NODE_RANK"'))
    if plan.request.backend == SGLANG:
        return [rank, ("--dist-init-addr", Shell(f'"$HEAD_ADDRESS:{sglang.RENDEZVOUS}"'))]
    others = Shell('$([ "$NODE_RANK" = 0 ] || echo --headless)')
    return [rank, ("--master-addr", Shell('"$HEAD_ADDRESS"')), (others,)]


def _worker(plan: Plan, engine_file: str) -> Options:
    """The worker of the engine that computes."""
    name = plan.target.name
    return _WORKERS[plan.request.backend](plan, name, engine_file)


def _vllm(plan: Plan, name: str, engine_file: str) -> Options:
    return [("python3", "-m", "dynamo.vllm"), ("--model", name), *vllm.engine_options(plan)]


def _sglang(plan: Plan, name: str, engine_file: str) -> Options:
    return [
        ("python3", "-m", "dynamo.sglang"),
        ("--model-path", name),
        ("--served-model-name", name),
        *sglang.engine_options(plan),
    ]


def _trtllm(plan: Plan, name: str, engine_file: str) -> Options:
    return [
        ("python3", "-m", "dynamo.trtllm"),
        ("--model-path", name),
        ("--served-model-name", name),
        ("--extra-engine-args", engine_file),
    ]


_WORKERS: dict[str, Callable[[Plan, str, str], Options]] = {
    VLLM: _vllm,
    SGLANG: _sglang,
    TRTLLM: _trtllm,
}


def _image(plan: Plan) -> str:
    return f"nvcr.io/nvidia/ai-dynamo/{_NAMES[plan.request.backend]}-runtime:{RELEASE}"


def _documents(plan: Plan) -> str:
    """The deployment, and before it the engine's YAML where the worker reads one."""
    documents = [deployment(plan)]
    if plan.request.backend == TRTLLM:
        text = as_yaml(trtllm.engine_yaml(plan))
        documents.insert(
            0,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{_graph(plan)}-engine"},
                "data": {ENGINE_FILE: text},
            },
        )
    return "---\n".join(as_yaml(document) for document in documents)


def _graph(plan: Plan) -> str:
    """A name that Kubernetes takes."""
    name = plan.target.id.rsplit("/", 1)[-1].lower()
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def deployment(plan: Plan) -> dict[str, Any]:
    """The DynamoGraphDeployment: a frontend, and as many workers as the plan has copies."""
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": _graph(plan)},
        "spec": {
            "components": [
                {
                    "name": "Frontend",
                    "type": "frontend",
                    "replicas": 1,
                    "podTemplate": {"spec": {"containers": [_container(plan)]}},
                },
                _worker_component(plan),
            ]
        },
    }


def _container(plan: Plan) -> dict[str, Any]:
    return {
        "name": "main",
        "image": _image(plan),
        "envFrom": [{"secretRef": {"name": SECRET}}],
    }


def _worker_component(plan: Plan) -> dict[str, Any]:
    (head, *options) = _worker(plan, f"{CONFIG_FOLDER}/{ENGINE_FILE}")
    gpus = min(plan.layout.copy, plan.request.gpus.kind.node)
    container: dict[str, Any] = {
        **_container(plan),
        "command": list(head),
        "args": [word for option in options for word in option],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    environment = vllm.environment_of(plan) if plan.request.backend == VLLM else {}
    if environment:
        container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    pod: dict[str, Any] = {"containers": [container]}
    if plan.request.backend == TRTLLM:
        container["volumeMounts"] = [
            {"name": "engine", "mountPath": CONFIG_FOLDER, "readOnly": True}
        ]
        pod["volumes"] = [{"name": "engine", "configMap": {"name": f"{_graph(plan)}-engine"}}]
    component: dict[str, Any] = {
        "name": "Worker",
        "type": "worker",
        "replicas": plan.layout.replicas,
        "podTemplate": {"spec": pod},
    }
    if plan.nodes > 1:
        component["multinode"] = {"nodeCount": plan.nodes}
    return component
