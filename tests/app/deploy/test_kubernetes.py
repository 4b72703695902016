"""Manifests are what Kubernetes takes: every field by the API's own Python models, or Dynamo's own types.

The models are those of the package ``kubernetes``, which Dynamo needs: it runs where FORETOKEN_DYNAMO
names a virtual environment with both (tools/peers/install_dynamo.sh).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from app.deploy.render import render
from app.deploy.render.kubernetes import PANELS
from tests.app.deploy.example_plans import PLANS, example_plan
from tests.support.dynamo import VARIABLE
from tests.support.parsers import parsed_there

CHECK = """
import importlib.util, json, re, sys, types
from pathlib import Path
from kubernetes import client

KINDS = {"PersistentVolumeClaim": "V1PersistentVolumeClaim", "Deployment": "V1Deployment",
         "Service": "V1Service", "ConfigMap": "V1ConfigMap", "Pod": "V1PodSpec"}


def check(value, kind, where, wrong):
    if found := re.fullmatch(r"list\\[(.*)\\]", kind):
        if not isinstance(value, list):
            wrong.append(f"{where} is no list")
            return
        for index, item in enumerate(value):
            check(item, found[1], f"{where}[{index}]", wrong)
    elif found := re.fullmatch(r"dict\\(str, (.*)\\)", kind):
        for key, item in value.items():
            check(item, found[1], f"{where}.{key}", wrong)
    elif hasattr(client, kind) and isinstance(value, dict):
        model = getattr(client, kind)
        names = {there: here for here, there in model.attribute_map.items()}
        for key, item in value.items():
            if key not in names:
                wrong.append(f"{where}.{key} is unknown to {kind}")
            else:
                check(item, model.openapi_types[names[key]], f"{where}.{key}", wrong)
        given = {names[key]: item for key, item in value.items() if key in names}
        try:
            model(**given)  # its constructor knows what is required
        except ValueError as error:
            wrong.append(f"{where}: {error}")
    elif kind in ("str", "int", "bool"):
        if type(value).__name__ != kind:
            wrong.append(f"{where} is {value!r}, no {kind}")


# The types are read without Dynamo's planner, which needs more packages than the worker.
for part in ("planner", "planner.config", "planner.config.planner_config"):
    stub = sys.modules[f"dynamo.{part}"] = types.ModuleType(f"dynamo.{part}")
    stub.__path__, stub.__getattr__ = [], lambda name: dict
file = Path(importlib.util.find_spec("dynamo.frontend").origin).parents[1]
file = file / "profiler/utils/dgdr_v1beta1_types.py"
spec = importlib.util.spec_from_file_location("dgdr", file)
dgdr = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dgdr)

wrong, checked = [], 0
for name, kind, document in json.load(sys.stdin):
    if kind in KINDS:
        check(document, KINDS[kind], name, wrong)
        checked += 1
    elif kind == "DynamoGraphDeploymentRequest":
        model = dgdr.DynamoGraphDeploymentRequestSpec
        wrong += [f"{name}.{key} is unknown" for key in set(document["spec"]) - set(model.model_fields)]
        model.model_validate(document["spec"])
        checked += 1
print(json.dumps({"wrong": wrong, "checked": checked}))
"""


def documents() -> list[tuple[str, str, object]]:
    """Every document of the example plans, and the pods inside of Dynamo's."""
    found: list[tuple[str, str, object]] = []
    for name in PLANS:
        for file, text in render(example_plan(name)).files.items():
            if not file.startswith(("kubernetes", "deployment")):
                continue
            for document in yaml.safe_load_all(text):
                found.append((f"{name}/{file}", document["kind"], document))
                for part in document.get("spec", {}).get("components", []):
                    pod = part["podTemplate"]["spec"]
                    found.append((f"{name}/{file}/{part['name']}", "Pod", pod))
    return found


@pytest.mark.dynamo
@pytest.mark.slow
def test_the_api_s_models_know_every_field() -> None:
    given = documents()
    found = parsed_there(VARIABLE, CHECK, given)
    assert found["wrong"] == []
    assert found["checked"] > 100


def test_a_cluster_gets_all_that_a_deployment_needs() -> None:
    text = render(example_plan("vllm-eagle3-copies")).files["kubernetes.yaml"]
    kinds = [document["kind"] for document in yaml.safe_load_all(text)]
    assert kinds == ["PersistentVolumeClaim", "Deployment", "Service", "PodMonitor"]
    for part in (
        "kubectl create secret generic hf-token-secret",
        "claimName: llama-3-1-8b-weights",
        "startupProbe:",
        "readinessProbe:",
        "ephemeral-storage:",
        "replicas: 8",
    ):
        assert part in text, part
    assert "--data-parallel-size" not in text  # a pod is one copy


def test_a_pod_of_whole_experts_starts_one_copy_too() -> None:
    """It had four GPUs, and was told to start both copies of the node."""
    rendered = render(example_plan("vllm-experts-copies"))
    assert "--data-parallel-size 2" in rendered.start
    pod = rendered.files["kubernetes.yaml"]
    assert "replicas: 2" in pod
    assert "--enable-expert-parallel" in pod
    assert "--data-parallel-size" not in pod


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("vllm-eagle3", {"prefix": "VLLM_", "secretRef": {"name": "api-key"}}),
        ("sglang-eagle3", {"secretRef": {"name": "api-key"}}),
    ],
)
def test_a_pod_has_its_key_from_a_secret(name: str, source: dict[str, object]) -> None:
    """vLLM reads VLLM_API_KEY; SGLang has an option only, which shows the key on its command line."""
    text = render(example_plan(name)).files["kubernetes.yaml"]
    (deployment,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert source in container["envFrom"]
    assert ("$(API_KEY)" in container["args"]) == (name == "sglang-eagle3")


@pytest.mark.parametrize("name", ["vllm-eagle3", "dynamo-vllm-eagle3"])
def test_weights_lie_where_any_user_of_an_image_finds_them(name: str) -> None:
    """Dynamo's images run as a user of their own, who found nothing under /root."""
    rendered = render(example_plan(name))
    assert '.cache/huggingface:/hub"' in rendered.container
    assert "-e HF_HOME=/hub" in rendered.container
    found = list(containers("".join(rendered.files.values())))
    (computes,) = (container for container in found if "volumeMounts" in container)
    assert {"name": "HF_HOME", "value": "/hub"} in computes["env"]
    assert {"name": "weights", "mountPath": "/hub"} in computes["volumeMounts"]


def containers(text: str) -> Iterator[dict[str, Any]]:
    """Every container of a cluster's files."""
    (text, *_) = text.split('{\n "title"')  # a dashboard follows
    for document in yaml.safe_load_all(text):
        spec = document.get("spec", {})
        parts = [part["podTemplate"] for part in spec.get("components", [])]
        for pod in [*parts, *([spec["template"]] if "template" in spec else [])]:
            yield from pod["spec"]["containers"]


def test_dynamo_s_deployment_routes_by_caches_and_keeps_weights() -> None:
    text = render(example_plan("dynamo-vllm-nodes")).files["deployment.yaml"]
    for part in (
        "DYN_ROUTER_MODE",
        "DYN_MIGRATION_LIMIT",
        "enable_kv_cache_events",
        "persistentVolumeClaim",
        "DYN_SYSTEM_PORT",
        "dynamo-platform",
    ):
        assert part in text, part


def test_a_request_for_a_deployment_has_the_same_targets() -> None:
    text = render(example_plan("dynamo-vllm-nodes")).files["deployment-request.yaml"]
    spec = yaml.safe_load(text)["spec"]
    assert spec["workload"] == {"isl": 1536, "osl": 512, "requestRate": 20.0}
    assert spec["sla"] == {"ttft": 2000.0, "itl": 30.0}


@pytest.mark.parametrize("name", ["vllm-eagle3", "sglang-eagle3"])
def test_the_dashboard_shows_acceptance(name: str) -> None:
    board = json.loads(render(example_plan(name)).files["grafana.json"])
    titles = [panel["title"] for panel in board["panels"]]
    assert titles[:2] == ["Acceptance rate", "Tokens per round"]
    assert len(titles) == len(PANELS[name.split("-", maxsplit=1)[0]])
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(titles)
