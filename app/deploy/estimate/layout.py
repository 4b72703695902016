"""How a model can be spread over GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.deploy.gpus import Gpus
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Layout:
    """``replicas`` copies; each splits every layer over ``tensor`` GPUs and the layers into ``pipeline``
    stages."""

    tensor: int
    pipeline: int
    replicas: int

    @property
    def copy(self) -> int:
        """GPUs of one copy."""
        return self.tensor * self.pipeline

    @property
    def gpus(self) -> int:
        """GPUs of all copies."""
        return self.copy * self.replicas

    def users(self, users: int) -> int:
        """Of all users, how many one copy has at most."""
        return -(-users // self.replicas)

    def nodes(self, node: int) -> int:
        """Nodes of ``node`` GPUs that one copy lies on."""
        return -(-self.copy // node)


def layouts(target: ModelFacts, gpus: Gpus, users: int, pipelines: bool) -> Iterator[Layout]:
    """Every way to use the GPUs; no more copies than users. Widths are powers of two that divide the
    attention heads, as engines need them; ``pipelines``: whether layers may lie in stages."""
    tensor = 1
    while tensor <= gpus.count and target.heads % tensor == 0:
        pipeline = 1
        while tensor * pipeline <= gpus.count and pipeline <= target.layers:
            copies = gpus.count // (tensor * pipeline)
            if _lies_in_nodes(tensor, gpus.kind.node) and (pipelines or pipeline == 1):
                yield Layout(tensor, pipeline, min(copies, users))
            pipeline *= 2
        tensor *= 2


def _lies_in_nodes(tensor: int, node: int) -> bool:
    """A width is a part of a node, or whole nodes."""
    return node % tensor == 0 or tensor % node == 0
