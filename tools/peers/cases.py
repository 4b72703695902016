"""What is run: a pair of folders and prompts as token ids, so that every engine gets the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.bench.prompts import Prompt
from engine.bench.real import case as real
from engine.decoding.text.codec import TextCodec
from engine.loading.planning.choices import choose_quantization
from engine.machine import devices
from engine.models.checkpoints.checkpoint import AUTO, inspect
from tools.peers import shapes
from tools.peers.base import Case

_MARGIN = 32
"""Room beyond the longest reply: a draft may look over its end."""


@dataclass(frozen=True, slots=True)
class Models:
    """A pair on disk. ``quantization`` is what suits it, where nobody chose."""

    name: str
    target: Path
    draft: Path | None
    quantization: str = AUTO


def random_1b(workspace: Path, seed: int) -> Models:
    """Random weights of Llama-3.2-1B's shape with a draft of 60 M, as int8: written now."""
    target, draft = workspace / "1b", workspace / "60m"
    shapes.write(shapes.LLAMA_1B, target, seed)
    shapes.write(shapes.DRAFT_60M, draft, seed + 1)
    return Models("1b", target, draft, "int8")


def random_prompts(target: Path, count: int, length: int, seed: int) -> list[tuple[int, ...]]:
    """Tokens drawn evenly."""
    chance, vocabulary = random.Random(seed), inspect(target).vocabulary
    return [tuple(chance.randrange(vocabulary) for _ in range(length)) for _ in range(count)]


def encode(target: Path, prompts: Sequence[Prompt]) -> list[tuple[int, ...]]:
    """The first turn of each, through the target's chat template."""
    codec = TextCodec(target)
    return [real.encode(codec, prompt.turns[0]) for prompt in prompts]


def make(
    models: Models,
    prompts: Sequence[Sequence[int]],
    limit: int,
    *,
    quantization: str = AUTO,
    depth: int | None = None,
    acceptance: float | None = None,
    seed: int = 1,
    threads: int | None = None,
    device: str = AUTO,
    native: bool = True,
    cuda_graphs: bool = True,
) -> Case:
    """``threads``: None for as many as torch uses here.

    Raises InvalidRequest where ``quantization`` does not suit, or the context is too short.
    """
    checkpoint = inspect(models.target)
    return Case(
        name=models.name,
        target=models.target,
        draft=models.draft,
        quantization=choose_quantization(
            checkpoint,
            models.quantization if quantization == AUTO else quantization,
            devices.choose(device, native=native),
        ),
        eos=frozenset(checkpoint.eos_ids),
        longest=real.context(checkpoint, prompts, limit, _MARGIN),
        threads=threads or torch.get_num_threads(),
        device=device,
        native=native,
        cuda_graphs=cuda_graphs,
        depth=depth,
        acceptance=acceptance,
        seed=seed,
    )
