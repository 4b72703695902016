"""Rendered plans, and what all renderers share: copies, nodes, containers, comments, commands, YAML."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from app.deploy.estimate.network import mtp_layer, of_model
from app.deploy.gpus import CDNA4
from app.deploy.methods import ENGINE_TABLE, SGLANG, TRTLLM, VLLM
from app.deploy.model import STAND_IN
from app.deploy.request import Plan
from app.deploy.tables import filled, table

PORT = 8000
LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"
"""Servers listen on loopback; in a container on all addresses, with its port published on loopback."""

HUB_CACHE = "$HOME/.cache/huggingface"
INSIDE = {"HF_HOME": "/hub"}
"""The same in a container, away from any home: Dynamo's images have a user of their own."""


HERE = 'here="$(cd "$(dirname "$0")" && pwd)"'
Options = list[tuple[str, ...]]
"""An option with its values each; written one a line."""


class Shell(str):
    """Words that the shell expands: they are not quoted."""


KEY: Options = [(Shell('${API_KEY:+--api-key "$API_KEY"}'),)]
"""SGLang's option to demand a key, which it reads from nowhere else. vLLM reads a variable, which other
accounts of the machine do not see."""

VLLM_KEY = "VLLM_API_KEY"
"""Empty, it demands none (vllm/entrypoints/serve/middleware/register.py)."""

ARCTIC = "arctic-inference==0.1.1"
"""What vLLM's suffix decoding needs beside it (vllm/config/speculative.py)."""

INSTALL = f"python3 -m pip install {ARCTIC} || uv pip install --python python3 {ARCTIC} && exec"
"""vLLM's image has pip, Dynamo's has uv."""


def given(*options: tuple[str, ...] | Literal[False]) -> Options:
    """Return the options without those whose condition is false."""
    return [option for option in options if option]


def command(words: Options, environment: Mapping[str, str] | None = None, indent: str = "") -> str:
    """Return one command over several lines."""
    before = [f"{name}={quoted(value)}" for name, value in (environment or {}).items()]
    lines = [" ".join(quoted(word) for word in group) for group in words]
    lines[0] = " ".join([*before, lines[0]])
    return f" \\\n{indent}    ".join(lines)


def quoted(word: str) -> str:
    """Return ``word`` quoted for the shell."""
    return str(word) if isinstance(word, Shell) else shlex.quote(word)


ENDS = (
    "trap exit TERM HUP",
    "trap 'trap - INT; kill -INT $$; exit 130' INT",
    "trap 'kill $(jobs -pr) 2>/dev/null || true; wait' EXIT",
)


def together(*started: str) -> list[str]:
    """Return lines that start commands in the background, wait for them, and end them with the script.
    Each must be a child of the script itself: a signal to a subshell would not reach what it runs. It is
    not sent to the process group, which the script shares with its caller. After Ctrl+C the script ends
    by that signal, so that a calling shell stops too; the first process of a container can only exit."""
    return [*ENDS, *started, "wait"]


def script(*parts: str, says: Sequence[str] = ()) -> str:
    """Return a script that stops at the first error; ``says`` are its comments."""
    head = ["#!/usr/bin/env bash", *map(comment, says), "set -euo pipefail"]
    return "\n".join([*head, *parts]) + "\n"


def comment(text: str) -> str:
    """Return a comment in one line: what follows a line feed in a folder's name would be run."""
    return f"# {' '.join(text.splitlines())}"


class _Dumper(yaml.SafeDumper):
    """Writes out what occurs twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(value: Any) -> str:
    """Return YAML in the order of the keys."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True))


@dataclass(frozen=True, slots=True)
class Rendered:
    """``start``: the script that starts everything; ``container``: the same in Docker; ``files``: texts
    by file name, which both read or a cluster gets; ``around``: scripts for before and after."""

    start: str
    container: str
    files: Mapping[str, str]
    around: Mapping[str, str]

    @property
    def folder(self) -> dict[str, str]:
        return {"start.sh": self.start, "docker.sh": self.container, **self.files, **self.around}


def docker(
    plan: Plan,
    image: str,
    words: Options,
    *,
    environment: Mapping[str, str],
    mounts: Sequence[str] = (),
    passes: Sequence[str] = (),
    on_host: bool = False,
) -> str:
    """Return a docker command for ``words`` with GPUs, the hub's cache, and a local model's folder; with
    what vLLM's suffix decoding needs installed before. ``mounts`` may name the script's folder as
    ``$here``. ``passes``: variables that are passed on if they are set. ``on_host``: the container is on
    the host's network, where ranks find each other."""
    gpus = _AMD_DEVICES if plan.request.gpus.kind.is_amd else ("--gpus", "all")
    passed = (
        "HF_TOKEN",
        *passes,
        *([VLLM_KEY] if behind_balancer(plan) and plan.request.engine == VLLM else []),
    )
    address = (
        Shell(f'"$HOST:{PORT}:{PORT}"') if behind_balancer(plan) else f"{LOOPBACK}:{PORT}:{PORT}"
    )
    several = plan.nodes > 1
    infiniband = Shell("$([ ! -e /dev/infiniband ] || echo --device /dev/infiniband)")
    run = given(
        ("docker", "run", "--rm", "--name", container_name(plan), *gpus, "--ipc=host"),
        ("--ulimit", "memlock=-1", "--ulimit", "stack=67108864"),
        ("--network", "host") if on_host or several else ("-p", address),
        ("-v", Shell(f'"{HUB_CACHE}:{INSIDE["HF_HOME"]}"')),
        *(("-v", f"{path}:{path}:ro") for path in local_folders(plan)),
        *(("-v", Shell(mount)) for mount in mounts),
        tuple(word for name in passed for word in ("-e", name)),
        *(("-e", f"{name}={value}") for name, value in {**INSIDE, **environment}.items()),
        several and (infiniband,),
        several and ("-e", "NCCL_SOCKET_IFNAME", "-e", "NCCL_IB_HCA"),
        plan.started_by_rank and ("-e", "NODE_RANK", "-e", "HEAD_ADDRESS"),
    )
    entry, *rest = (words := installed(plan, words))[0]
    return command([*run, ("--entrypoint", entry, image, *rest), *words[1:]])


def local_folders(plan: Plan) -> list[str]:
    """Return the folders of this machine that models are loaded from."""
    return [name for name in (plan.target.name, plan.draft) if name and name.startswith("/")]


_AMD_DEVICES = ("--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video")
_AMD_IMAGES = {VLLM: "vllm/vllm-openai-rocm:v{}", SGLANG: "lmsysorg/sglang:v{}-rocm720-mi3{}x"}
"""AMD's images, by the pattern of the tags in SemiAnalysisAI/InferenceX at 843c6254."""


def image_of(plan: Plan) -> str:
    """Return the image of the engine that computes."""
    engine, gpu = ENGINE_TABLE[plan.request.computes], plan.request.gpus.kind
    if gpu.is_amd:
        series = 5 if gpu.architecture == CDNA4 else 0
        return _AMD_IMAGES[plan.request.computes].format(engine.version, series)
    return engine.image


def container_name(plan: Plan) -> str:
    """Return the name of the container, which is valid for Kubernetes too: a service's begins with a
    letter."""
    name = re.sub(r"[^a-z0-9]+", "-", plan.target.id.rsplit("/", 1)[-1].lower()).strip("-")
    return (name if name[:1].isalpha() else f"model-{name}")[:50].strip("-")


def behind_balancer(plan: Plan) -> bool:
    """Return whether the script is run on several nodes, with a load balancer before them."""
    return plan.starts > 1 and plan.request.engine in (VLLM, SGLANG, TRTLLM)


def _takes_key(plan: Plan) -> bool:
    return plan.request.engine in (VLLM, SGLANG)


def listens(plan: Plan) -> list[str]:
    """Return lines that require a key to listen beyond this machine, if a load balancer needs that."""
    if not behind_balancer(plan):
        return []
    lines = [f'export HOST="${{HOST:-{LOOPBACK}}}"']
    if _takes_key(plan):
        lines += [
            'export API_KEY="${API_KEY:-}"',
            f'[ "$HOST" = {LOOPBACK} ] || : "${{API_KEY:?set a key that clients send, or leave HOST}}"',
            *([f'export {VLLM_KEY}="$API_KEY"'] if plan.request.engine == VLLM else []),
        ]
    return lines


def host(plan: Plan, inside: bool = False, port: str = str(PORT)) -> Options:
    """Return where a server listens, in a container or not, and the key that it demands. A container of
    several nodes is on the host's network."""
    balanced = behind_balancer(plan)
    address = Shell('"$HOST"') if balanced else LOOPBACK
    where = ("--host", ANYWHERE if inside and plan.nodes == 1 else address, "--port", port)
    return [where, *(KEY if balanced and plan.request.engine == SGLANG else [])]


def says(plan: Plan) -> list[str]:
    """Return the comments at the head of every script."""
    engine, computes = ENGINE_TABLE[plan.request.engine], ENGINE_TABLE[plan.request.computes]
    behind = f" with {computes.checked}" if engine is not computes else ""
    lines = [
        f"{plan.target.id} on {plan.layout.gpus}x{plan.request.gpus.kind.name}: {plan.method.title}.",
        f"Options checked against {engine.checked}{behind}.",
    ]
    if needs_arctic(plan):
        lines.append(f"Needs {ARCTIC} beside vLLM (pip install), which containers install first.")
    if plan.started_by_rank:
        lines.append(
            f"On each of the {plan.nodes} nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./this.sh"
        )
    elif plan.nodes > 1:
        lines.append(
            f"Once, on a machine where MPI reaches all {plan.nodes} nodes: mpirun starts the ranks."
        )
    if behind_balancer(plan):
        where = "group of nodes" if plan.nodes > 1 else "node"
        key = "API_KEY=... " if _takes_key(plan) else ""
        lines.append(
            f"Run it on {plan.starts} {where}s as {key}HOST=ADDRESS ./this.sh, with an address that only "
            "a load balancer reaches, and put that in front."
        )
    return lines


def ranks(plan: Plan) -> list[str]:
    """Return lines that require the variables of a node, if nodes are started one by one."""
    if not plan.started_by_rank:
        return []
    return ['export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"',
            'export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"']  # fmt: skip


def devices(plan: Plan) -> dict[str, str]:
    """Return the GPUs to use, if some of a node stay free."""
    here = plan.copies_per_start
    used = here * plan.layout.copy
    if plan.nodes > 1 or used >= min(plan.request.gpus.count, plan.request.gpus.kind.node):
        return {}
    name = "HIP_VISIBLE_DEVICES" if plan.request.gpus.kind.is_amd else "CUDA_VISIBLE_DEVICES"
    return {name: ",".join(map(str, range(used)))}


def each_copy(plan: Plan, words: Options, environment: Mapping[str, str] | None = None) -> str:
    """Return a command that starts every copy of this node on its own GPUs, in the background. With
    several copies, ``$copy`` in ``words`` counts from 0."""
    here = plan.copies_per_start
    width = plan.layout.copy
    if here == 1:
        return command(words, {**devices(plan), **(environment or {})}) + " &"
    first = f"$((copy * {width}))"
    several = f'"$(seq -s, {first} $((copy * {width} + {width - 1})))"'
    own = Shell('"$copy"' if width == 1 else several)
    line = command(words, {"CUDA_VISIBLE_DEVICES": own, **(environment or {})}, "    ")
    return f"for copy in {' '.join(map(str, range(here)))}; do\n    {line} &\ndone"


def around(plan: Plan) -> dict[str, str]:
    """Return the scripts for before and after: download, a test call, and the end."""
    names = [name for name in (plan.target.name, plan.draft) if name]
    fetched = [name for name in names if not name.startswith(("/", STAND_IN))]
    message = {"role": "user", "content": "Write a function that reverses a list."}
    said = {"model": plan.target.name, "messages": [message], "max_tokens": 128}
    values = {"said": quoted(json.dumps(said)), "app": container_name(plan)}
    parts = {name: text.rstrip("\n") for name, text in filled(table("scripts"), values).items()}
    download = [f"hf download {quoted(name)}" for name in fetched]
    if needs_tiktoken(plan):
        download.append(parts["tiktoken"])
    forget = [
        comment(f"rm -r {HUB_CACHE}/hub/models--{name.replace('/', '--')}") for name in fetched
    ]
    size = f"About {download_bytes(plan) / 1e9:,.0f} GB, into {HUB_CACHE}."
    if not download:
        size = f"Nothing to download: {' and '.join(names)} should be on this machine."
        download = [f"echo {quoted(size)}"]
    return {
        "download.sh": script(*download, says=[size]),
        "test.sh": script(
            parts["test"], says=["One reply, then what the server counted of drafts."]
        ),
        "stop.sh": script(
            parts["stop"], *forget, says=["Ends docker.sh; end start.sh with Ctrl+C."]
        ),
    }


def needs_arctic(plan: Plan) -> bool:
    """Return whether the method needs a package that vLLM's and Dynamo's images lack."""
    return plan.request.computes == VLLM and plan.request.method == "suffix"


def installed(plan: Plan, words: Options) -> Options:
    """Return a container's command, which first installs what the method needs."""
    if not needs_arctic(plan):
        return words
    return [("bash", "-c", f'{INSTALL} "$@"', "start"), *words]


def download_bytes(plan: Plan) -> float:
    """Return the bytes that are downloaded: the weights as published, with MTP layers and before the
    engine converts them, and a drafter; none of a folder."""
    checkpoint = plan.request.target if plan.quantised_online else plan.target
    layers = checkpoint.modules * mtp_layer(checkpoint).total_weights
    sizes = {
        checkpoint.name: of_model(checkpoint).total_weights + layers,
        plan.draft: plan.setup.drafter.weights,
    }
    return sum(size for name, size in sizes.items() if name and not name.startswith("/"))


def needs_tiktoken(plan: Plan) -> bool:
    """Return whether the model's format reads encodings that NVIDIA's container has to be given."""
    return plan.request.computes == TRTLLM and plan.target.model_type == "gpt_oss"
