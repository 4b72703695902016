"""One vector for a text: the states behind the last layer and its norm, pooled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.decoding.context import PREFILL_CHUNK
from engine.loading.pooling import Pooling
from engine.models.base import HiddenStateModel, Model
from engine.models.hidden_states import NORMED


def embedding(model: HiddenStateModel, tokens: Sequence[int], pooling: Pooling) -> list[float]:
    """Return the vector of ``tokens``, of length 1. It needs a state of its own, freed at once."""
    state = model.new_state(len(tokens), (NORMED,))
    for start in range(0, len(tokens), PREFILL_CHUNK):
        model.forward(tokens[start : start + PREFILL_CHUNK], state, last=1)
    assert state.aux is not None
    rows = state.aux.at(NORMED)[: len(tokens)].float()
    vector = rows[-1] if pooling is Pooling.LAST else rows.mean(0)
    unit: list[float] = torch.nn.functional.normalize(vector, dim=0).tolist()
    return unit


def next_logits(model: Model, tokens: Sequence[int], choices: Sequence[int]) -> list[float]:
    """Return the logits of ``choices`` behind ``tokens``."""
    state = model.new_state(len(tokens))
    for start in range(0, len(tokens), PREFILL_CHUNK):
        logits = model.forward(tokens[start : start + PREFILL_CHUNK], state, last=1)
    found: list[float] = logits[-1, list(choices)].tolist()
    return found
