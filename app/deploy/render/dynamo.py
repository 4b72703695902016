"""Dynamo: its frontend with workers on this machine, and a DynamoGraphDeployment for Kubernetes.

Options checked against ai-dynamo/dynamo at 04521f47 (examples/backends/*/deploy/v1beta1, of release 1.3)
and 51e158b3 (examples/backends/vllm/launch/agg_spec_decoding.sh); the frontend and its discovery in files
against release 1.6.1: a plan's script runs with Dynamo's mocker (tests/app/deploy/test_dynamo_runs.py).
Workers take the options of the engine that computes; TensorRT-LLM's starts over nodes by
``trtllm-llmapi-launch``, as Dynamo's multi-node examples have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from app.deploy.methods import SGLANG, TRTLLM, VLLM
from app.deploy.plan import Plan
from app.deploy.render import sglang, trtllm, vllm
from app.deploy.render.rendered import (
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

CHECKED = "Dynamo 1.6.1"
RELEASE = "1.6.1"
ENGINE_FILE, DEPLOYMENT = "engine.yaml", "deployment.yaml"
SECRET = "hf-token-secret"
DISCOVERY = ("--discovery-backend", "file")
CONFIG_FOLDER = "/plan"


@dataclass(frozen=True, slots=True)
class Backend:
    """An engine behind Dynamo. ``image``: the name of its runtime's image. ``worker``: its command for a
    plan and the path of its file. ``nodes``: its options for a copy on several nodes."""

    image: str
    worker: Callable[[Plan, str], Options]
    nodes: Callable[[Plan], Options]
    environment: Callable[[Plan], Mapping[str, str]] = lambda plan: {}
    file: Callable[[Plan], dict[str, Any]] | None = None


def _vllm(plan: Plan, engine_file: str) -> Options:
    name = plan.target.name
    return [("python3", "-m", "dynamo.vllm"), ("--model", name), *vllm.engine_options(plan)]


def _sglang(plan: Plan, engine_file: str) -> Options:
    return [
        ("python3", "-m", "dynamo.sglang"),
        ("--model-path", plan.target.name),
        ("--served-model-name", plan.target.name),
        *sglang.engine_options(plan),
    ]


def _trtllm(plan: Plan, engine_file: str) -> Options:
    return [
        trtllm.on_nodes(plan, ("python3", "-m", "dynamo.trtllm")),
        ("--model-path", plan.target.name),
        ("--served-model-name", plan.target.name),
        ("--extra-engine-args", engine_file),
    ]


_BACKENDS = MappingProxyType(
    {
        VLLM: Backend("vllm", _vllm, vllm.node_options, vllm.environment_of),
        SGLANG: Backend("sglang", _sglang, sglang.node_options),
        TRTLLM: Backend("tensorrtllm", _trtllm, lambda plan: [], file=trtllm.engine_yaml),
    }
)


def _backend(plan: Plan) -> Backend:
    return _BACKENDS[plan.request.backend]


def render(plan: Plan) -> Rendered:
    """Return a script for one machine, the same in Dynamo's image, and a deployment for a cluster."""
    files = {DEPLOYMENT: _documents(plan), **_engine_file(plan)}
    mounts = ['"$PWD:/plan:ro"']
    words: Options = [("bash", f"{CONFIG_FOLDER}/start.sh")]
    inside = docker(plan, _image(plan), words, mounts=mounts)
    return Rendered(_local(plan), script(*ranks(plan), inside, says=says(plan, CHECKED)), files)


def _engine_file(plan: Plan) -> dict[str, str]:
    """Return the worker's file by its name, if it reads one."""
    file = _backend(plan).file
    return {} if file is None else {ENGINE_FILE: as_yaml(file(plan))}


def _local(plan: Plan) -> str:
    frontend = command(
        [("python3", "-m", "dynamo.frontend"), ("--http-port", str(PORT)), DISCOVERY]
    )
    if plan.started_by_rank:
        frontend = f'[ "$NODE_RANK" != 0 ] || {frontend}'
    backend = _backend(plan)
    worker = backend.worker(plan, Shell(f'"$here/{ENGINE_FILE}"'))
    environment = backend.environment(plan)
    return script(
        'here="$(cd "$(dirname "$0")" && pwd)"',
        "trap 'kill 0' EXIT",
        *ranks(plan),
        f"{frontend} &",
        each_copy(plan, [*worker, *backend.nodes(plan), DISCOVERY], environment),
        "wait",
        says=says(plan, CHECKED),
    )


def _image(plan: Plan) -> str:
    return f"nvcr.io/nvidia/ai-dynamo/{_backend(plan).image}-runtime:{RELEASE}"


def _documents(plan: Plan) -> str:
    """Return the deployment, after the worker's YAML if it reads one."""
    documents = [deployment(plan)]
    data = _engine_file(plan)
    if data:
        named = {"name": f"{_graph(plan)}-engine"}
        documents.insert(
            0, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}
        )
    return "---\n".join(as_yaml(document) for document in documents)


def _graph(plan: Plan) -> str:
    """Return a valid name for Kubernetes."""
    name = plan.target.id.rsplit("/", 1)[-1].lower()
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def deployment(plan: Plan) -> dict[str, Any]:
    """Return the DynamoGraphDeployment: a frontend, and a worker for each copy."""
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
    return {"name": "main", "image": _image(plan), "envFrom": [{"secretRef": {"name": SECRET}}]}


def _worker_component(plan: Plan) -> dict[str, Any]:
    component: dict[str, Any] = {
        "name": "Worker",
        "type": "worker",
        "replicas": plan.layout.replicas,
        "podTemplate": {"spec": _worker_pod(plan)},
    }
    if plan.nodes > 1:  # the operator tells the nodes apart, and starts MPI where that is needed
        component["multinode"] = {"nodeCount": plan.nodes}
    return component


def _worker_pod(plan: Plan) -> dict[str, Any]:
    backend = _backend(plan)
    (head, *options) = backend.worker(plan, f"{CONFIG_FOLDER}/{ENGINE_FILE}")
    gpus = min(plan.layout.copy, plan.request.gpus.kind.node)
    container: dict[str, Any] = {
        **_container(plan),
        "command": list(head[head.index("python3") :]),
        "args": [word for option in options for word in option],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    environment = backend.environment(plan)
    if environment:
        container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    pod: dict[str, Any] = {"containers": [container]}
    if backend.file is not None:
        container["volumeMounts"] = [
            {"name": "engine", "mountPath": CONFIG_FOLDER, "readOnly": True}
        ]
        pod["volumes"] = [{"name": "engine", "configMap": {"name": f"{_graph(plan)}-engine"}}]
    return pod
