"""Manifests for Kubernetes: volume, deployment, service, what Prometheus reads, and a dashboard.

The API's own Python models check the fields (tests/app/deploy/test_kubernetes.py). Metrics are named as
in the wheels of vLLM 0.31.0 and SGLang 0.5.21. A replica on several nodes is left to Dynamo's deployment,
whose operator starts them together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from app.deploy.methods import DYNAMO, VLLM
from app.deploy.render.rendered import (
    ANYWHERE,
    INSIDE,
    PORT,
    VLLM_KEY,
    Options,
    as_yaml,
    container_name,
    download_bytes,
    image_of,
)
from app.deploy.request import Plan
from app.deploy.tables import filled, table

GIB = 2**30
SPARE = 1.25
"""A volume is larger than the weights by this, for tokenizers and a second download."""

MANIFEST, DASHBOARD = "kubernetes.yaml", "grafana.json"

SETUP = (
    'kubectl create secret generic hf-token-secret --from-literal=HF_TOKEN="$HF_TOKEN"',
    'kubectl create secret generic api-key --from-literal=API_KEY="$API_KEY"',
)
"""What is run once, before a manifest is applied."""

PANELS = table("dashboard")
_MANIFESTS = table("manifests")


def made(plan: Plan, name: str, **values: Any) -> Any:
    """Return the manifest, or the part of one, of this name."""
    return filled(_MANIFESTS[name], {"app": container_name(plan), **values})


def manifest(
    plan: Plan, serve: Callable[[Plan, Options], Options], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the files for a cluster: none for a replica on several nodes."""
    if plan.nodes > 1:
        return {}
    key, secret = _key(plan)
    where: Options = [("--host", ANYWHERE, "--port", str(PORT)), *key]
    program, *options = _one_replica(serve(plan, where))
    words = [word for option in options for word in option]
    values = pod(plan, list(program), words, environment)
    documents = [
        claim(plan),
        made(plan, "deployment", image=image_of(plan), key=secret, **values),
        made(plan, "service"),
        monitor(plan),
    ]
    says = "".join(f"# {line}\n" for line in ("Once, before this:", *SETUP))
    text = says + "---\n".join(as_yaml(document) for document in documents)
    return {MANIFEST: text, DASHBOARD: dashboard(plan)}


def _key(plan: Plan) -> tuple[Options, Mapping[str, Any]]:
    """Return the option for a server's key, if it takes it by one, and where its variables are from."""
    secret = {"secretRef": {"name": "api-key"}}
    if plan.request.engine == VLLM:
        return [], {"prefix": VLLM_KEY.removesuffix("API_KEY"), **secret}
    return [("--api-key", "$(API_KEY)")], secret


def _one_replica(words: Options) -> Options:
    """Return the options of one replica: a pod each, instead of several in a server."""
    several = ("--data-parallel-size", "--dp-size")
    apart = any(
        "--enable-dp-attention" in each or "--enable-expert-parallel" in each for each in words
    )
    return words if apart else [each for each in words if each[0] not in several]


def claim(plan: Plan) -> Any:
    """Return the volume of the weights."""
    access = "ReadWriteMany" if plan.layout.replicas > 1 else "ReadWriteOnce"
    size = max(16, round(SPARE * download_bytes(plan) / GIB))
    return made(plan, "claim", access=access, size=f"{size}Gi")


def pod(
    plan: Plan, command: list[str], args: list[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of a pod's template. A local model's folder has to be on every node."""
    local = [name for name in (plan.target.name, plan.draft) if name and name.startswith("/")]
    folders = {f"model-{index}": path for index, path in enumerate(local)}
    held = [{"name": name, "hostPath": {"path": path, "type": "Directory"}}
            for name, path in folders.items()]  # fmt: skip
    mounted = [
        {"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()
    ]
    gpus = min(plan.layout.copy, plan.request.gpus.kind.node)
    kind = "amd.com/gpu" if plan.request.gpus.kind.is_amd else "nvidia.com/gpu"
    asked = {"kind": kind, "gpus": str(gpus), "cores": str(4 * gpus), "memory": f"{32 * gpus}Gi"}
    return {
        "replicas": plan.layout.replicas,
        "command": command,
        "args": args,
        "env": [
            {"name": name, "value": value} for name, value in {**INSIDE, **environment}.items()
        ],
        "resources": made(plan, "resources", **asked),
        "volumes": [*made(plan, "volumes"), *held],
        "mounts": [*made(plan, "mounts", cache=INSIDE["HF_HOME"]), *mounted],
    }


def monitor(plan: Plan) -> Any:
    """Return what tells the Prometheus operator to read the pods' metrics."""
    if plan.request.engine == DYNAMO:
        label = "nvidia.com/dynamo-graph-deployment-name"
        return made(plan, "monitor", label=label, port="system")
    return made(plan, "monitor", label="app", port="http")


def dashboard(plan: Plan) -> str:
    """Return a dashboard for Grafana: acceptance beside times and load."""
    panels = [
        made(plan, "panel", id=index + 1, x=12 * (index % 2), y=8 * (index // 2), **panel)
        for index, panel in enumerate(PANELS[plan.request.computes])
    ]
    return json.dumps(made(plan, "dashboard", model=plan.target.id, panels=panels), indent=1)
