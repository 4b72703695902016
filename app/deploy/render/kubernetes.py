"""Manifests for Kubernetes: volume, deployment, service, what Prometheus reads, and a dashboard.

The API's own Python models check the fields (tests/app/deploy/test_kubernetes.py). Metrics are named as
in the wheels of vLLM 0.31.0 and SGLang 0.5.21. A replica on several nodes is left to Dynamo's deployment,
whose operator starts them together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.deploy.methods import DYNAMO, VLLM
from app.deploy.render import rendered
from app.deploy.render.engines import environment_of, server
from app.deploy.render.rendered import INSIDE, Options, as_yaml
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
    return filled(_MANIFESTS[name], {"app": rendered.container_name(plan), **values})


def manifest(plan: Plan) -> dict[str, str]:
    """Return the files for a cluster: none for a replica on several nodes."""
    if plan.nodes > 1:
        return {}
    secret: dict[str, Any] = {"secretRef": {"name": "api-key"}}
    where: Options = [("--host", rendered.ANYWHERE, "--port", str(rendered.PORT))]
    if plan.request.engine == VLLM:
        secret = {"prefix": rendered.VLLM_KEY.removesuffix("API_KEY"), **secret}
    else:
        where.append(("--api-key", "$(API_KEY)"))
    program, *options = rendered.installed(plan, server(plan, where, copies=1))
    documents = [
        claim(plan),
        made(plan, "deployment", image=rendered.image_of(plan), key=secret,
             **pod(plan, program, options, environment_of(plan))),
        made(plan, "service"),
        monitor(plan),
    ]  # fmt: skip
    return {
        MANIFEST: commented(documents, "Once, before this:", *SETUP),
        DASHBOARD: dashboard(plan),
    }


def commented(documents: Sequence[Any], *lines: str) -> str:
    """Return one YAML of ``documents``, after ``lines`` as comments."""
    return "".join(f"# {line}\n" for line in lines) + "---\n".join(map(as_yaml, documents))


def claim(plan: Plan) -> Any:
    """Return the volume of the weights."""
    access = "ReadWriteMany" if plan.layout.replicas > 1 else "ReadWriteOnce"
    size = max(16, round(SPARE * rendered.download_bytes(plan) / GIB))
    return made(plan, "claim", access=access, size=f"{size}Gi")


def pod(
    plan: Plan, command: Sequence[str], options: Options, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of a pod's template. A local model's folder has to be on every node."""
    held, mounted = [], []
    for index, path in enumerate(rendered.local_folders(plan)):
        name = f"model-{index}"
        held.append({"name": name, "hostPath": {"path": path, "type": "Directory"}})
        mounted.append({"name": name, "mountPath": path, "readOnly": True})
    gpus = min(plan.layout.copy, plan.request.gpus.kind.node)
    kind = "amd.com/gpu" if plan.request.gpus.kind.is_amd else "nvidia.com/gpu"
    asked = {"kind": kind, "gpus": str(gpus), "cores": str(4 * gpus), "memory": f"{32 * gpus}Gi"}
    variables = {**INSIDE, **environment}
    return {
        "replicas": plan.layout.replicas,
        "command": [*command],
        "args": [word for option in options for word in option],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
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
