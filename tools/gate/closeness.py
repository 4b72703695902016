"""How close a model, as it is run, is to its file's own weights: mean KL divergence on a kept text.

A script that runs in any checkout, so it imports nothing of this package:

    python closeness.py MODEL TEXT LOGITS QUANTIZATION

LOGITS are those of ``tools.gate.reference`` at the last POSITIONS of WINDOW tokens of the text. The mean
of KL(reference || model) over them is printed as JSON. The model reads them 16 rows at a time, as it
verifies drafts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from engine.loading.loader import load_planned
from engine.machine import devices, threads
from engine.models.checkpoints.checkpoint import inspect

try:
    from engine.loading.planning.model_plan import plan_model
except ImportError:  # a commit from before 2026-11-25
    from engine.loading.loader import plan_model  # type: ignore[attr-defined, no-redef]
try:
    from engine.decoding.text.codec import TextCodec
except ImportError:  # a commit from before 2026-11-24, measured by --against
    from engine.decoding.text import TextCodec  # type: ignore[attr-defined, no-redef]

WINDOW, POSITIONS, ROWS = 640, 512, 16


def window(path: Path, text: Path, context: int) -> tuple[list[int], int]:
    """Return the tokens of the text, as many as fit, and how many of them are scored."""
    tokens = TextCodec(path).encode(text.read_text(encoding="utf-8"), special=False)
    tokens = list(tokens)[: min(WINDOW, context)]
    return tokens, min(POSITIONS, len(tokens) * 4 // 5 // ROWS * ROWS)


def measure(path: Path, text: Path, reference: Path, quantization: str) -> dict[str, float]:
    """Return the mean KL divergence in nats, its standard error, and the positions."""
    plan = plan_model(inspect(path), devices.choose("auto"), quantization, context=WINDOW)
    model = load_planned(plan)
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
    threads.use()
    model, text, logits = map(Path, sys.argv[1:4])
    print(json.dumps(measure(model, text, logits, sys.argv[4])))
