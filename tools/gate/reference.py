"""The log probabilities of a model's own weights on a text, for ``closeness``.

    python -m tools.gate.reference MODEL TEXT LOGITS

The weights are widened to fp32 and multiplied by torch's own products, one layer in memory at a time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.torch.decoder import TorchDecoder
from engine.kernels.formats.blocks import widen
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.machine import threads
from engine.models.base import ModelInfo
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.tensors import open_tensors
from engine.models.families import FAMILIES
from engine.models.tensor_shapes import Names
from engine.models.weights import Layer
from tools.gate.closeness import window

PRODUCTS = Kernels(
    linear=lambda weight: functools.partial(F.linear, weight=widen(weight)),
    embedding=plain_embedding,
)


class _Layers:
    """A decoder's layers, of which the one that was asked for last is in memory."""

    def __init__(self, loads: Sequence[Callable[[], Layer]]) -> None:
        self._loads = loads
        self._last: tuple[int, Layer] | None = None

    def __getitem__(self, index: int) -> Layer:
        if self._last is None or self._last[0] != index:
            self._last = None  # frees the one before
            self._last = index, self._loads[index]()
        return self._last[1]


class Reference(TorchDecoder):
    """The plain decoder in fp32 with one layer in memory at a time."""

    def __init__(self, checkpoint: Checkpoint, context: int) -> None:
        architecture = FAMILIES[checkpoint.architecture](checkpoint, context)
        info = ModelInfo(
            name=checkpoint.name, architecture=checkpoint.architecture,
            vocabulary=checkpoint.vocabulary, context=context, parameters=checkpoint.parameters,
            quantization="fp32", device="cpu", eos=frozenset(),
        )  # fmt: skip
        tensors = open_tensors(checkpoint, torch.float32, torch.device("cpu"))
        super().__init__(architecture, Names.among(checkpoint.tensors), tensors, info, PRODUCTS)
        self.layers: Any = _Layers(self.layers)

    def _load(self, *arguments: Any) -> Any:
        return functools.partial(super()._load, *arguments)

    @torch.inference_mode()
    def read(self, tokens: Sequence[int], last: int) -> Tensor:
        """Return the logits of the ``last`` tokens; all are computed in one step."""
        hidden = self.step(torch.tensor(tokens), self.new_state(len(tokens)))
        return self.predict(hidden[-last:])


def write_reference(path: Path, text: Path, out: Path) -> None:
    """Write the log probabilities float32 ``(positions, vocabulary)``."""
    checkpoint = inspect(path)
    tokens, positions = window(path, text, checkpoint.context)
    logits = Reference(checkpoint, len(tokens)).read(tokens, positions)
    torch.save(logits.log_softmax(-1), out)


if __name__ == "__main__":
    threads.use()
    write_reference(*map(Path, sys.argv[1:4]))
