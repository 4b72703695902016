"""Layouts of a model on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.deploy.gpus import Gpus
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Layout:
    """``replicas`` copies, each with tensor and pipeline parallelism."""

    tensor: int
    pipeline: int
    replicas: int

    @property
    def copy(self) -> int:
        return self.tensor * self.pipeline

    @property
    def gpus(self) -> int:
        return self.copy * self.replicas

    def users(self, users: int) -> int:
        """Return the most users of one copy."""
        return -(-users // self.replicas)

    def nodes(self, node: int) -> int:
        """Return the nodes, of ``node`` GPUs each, of one copy."""
        return -(-self.copy // node)


def layouts(target: ModelFacts, gpus: Gpus, users: int, pipelines: bool) -> Iterator[Layout]:
    """Yield every layout, with no more copies than users. Tensor parallelism is a power of two that
    divides the attention heads, as engines need it; ``pipelines``: allow stages."""
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
    return node % tensor == 0 or tensor % node == 0
