"""Rendered plans, and what all renderers share: copies, nodes, containers, comments, commands, YAML."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from app.deploy.methods import SGLANG, VLLM
from app.deploy.plan import Plan

PORT = 8000
LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"
"""Servers listen on loopback; in a container on all addresses, with its port published on loopback."""

HUB_CACHE = "$HOME/.cache/huggingface"

Options = list[tuple[str, ...]]
"""An option with its values each; written one a line."""


class Shell(str):
    """Words that the shell expands: they are not quoted."""


def command(words: Options, environment: Mapping[str, str] | None = None, indent: str = "") -> str:
    """Return one command over several lines."""
    before = [f"{name}={quoted(value)}" for name, value in (environment or {}).items()]
    lines = [" ".join(quoted(word) for word in group) for group in words]
    lines[0] = " ".join([*before, lines[0]])
    return f" \\\n{indent}    ".join(lines)


def quoted(word: str) -> str:
    """Return ``word`` quoted for the shell."""
    return str(word) if isinstance(word, Shell) else shlex.quote(word)


def script(*parts: str, says: Sequence[str] = ()) -> str:
    """Return a script that stops at the first error; ``says`` are its comments."""
    head = ["#!/usr/bin/env bash", *(f"# {line}" for line in says), "set -euo pipefail"]
    return "\n".join([*head, *parts]) + "\n"


def as_yaml(value: Any) -> str:
    """Return YAML in the order of the keys."""
    return yaml.safe_dump(value, sort_keys=False, width=1000, allow_unicode=True)


@dataclass(frozen=True, slots=True)
class Rendered:
    """``start``: the script that starts everything; ``container``: the same in Docker; ``files``: texts
    by file name, which both read or a cluster gets."""

    start: str
    container: str
    files: Mapping[str, str]

    @property
    def folder(self) -> dict[str, str]:
        return {"start.sh": self.start, "docker.sh": self.container, **self.files}


def one_server(
    plan: Plan,
    checked: str,
    image: str,
    words: Options,
    inside: Options,
    environment: Mapping[str, str] | None = None,
) -> Rendered:
    """Return a server's command ``words``, and the command ``inside`` the container of ``image``."""
    comments, variables = says(plan, checked), {**devices(plan), **(environment or {})}
    start = script(*ranks(plan), command(words, variables), says=comments)
    container = docker(plan, image, inside, environment=variables)
    return Rendered(start, script(*ranks(plan), container, says=comments), {})


def docker(
    plan: Plan,
    image: str,
    words: Options,
    *,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
) -> str:
    """Return a docker command for ``words`` with GPUs, the hub's cache, and a local model's folder."""
    local = [name for name in (plan.target.name, plan.draft) if name and name.startswith("/")]
    run: Options = [
        ("docker", "run", "--rm", "--gpus", "all", "--ipc=host"),
        ("-p", f"{LOOPBACK}:{PORT}:{PORT}"),
        ("-v", Shell(f'"{HUB_CACHE}:/root/.cache/huggingface"')),
        *(("-v", f"{path}:{path}:ro") for path in local),
        *(("-v", Shell(mount)) for mount in mounts),
        ("-e", "HF_TOKEN"),
        *(("-e", f"{name}={value}") for name, value in (environment or {}).items()),
    ]
    if plan.nodes > 1:  # ranks find each other on the host's network
        run[1] = ("--network", "host")
    if plan.started_by_rank:
        run.append(("-e", "NODE_RANK", "-e", "HEAD_ADDRESS"))
    entry, *rest = words[0]
    return command([*run, ("--entrypoint", entry, image, *rest), *words[1:]])


def says(plan: Plan, checked: str) -> list[str]:
    """Return the comments at the head of every script."""
    times = plan.starts
    lines = [
        f"{plan.target.id} on {plan.layout.gpus}x{plan.request.gpus.kind.name}: {plan.method.title}.",
        f"Options checked against {checked}.",
    ]
    if plan.started_by_rank:
        lines.append(
            f"On each of the {plan.nodes} nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./start.sh"
        )
    elif plan.nodes > 1:
        lines.append(f"Once, where MPI reaches all {plan.nodes} nodes: mpirun starts the ranks.")
    if times > 1:
        where = "group of nodes" if plan.nodes > 1 else "node"
        lines.append(f"Start it on {times} {where}s and put a load balancer before them.")
        key = ", and add --api-key" if plan.request.engine in (VLLM, SGLANG) else ""
        lines.append(
            f"Where {LOOPBACK} stands, write the address that the load balancer asks{key}: nobody else "
            "should reach it."
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
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(used)))}


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
