"""Any transformers causal LM as a ``Model``: slower than the own decoder, and just as exact.

Its kernels may sum in another order if a call has more rows or a longer cache. So positions are
computed in windows of 16 that begin at multiples of 16, padded at the end. A position is then always
the same row of the same shape, decoded alone or verified beside drafted tokens, and its logits have the
same bits. The price is that up to 15 rows of a window are computed again.

In transformers an expert multiplies all rows that chose it at once, and BLAS takes another path for
another number of rows: a token's logits would depend on the routing of the tokens drafted after it.
Here experts use the own decoder's linear layers, and a row's results are added in the order of its
choices.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import ModuleList
from transformers import DynamicCache, PreTrainedModel
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from engine.backends.torch.experts import add_chosen
from engine.kernels.torch.linear import make_unpacked
from engine.models.base import ModelInfo
from engine.models.hidden_states import NORMED, AuxHiddenStates, AuxLayer
from engine.models.sequence_state import SequenceState
from engine.values import MAX_ROWS

NAME = "row_independent"
"""The name for ``PreTrainedModel.set_experts_implementation``."""


def mix(experts: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Run ``hidden_states (rows, hidden)`` through the experts that each row chose.

    ``experts`` is a module of transformers' ``use_experts_implementation``, which calls this with these
    argument names; choices and their weights are (rows, choices).
    """
    total = add_chosen(partial(_run, experts), hidden_states, top_k_index, top_k_weights)
    return total.to(hidden_states.dtype)


def _run(experts: Any, expert: int, x: Tensor) -> Tensor:
    """Return one expert's result for ``x (rows, hidden)``."""
    if getattr(experts, "has_gate", True):
        x = experts._apply_gate(_linear(experts, "gate_up_proj", expert, x))
    else:
        x = experts.act_fn(_linear(experts, "up_proj", expert, x))
    x = _linear(experts, "down_proj", expert, x)
    if getattr(experts, "has_post_expert_norm", False):
        x = experts.post_expert_norm(x)
    return x


def _linear(experts: Any, name: str, expert: int, x: Tensor) -> Tensor:
    weight = getattr(experts, name)[expert]
    result = make_unpacked(weight.t() if experts.is_transposed else weight)(x)
    return result + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else result


ALL_EXPERTS_FUNCTIONS.register(NAME, mix)


WINDOW = MAX_ROWS
"""Positions of a window: the rows of a round are in at most two."""
PREFILL_WINDOWS = 16


def cache_argument(model: PreTrainedModel) -> str:
    """Return the name of ``model.forward``'s cache argument, which transformers 5.24 renamed."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


class AdapterState(SequenceState):
    """The tokens, and transformers' KV of at least all complete windows."""

    def __init__(self, context: int, aux: AuxHiddenStates | None = None) -> None:
        super().__init__(context, aux)
        self.tokens: list[int] = []  # committed or pending; more are stale
        self.cache = DynamicCache()


class TransformersModel:
    """See ``HiddenStateModel``. The model's cache keeps all positions and can be cropped."""

    def __init__(self, model: PreTrainedModel, info: ModelInfo) -> None:
        self.model: Any = model.eval()
        self.model.set_experts_implementation(NAME)  # nothing to do for a dense model
        self._info = info
        self._cache_argument = cache_argument(model)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> AdapterState:
        if not aux_layers:
            return AdapterState(context)
        aux = AuxHiddenStates(
            aux_layers,
            layers=self._info.layers,
            hidden=self._info.hidden,
            context=context + -context % WINDOW,  # windows are computed whole
            dtype=self.model.dtype,
            device=self.model.device,
        )
        return AdapterState(context, aux)

    @torch.inference_mode()
    def embed(self, tokens: Sequence[int]) -> Tensor:
        rows: Tensor = self.model.get_input_embeddings().weight[list(tokens)]
        return rows.float()

    @torch.inference_mode()
    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``. Soft caps of the logits are left out: they do not change the order."""
        result: Tensor = self.model.get_output_embeddings()(normed.to(self.model.dtype))
        return result.float()

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        assert isinstance(state, AdapterState)
        first = state.end
        state.tokens[first:] = tokens
        end = len(state.tokens)
        start = first - first % WINDOW
        first_logits = end - last
        rows = []
        while start < end:
            # Complete windows without requested logits are computed together.
            bulk = min((first_logits - start) // WINDOW, PREFILL_WINDOWS)
            stop = start + max(bulk, 1) * WINDOW
            logits = self._run(state, start, stop)
            rows.append(logits[max(first_logits - start, 0) : max(end - start, 0)])
            start = stop
        state.append(len(tokens), final=final)
        result = torch.cat(rows) if rows else torch.empty(0, self.info.vocabulary)
        return result[len(result) - last :]

    def _run(self, state: AdapterState, start: int, stop: int) -> Tensor:
        """Return logits (stop - start, vocabulary) of one window, or of several at once, padded."""
        window = state.tokens[start:stop]
        window = window + [window[-1]] * (stop - start - len(window))
        surplus = state.cache.get_seq_length() - start
        if surplus > 0:
            state.cache.crop(-surplus)
        device = self.model.device
        position = torch.arange(start, stop, device=device)
        with self._last_layer(state.aux) as outputs:
            output = self.model(
                input_ids=torch.tensor([window], device=device),
                position_ids=position[None],
                use_cache=True,
                output_hidden_states=state.aux is not None,
                **{self._cache_argument: state.cache},
            )
        if state.aux is not None:
            *inputs, normed = output.hidden_states
            for index, states in enumerate((*inputs, *outputs)):
                state.aux.write(AuxLayer(index), position, states[0])
            state.aux.write(NORMED, position, normed[0])
        logits: Tensor = output.logits[0].float()
        return logits

    @contextlib.contextmanager
    def _last_layer(self, aux: AuxHiddenStates | None) -> Iterator[list[Tensor]]:
        """Collect the last layer's output in the list; transformers only returns it normed."""
        outputs: list[Tensor] = []
        count = self._info.layers
        if aux is None or not aux.has(AuxLayer(count)):
            yield outputs
            return

        def keep(module: object, inputs: object, output: Any) -> None:
            outputs.append(output[0] if isinstance(output, tuple) else output)

        stacks = (each for each in self.model.modules() if isinstance(each, ModuleList))
        layers = next(each for each in stacks if len(each) == count)
        hook = layers[-1].register_forward_hook(keep)
        try:
            yield outputs
        finally:
            hook.remove()
