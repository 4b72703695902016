"""Dynamo: its frontend with workers on this machine, and a DynamoGraphDeployment for Kubernetes.

Options checked against the wheel of ai-dynamo 1.6.1 (dynamo/frontend/frontend_args.py,
dynamo/{vllm,sglang,trtllm}, and profiler/utils/dgdr_v1beta1_types.py for the request of a deployment)
and ai-dynamo/dynamo at 2ac51dda (examples/backends/vllm/deploy/v1beta1/agg_router.yaml): a plan's
script runs with Dynamo's mocker (tests/app/deploy/test_dynamo_runs.py). Workers take the options of the
engine that computes; TensorRT-LLM's starts over nodes by ``trtllm-llmapi-launch``, as Dynamo's
multi-node examples have it. Events of caches go over ZeroMQ, Dynamo's default.
"""

from __future__ import annotations

import shlex
from typing import Any

from app.deploy.methods import ENGINE_TABLE, TRTLLM
from app.deploy.render import kubernetes, rendered
from app.deploy.render.engines import environment_of, node_options, trtllm_worker_config, worker
from app.deploy.render.kubernetes import made
from app.deploy.render.rendered import LOOPBACK, PORT, Rendered, Shell, command, script
from app.deploy.request import Plan

ENGINE_FILE, DEPLOYMENT, REQUEST = "engine.yaml", "deployment.yaml", "deployment-request.yaml"
CONFIG_FOLDER = "/plan"
EVENTS_PORT = 20080
MIGRATIONS = "3"
"""Workers that a reply may go on at, after one is lost."""
SYSTEM_PORT = 9090
"""Where a worker in a cluster has its metrics (DYN_SYSTEM_PORT)."""
FINDING = ("--router-mode", "kv", "--migration-limit", MIGRATIONS)

_OUTSIDE = ("ETCD_ENDPOINTS", "FRONTEND", "HTTP_HOST")
"""What the caller of a script on several nodes sets."""


def render(plan: Plan) -> Rendered:
    """Return a script for one machine, the same in Dynamo's image, and a deployment for a cluster."""
    # Workers on several nodes find each other through etcd.
    many, engine = plan.starts > 1 or plan.nodes > 1, plan.request.backend
    found = ['export ETCD_ENDPOINTS="${ETCD_ENDPOINTS:?http://HOST:2379 of an etcd}"'] * many
    before, comments = [rendered.HERE, *rendered.ranks(plan), *found], _says(plan, many)
    image = ENGINE_TABLE[plan.request.engine].image
    image = image.format("tensorrtllm" if engine == TRTLLM else engine)
    container = rendered.docker(
        plan,
        image,
        [("bash", f"{CONFIG_FOLDER}/start.sh")],
        environment={} if many else {"HTTP_HOST": rendered.ANYWHERE},
        mounts=['"$here:/plan:ro"'],
        passes=_OUTSIDE if many else (),
        on_host=many,
    )
    data = {ENGINE_FILE: rendered.as_yaml(trtllm_worker_config(plan))} if engine == TRTLLM else {}
    files = {DEPLOYMENT: _deployment(plan, image, data), **data}
    if plan.request.targets is not None:
        files[REQUEST] = rendered.as_yaml(_deployment_request(plan))
    if engine in kubernetes.PANELS:
        files[kubernetes.DASHBOARD] = kubernetes.dashboard(plan)
    return Rendered(
        script(*before, *_started(plan, many), says=comments),
        script(*before, container, says=comments),
        files,
        rendered.around(plan),
    )


def _says(plan: Plan, many: bool) -> list[str]:
    lines = rendered.says(plan)
    if plan.starts > 1:
        where = "groups of nodes" if plan.nodes > 1 else "nodes"
        lines.append(f"Run it on {plan.starts} {where}, on one of them with FRONTEND=1.")
    if many:
        lines.append(
            "ETCD_ENDPOINTS=http://HOST:2379 names an etcd that all nodes reach, HTTP_HOST the address "
            f"where clients reach the frontend ({LOOPBACK} by default): nothing there asks for a key."
        )
    if plan.request.backend != TRTLLM:  # they bind to a wildcard only
        lines.append(
            f"Workers publish the tokens in their caches at every address, from port {EVENTS_PORT}: let "
            "nobody else reach it."
        )
    return lines


def _started(plan: Plan, many: bool) -> list[str]:
    """Return lines that start the frontend, on one node, and a worker for each copy."""
    discovery = ("--discovery-backend", "etcd" if many else "file")
    address = Shell(f'"${{HTTP_HOST:-{LOOPBACK}}}"')
    program = ("python3", "-m", "dynamo.frontend")
    words = [program, ("--http-host", address, "--http-port", str(PORT)), FINDING, discovery]
    frontend = f"{command(words, indent='    ' if many else '')} &"
    if plan.starts > 1:
        frontend = f'if [ -n "${{FRONTEND:-}}" ]; then\n    {frontend}\nfi'
    elif plan.started_by_rank:
        frontend = f'if [ "$NODE_RANK" = 0 ]; then\n    {frontend}\nfi'
    port = str(EVENTS_PORT) if plan.copies_per_start == 1 else f"$(({EVENTS_PORT} + copy))"
    words = [*worker(plan, Shell(f'"$here/{ENGINE_FILE}"'), port, node_options(plan)), discovery]
    return rendered.together(frontend, rendered.each_copy(plan, words, environment_of(plan)))


def _deployment(plan: Plan, image: str, data: dict[str, str]) -> str:
    """Return the volume, a worker's files in ``data`` if it reads some, the DynamoGraphDeployment (a
    frontend, and a worker for each replica), and what Prometheus reads."""
    (head, *options) = worker(plan, f"{CONFIG_FOLDER}/{ENGINE_FILE}", str(EVENTS_PORT))
    program = head[head.index("python3") :]
    if rendered.needs_arctic(plan):
        # In one line, where the operator finds the worker, and adds its options of several nodes.
        words = [*program, *(word for option in options for word in option)]
        program, options = ("bash", "-c"), [(f"{rendered.INSTALL} {shlex.join(words)}",)]
    known = {"DYN_SYSTEM_PORT": str(SYSTEM_PORT), **environment_of(plan)}
    values = kubernetes.pod(plan, program, options, known)
    if data:
        folder = {"name": "engine", "mountPath": CONFIG_FOLDER, "readOnly": True}
        file = {"name": "engine", "configMap": {"name": f"{rendered.container_name(plan)}-engine"}}
        values["mounts"].append(folder)
        values["volumes"].append(file)
    nodes = {"nodeCount": plan.nodes} if plan.nodes > 1 else None
    documents = [
        *([made(plan, "engine", data=data)] if data else []),
        kubernetes.claim(plan),
        made(plan, "dynamo", image=image, multinode=nodes, **values),
        kubernetes.monitor(plan),
    ]
    once = "Once, before this: Dynamo's platform (its Helm chart dynamo-platform), and"
    return kubernetes.commented(documents, once, kubernetes.SETUP[0])


def _deployment_request(plan: Plan) -> Any:
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
