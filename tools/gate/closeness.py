"""How close a model, as it is run, is to its file's own weights: mean KL divergence on a kept text.

A script that runs in any checkout, so it imports nothing of this package:

    python closeness.py reference MODEL TEXT LOGITS
    python closeness.py measure MODEL TEXT LOGITS QUANTIZATION

The first writes the log probabilities of the weights, widened to fp32 and multiplied by torch's own
products, at the last POSITIONS of WINDOW tokens of the text. One layer is in memory at a time. The second
prints the mean of KL(reference || model) over them as JSON. The model reads them 16 rows at a time, as
it verifies drafts.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.backends.torch.decoder import TorchDecoder
from engine.decoding.text.codec import TextCodec
from engine.kernels.formats.blocks import widen
from engine.kernels.torch.factory import Kernels, plain_embedding
from engine.loading.loader import load_model
from engine.machine import threads
from engine.models.base import ModelInfo
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.tensors import open_tensors
from engine.models.families import FAMILIES
from engine.models.weights import Layer, Names

WINDOW, POSITIONS, ROWS = 640, 512, 16
PRODUCTS = Kernels(
    linear=lambda weight: functools.partial(F.linear, weight=widen(weight)),
    embedding=plain_embedding,
)


class _Layers:
    """A decoder's layers, of which the one that was asked for last is in memory."""

    def __init__(self, loads: Sequence[tuple[int, Callable[[], Layer]]]) -> None:
        self._loads = loads
        self._last: tuple[int, tuple[int, Layer]] | None = None

    def __getitem__(self, index: int) -> tuple[int, Layer]:
        if self._last is None or self._last[0] != index:
            kind, load = self._loads[index]
            self._last = None  # frees the one before
            self._last = index, (kind, load())
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
        return self.logits(self.norm(hidden[-last:]))


def window(path: Path, text: Path, context: int) -> tuple[list[int], int]:
    """Return the tokens of the text, as many as fit, and how many of them are scored."""
    tokens = TextCodec(path).encode(text.read_text(encoding="utf-8"), special=False)
    tokens = list(tokens)[: min(WINDOW, context)]
    return tokens, min(POSITIONS, len(tokens) * 4 // 5 // ROWS * ROWS)


def write_reference(path: Path, text: Path, out: Path) -> None:
    """Write the log probabilities float32 ``(positions, vocabulary)``."""
    checkpoint = inspect(path)
    tokens, positions = window(path, text, checkpoint.context)
    logits = Reference(checkpoint, len(tokens)).read(tokens, positions)
    torch.save(logits.log_softmax(-1), out)


def measure(path: Path, text: Path, reference: Path, quantization: str) -> dict[str, float]:
    """Return the mean KL divergence in nats, its standard error, and the positions."""
    model = load_model(path, quantization=quantization, context=WINDOW)
    tokens, positions = window(path, text, model.info.context)
    wanted = torch.load(reference, mmap=True)
    # A commit from before 2026-11-24, measured by --against, calls it new_cache.
    new_state = getattr(model, "new_state", None) or model.new_cache  # type: ignore[attr-defined]
    state, first = new_state(len(tokens)), len(tokens) - positions
    model.forward(tokens[:first], state, last=0)
    parts = []
    for start in range(0, positions, ROWS):
        part = tokens[first + start : first + start + ROWS]
        found = model.forward(part, state, last=len(part)).log_softmax(-1)
        expected = wanted[start : start + len(part)]
        parts.append((expected.exp() * (expected - found)).sum(-1))
    each = torch.cat(parts)
    error = each.std() / len(each) ** 0.5
    return {"kl": each.mean().item(), "error": error.item(), "positions": positions}


if __name__ == "__main__":
    what, *files = sys.argv[1:5]
    model, text, logits = map(Path, files)
    threads.use()
    if what == "reference":
        write_reference(model, text, logits)
    else:
        print(json.dumps(measure(model, text, logits, sys.argv[5])))
