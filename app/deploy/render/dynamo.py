"""Dynamo: its frontend with workers on this machine, and a DynamoGraphDeployment for Kubernetes.

Options checked against the wheel of ai-dynamo 1.6.1 (dynamo/frontend/frontend_args.py,
dynamo/{vllm,sglang,trtllm}, and profiler/utils/dgdr_v1beta1_types.py for the request of a deployment)
and ai-dynamo/dynamo at 2ac51dda (examples/backends/vllm/deploy/v1beta1/agg_router.yaml): a plan's
script runs with Dynamo's mocker (tests/app/deploy/test_dynamo_runs.py). Workers take the options of the
engine that computes; TensorRT-LLM's starts over nodes by ``trtllm-llmapi-launch``, as Dynamo's
multi-node examples have it. Events of caches go over ZeroMQ, Dynamo's default.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from app.deploy.methods import ENGINE_TABLE, SGLANG, TRTLLM, VLLM
from app.deploy.render import sglang, trtllm, vllm
from app.deploy.render.kubernetes import (
    DASHBOARD,
    PANELS,
    SETUP,
    claim,
    dashboard,
    made,
    monitor,
    pod,
)
from app.deploy.render.rendered import (
    ANYWHERE,
    HERE,
    INSTALL,
    LOOPBACK,
    PORT,
    Options,
    Rendered,
    Shell,
    around,
    as_yaml,
    command,
    container_name,
    docker,
    each_copy,
    installing,
    needs_arctic,
    ranks,
    says,
    script,
    together,
)
from app.deploy.request import Plan

ENGINE_FILE, DEPLOYMENT, REQUEST = "engine.yaml", "deployment.yaml", "deployment-request.yaml"
CONFIG_FOLDER = "/plan"
EVENTS_PORT = 20080
MIGRATIONS = "3"
"""Workers that a reply may go on at, after one is lost."""
SYSTEM_PORT = 9090
"""Where a worker in a cluster has its metrics (DYN_SYSTEM_PORT)."""
FINDING = ("--router-mode", "kv", "--migration-limit", MIGRATIONS)


@dataclass(frozen=True, slots=True)
class Backend:
    """An engine behind Dynamo. ``image``: the name of its runtime's image. ``worker``: its command for a
    plan and the path of its file. ``nodes``: its options for a copy on several nodes. ``events``: those
    that publish what its cache holds, at a port."""

    image: str
    worker: Callable[[Plan, str], Options]
    nodes: Callable[[Plan], Options]
    events: Callable[[str], Options]
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


def _zmq(port: str, **more: Any) -> Options:
    """Return the option of vLLM and SGLang that publishes events, at a port that the shell may expand."""
    config = json.dumps(
        {"publisher": "zmq", "topic": "kv-events", "endpoint": "tcp://*:PORT", **more}
    )
    if port.isdigit():
        return [("--kv-events-config", config.replace("PORT", port))]
    before, after = config.split("PORT")
    return [("--kv-events-config", Shell(f"'{before}'\"{port}\"'{after}'"))]


_BACKENDS = MappingProxyType(
    {
        VLLM: Backend(
            "vllm",
            _vllm,
            vllm.node_options,
            lambda port: _zmq(port, enable_kv_cache_events=True),
            vllm.environment_of,
        ),
        SGLANG: Backend("sglang", _sglang, sglang.node_options, _zmq),
        TRTLLM: Backend(
            "tensorrtllm",
            _trtllm,
            lambda plan: [],
            lambda port: [("--publish-kv-events",)],
            file=trtllm.engine_yaml,
        ),
    }
)


def _backend(plan: Plan) -> Backend:
    return _BACKENDS[plan.request.backend]


def render(plan: Plan) -> Rendered:
    """Return a script for one machine, the same in Dynamo's image, and a deployment for a cluster."""
    files = {DEPLOYMENT: _documents(plan), **_engine_file(plan)}
    if plan.request.targets is not None:
        files[REQUEST] = as_yaml(deployment_request(plan))
    if plan.request.backend in PANELS:
        files[DASHBOARD] = dashboard(plan)
    words: Options = [("bash", f"{CONFIG_FOLDER}/start.sh")]
    many = _many(plan)
    inside = docker(
        plan,
        _image(plan),
        installing(words) if needs_arctic(plan) else words,
        environment={} if many else {"HTTP_HOST": ANYWHERE},
        mounts=['"$here:/plan:ro"'],
        passes=_OUTSIDE if many else (),
        on_host=many,
    )
    container = script(HERE, *ranks(plan), *_found(plan), inside, says=_says(plan))
    return Rendered(_local(plan), container, files, around(plan))


def _engine_file(plan: Plan) -> dict[str, str]:
    """Return the worker's file by its name, if it reads one."""
    file = _backend(plan).file
    return {} if file is None else {ENGINE_FILE: as_yaml(file(plan))}


def _many(plan: Plan) -> bool:
    """Return whether workers are on several nodes, so that they find each other through etcd."""
    return plan.starts > 1 or plan.nodes > 1


_OUTSIDE = ("ETCD_ENDPOINTS", "FRONTEND", "HTTP_HOST")
"""What the caller of a script on several nodes sets."""


def _found(plan: Plan) -> list[str]:
    """Return the line that requires an etcd, if workers on several nodes find each other through it."""
    needed = 'export ETCD_ENDPOINTS="${ETCD_ENDPOINTS:?http://HOST:2379 of an etcd}"'
    return [needed] if _many(plan) else []


def _says(plan: Plan) -> list[str]:
    lines = says(plan)
    if plan.starts > 1:
        where = "groups of nodes" if plan.nodes > 1 else "nodes"
        lines.append(f"Run it on {plan.starts} {where}, on one of them with FRONTEND=1.")
    if _many(plan):
        lines.append(
            "ETCD_ENDPOINTS=http://HOST:2379 names an etcd that all nodes reach, HTTP_HOST the address "
            f"where clients reach the frontend ({LOOPBACK} by default): nothing there asks for a key."
        )
    if plan.request.backend != TRTLLM:  # they bind to a wildcard only
        where = f"at every address, from port {EVENTS_PORT}"
        lines.append(
            f"Workers publish the tokens in their caches {where}: let nobody else reach it."
        )
    return lines


def _local(plan: Plan) -> str:
    many, backend = _many(plan), _backend(plan)
    discovery = ("--discovery-backend", "etcd" if many else "file")
    frontend = command(
        [
            ("python3", "-m", "dynamo.frontend"),
            ("--http-host", Shell(f'"${{HTTP_HOST:-{LOOPBACK}}}"'), "--http-port", str(PORT)),
            FINDING,
            discovery,
        ],
        indent="    " if many else "",
    )
    started = f"{frontend} &"
    if plan.starts > 1:
        started = f'if [ -n "${{FRONTEND:-}}" ]; then\n    {started}\nfi'
    elif plan.started_by_rank:
        started = f'if [ "$NODE_RANK" = 0 ]; then\n    {started}\nfi'
    port = str(EVENTS_PORT) if plan.copies_per_start == 1 else f"$(({EVENTS_PORT} + copy))"
    worker = backend.worker(plan, Shell(f'"$here/{ENGINE_FILE}"'))
    words = [*worker, *backend.nodes(plan), *backend.events(port), discovery]
    return script(
        HERE,
        *ranks(plan),
        *_found(plan),
        *together(started, each_copy(plan, words, backend.environment(plan))),
        says=_says(plan),
    )


def _image(plan: Plan) -> str:
    return ENGINE_TABLE[plan.request.engine].image.format(_backend(plan).image)


def _documents(plan: Plan) -> str:
    """Return the volume, the worker's YAML if it reads one, the deployment, and what Prometheus reads."""
    documents = [claim(plan), deployment(plan), monitor(plan)]
    data = _engine_file(plan)
    if data:
        documents.insert(0, made(plan, "engine", data=data))
    once = ("Once, before this: Dynamo's platform (its Helm chart dynamo-platform), and", SETUP[0])
    return "".join(f"# {line}\n" for line in once) + "---\n".join(map(as_yaml, documents))


def deployment(plan: Plan) -> Any:
    """Return the DynamoGraphDeployment: a frontend, and a worker for each replica."""
    backend = _backend(plan)
    (head, *options) = backend.worker(plan, f"{CONFIG_FOLDER}/{ENGINE_FILE}")
    options += backend.events(str(EVENTS_PORT))
    known = {"DYN_SYSTEM_PORT": str(SYSTEM_PORT), **backend.environment(plan)}
    program = list(head[head.index("python3") :])
    words = [word for option in options for word in option]
    if needs_arctic(plan):
        # In one line, where the operator finds the worker, and adds its options of several nodes.
        program, words = ["bash", "-c"], [f"{INSTALL} {shlex.join([*program, *words])}"]
    values = pod(plan, program, words, known)
    if backend.file is not None:
        folder = {"name": "engine", "mountPath": CONFIG_FOLDER, "readOnly": True}
        file = {"name": "engine", "configMap": {"name": f"{container_name(plan)}-engine"}}
        values["mounts"], values["volumes"] = (
            [*values["mounts"], folder],
            [*values["volumes"], file],
        )
    nodes = {"nodeCount": plan.nodes} if plan.nodes > 1 else None
    return made(plan, "dynamo", image=_image(plan), multinode=nodes, **values)


def deployment_request(plan: Plan) -> Any:
    """Return the DynamoGraphDeploymentRequest with the same targets."""
    targets, gpus = plan.request.targets, plan.request.gpus
    assert targets is not None
    both = targets.ttft is not None and targets.itl is not None
    return made(
        plan,
        "request",
        model=plan.target.name,
        backend=plan.request.backend,
        gpus=gpus.count,
        node=min(gpus.count, gpus.kind.node),
        isl=targets.isl,
        osl=targets.osl,
        rps=targets.rps,
        sla={"ttft": targets.ttft, "itl": targets.itl} if both else None,
        overrides={"trustRemoteCode": True} if plan.target.own_tokenizer else None,
    )
