"""Random tensors of a small decoder, for tests of executors that need no checkpoint."""

from __future__ import annotations

import zlib
from dataclasses import replace

import torch
from torch import Tensor

from engine.models.architecture import (
    Architecture,
    Attention,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Recurrent,
    Rope,
    ShortConvolution,
)
from engine.models.tensor_shapes import Names, tensor_shapes

VOCABULARY, HIDDEN = 128, 64
ATTENTION = Attention(4, 2, 16, 0.25, Rope(tuple(0.5**pair for pair in range(8))))
DELTA = GatedDeltaNet(key_heads=4, value_heads=16, key_dim=16, value_dim=16, kernel=4)
MAMBA = Mamba2(heads=16, head_dim=16, groups=2, state=16, kernel=4)
CONVOLUTION = ShortConvolution(HIDDEN, 3)
MLP = GatedMlp(128, "silu")


def recurrent(mixer: Recurrent) -> Architecture:
    """Attention between two layers with ``mixer``."""
    assert isinstance(mixer, GatedDeltaNet | Mamba2 | ShortConvolution)
    return Architecture(
        layers=(LayerSpec(mixer, MLP), LayerSpec(ATTENTION, MLP), LayerSpec(mixer, MLP)),
        vocabulary=VOCABULARY,
        hidden=HIDDEN,
        epsilon=1e-6,
        tied=True,
    )


ARCHITECTURE = recurrent(DELTA)
_JOINED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def in_parts(architecture: Architecture) -> Architecture:
    """``architecture`` without joined matrices."""
    layers = []
    for spec in architecture.layers:
        mixer, feed_forward = spec.mixer, spec.feed_forward
        if isinstance(mixer, Attention):
            mixer = replace(mixer, joined=False)
        if isinstance(feed_forward, GatedMlp):
            feed_forward = replace(feed_forward, joined=False)
        layers.append(LayerSpec(mixer, feed_forward))
    return replace(architecture, layers=tuple(layers))


class RandomTensors(dict[str, Tensor]):
    """The tensors of a decoder by name, drawn when they are first read.

    A joined matrix has the rows of its parts. Vectors of one size are equal, so it makes no difference
    which of them a layer reads.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self._shapes = tensor_shapes(in_parts(architecture), Names())

    def __missing__(self, name: str) -> Tensor:
        for joined, parts in _JOINED.items():
            if joined in name:
                return torch.cat([self[name.replace(joined, part)] for part in parts])
        shape = self._shapes[name]
        seed = zlib.crc32((name if len(shape) > 1 else str(shape)).encode())
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        self[name] = noise / shape[-1] ** 0.5 if len(shape) > 1 else 1 + 0.2 * noise
        return self[name]
