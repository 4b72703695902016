"""What a renderer leaves, and what all of them do alike: copies on GPUs, nodes, containers, comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.deploy.engines import SGLANG, VLLM
from app.deploy.plan import Plan
from app.deploy.render.shell import Options, Shell, command

PORT = 8000
LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"
"""Servers listen on this machine only; inside a container anywhere, and its port is opened to this
machine only."""

HUB_CACHE = "$HOME/.cache/huggingface"


@dataclass(frozen=True, slots=True)
class Rendered:
    """Texts, by file name. ``start`` is the script that starts it all, ``container`` the same in Docker.

    ``files`` are what both read, and what a cluster is given.
    """

    start: str
    container: str
    files: Mapping[str, str]

    @property
    def folder(self) -> dict[str, str]:
        """All files."""
        return {"start.sh": self.start, "docker.sh": self.container, **self.files}


def docker(
    plan: Plan,
    image: str,
    words: Options,
    *,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
) -> str:
    """``words`` in a container that sees the hub's cache, the model where it is a folder, and GPUs."""
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
    """The comments at the head of every script."""
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
    """Lines that ask for what tells nodes apart, where they are started one by one."""
    if not plan.started_by_rank:
        return []
    return ['export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"',
            'export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"']  # fmt: skip


def devices(plan: Plan) -> dict[str, str]:
    """The GPUs to use where some of a node stay free."""
    here = plan.copies_per_start
    used = here * plan.layout.copy
    if plan.nodes > 1 or used >= min(plan.request.gpus.count, plan.request.gpus.kind.node):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(used)))}


def each_copy(plan: Plan, words: Options, environment: Mapping[str, str] | None = None) -> str:
    """``words`` once for every copy of this node, each on its own GPUs, in the background.

    Where there are several, ``$copy`` in the words counts from 0.
    """
    here = plan.copies_per_start
    width = plan.layout.copy
    if here == 1:
        return command(words, {**devices(plan), **(environment or {})}) + " &"
    first = f"$((copy * {width}))"
    several = f'"$(seq -s, {first} $((copy * {width} + {width - 1})))"'
    own = Shell('"$copy"' if width == 1 else several)
    line = command(words, {"CUDA_VISIBLE_DEVICES": own, **(environment or {})}, "    ")
    return f"for copy in {' '.join(map(str, range(here)))}; do\n    {line} &\ndone"
