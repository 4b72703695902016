"""Layouts of a model on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.deploy.gpus import Gpus
from app.deploy.model import ModelFacts


@dataclass(frozen=True, slots=True)
class Layout:
    """``replicas`` copies, each with tensor and pipeline parallelism. ``expert``: whole experts lie on
    so many GPUs, instead of a part of each on all. ``attention``: so many groups of GPUs attend for
    their own sequences each."""

    tensor: int
    pipeline: int
    replicas: int
    expert: int = 1
    attention: int = 1

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


def layouts(
    target: ModelFacts, gpus: Gpus, users: int, pipelines: bool, attends_apart: bool = False
) -> Iterator[Layout]:
    """Yield every layout, with no more copies than users. Tensor parallelism is a power of two that
    divides the attention heads, as engines need it; ``pipelines``: allow stages; ``attends_apart``: allow
    data-parallel attention, which latent attention needs to divide its cache."""
    tensor = 1
    while tensor <= gpus.count and target.heads % tensor == 0:
        pipeline = 1
        while tensor * pipeline <= gpus.count and pipeline <= target.layers:
            copies = min(gpus.count // (tensor * pipeline), users)
            if _lies_in_nodes(tensor, gpus.kind.node) and (pipelines or pipeline == 1):
                yield from _ways(target, tensor, pipeline, copies)
                if attends_apart and pipeline == 1 and 1 < tensor <= users // copies:
                    yield Layout(tensor, 1, copies, tensor, tensor)
            pipeline *= 2
        tensor *= 2


def _ways(target: ModelFacts, tensor: int, pipeline: int, copies: int) -> Iterator[Layout]:
    """Yield the layout with a part of each expert on every GPU, or, where those are no whole blocks of an
    FP8 scale, with whole experts; none if parts of other layers are no whole blocks."""
    block, layer = target.block, target.last_layer
    if not block or tensor == 1:
        yield Layout(tensor, pipeline, copies)
        return
    if any(width % (block * tensor) for width in target.widths):
        return
    if not layer.experts or target.expert_width % (block * tensor) == 0:
        yield Layout(tensor, pipeline, copies)
    elif layer.experts % tensor == 0:
        yield Layout(tensor, pipeline, copies, tensor)


def _lies_in_nodes(tensor: int, node: int) -> bool:
    return node % tensor == 0 or tensor % node == 0
