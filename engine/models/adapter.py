"""Any transformers causal LM as a ``Model``: slower than the own decoder, and just as exact.

Its kernels may sum in another order when a call has more rows or a longer cache. So it is never called
with a free shape: positions are computed in windows of 16 that begin at multiples of 16, the rest of
a window padded. A given position then always stands in the same row of the same shape, whether it was
decoded alone or verified beside drafted tokens, and its logits have the same bits. The price is that
up to 15 rows of a window are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from engine.models import experts
from engine.models.base import Cache, ModelInfo

WINDOW = 16
PREFILL_WINDOWS = 16


class AdapterCache:
    """The tokens themselves and transformers' KV of all complete windows (and perhaps more)."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.state = DynamicCache()

    @property
    def length(self) -> int:
        return len(self.tokens)

    def crop(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot crop a cache of {len(self.tokens)} positions to {length}")
        del self.tokens[length:]


class TransformersModel:
    """Wraps a model that keeps its whole past in a cache that can be cropped."""

    def __init__(self, model: PreTrainedModel, info: ModelInfo) -> None:
        self.model: Any = model.eval()
        self.model.set_experts_implementation(experts.NAME)  # nothing to do for a dense model
        self._info = info

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_cache(self, context: int) -> AdapterCache:
        return AdapterCache()

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], cache: Cache, *, last: int) -> Tensor:
        """See ``Model.forward``."""
        assert isinstance(cache, AdapterCache)
        first = cache.length
        cache.tokens.extend(tokens)
        end = len(cache.tokens)
        start = first - first % WINDOW
        wanted = end - last
        rows = []
        while start < end:
            # Whole windows whose logits nobody wants go through together.
            bulk = min((wanted - start) // WINDOW, PREFILL_WINDOWS)
            stop = start + max(bulk, 1) * WINDOW
            logits = self._run(cache, start, stop)
            rows.append(logits[max(wanted - start, 0) : max(end - start, 0)])
            start = stop
        result = torch.cat(rows) if rows else torch.empty(0, self.info.vocabulary)
        return result[len(result) - last :]

    def _run(self, cache: AdapterCache, start: int, stop: int) -> Tensor:
        """Logits (stop - start, vocabulary) of one window, or of several at once, padded."""
        window = cache.tokens[start:stop]
        window = window + [window[-1]] * (stop - start - len(window))
        surplus = cache.state.get_seq_length() - start
        if surplus > 0:
            cache.state.crop(-surplus)
        device = self.model.device
        position = torch.arange(start, stop, device=device)
        output = self.model(
            input_ids=torch.tensor([window], device=device),
            position_ids=position[None],
            past_key_values=cache.state,
            use_cache=True,
        )
        logits: Tensor = output.logits[0].float()
        return logits
