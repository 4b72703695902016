"""The own decoder on a CUDA device: the same ``Architecture`` through Triton's kernels.

A step of 1 to 16 rows streams every weight once; what is on the device decides where it stands, so it
may be captured in a graph. In Triton's interpreter all of it runs on the CPU's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from engine.backends.cuda import layers
from engine.backends.cuda.layers import CudaLayer
from engine.backends.cuda.state import DeviceState
from engine.backends.support import ATTENTION, Support
from engine.kernels.cuda.attention import Workspace, attend, choose_tiling
from engine.kernels.cuda.dispatch import DTYPE, STREAMED_ROWS, embedding_of, hold, make_product
from engine.kernels.cuda.fusion import Norm
from engine.kernels.cuda.kv_cache import LayerKV, StaticKVCache
from engine.kernels.cuda.norm import normalise
from engine.kernels.cuda.rotary import turn_and_store
from engine.kernels.formats import QUANTISED
from engine.machine.failures import device_errors
from engine.models.activations import ACTIVATIONS
from engine.models.architecture import Architecture, Rope
from engine.models.base import Model, ModelInfo
from engine.models.hidden_states import NORMED, AuxHiddenStates, AuxLayer
from engine.models.rotation import cosines
from engine.models.rounds import RoundRunner
from engine.models.sequence_state import SequenceState
from engine.models.weights import Names, TensorSource, make_norm

PREFILL_ROWS = 512
"""Rows of one prefill step: cuBLAS is near its best, and buffers are still some tens of megabytes."""
WIDEST_HEAD = 256
"""Heads wider than this have tiles that no multiprocessor can hold."""


SUPPORT = Support(
    "The kernels for CUDA",
    ATTENTION | {f"activation={name}" for name in ACTIVATIONS},
    ("bf16", *QUANTISED),
)  # fmt: skip


def why_not(architecture: Architecture, weights: str) -> str | None:
    """Why the kernels cannot run such a model; None where they can. A sentence for people."""
    reason = SUPPORT.why_not(architecture, weights)
    if reason is not None:
        return reason
    if architecture.head_dim > WIDEST_HEAD or architecture.head_dim % 2:
        return (
            f"Its attention heads have {architecture.head_dim} numbers; the kernels take even numbers "
            f"up to {WIDEST_HEAD}."
        )
    return None


class CudaDecoder:
    """A decoder for one sequence, up to 16 rows a step with the same bits, more in prefill."""

    def __init__(
        self,
        architecture: Architecture,
        names: Names,
        tensor: TensorSource,
        info: ModelInfo,
        quantization: str,
        cached: torch.dtype = torch.bfloat16,
    ) -> None:
        """``quantization``: bf16, int8 or nf4. ``cached``: bf16, or e4m3 for half the KV cache."""
        self.architecture, self._info, self._cached = architecture, info, cached
        table = tensor(names.embedding)
        held = hold(quantization, table)
        self.device = table.device
        self.embedding = embedding_of(held)
        if not architecture.tied:
            held = hold(quantization, tensor(names.head))
        del table
        self.head = make_product(held)
        norm = make_norm(architecture, tensor(names.norm))
        self.norm = Norm(norm.weight, norm.epsilon)
        # Rounded like a weight: Gemma was trained so (transformers, pull request 29402).
        self.scale = float(torch.tensor(architecture.embedding_scale, dtype=DTYPE))
        turns = self._scheduler()
        self.layers = [
            layers.load(
                architecture,
                spec,
                partial(_at, tensor, names.layer(index)),
                quantization,
                None if spec.attention.rope is None else turns[spec.attention.rope],
            )
            for index, spec in enumerate(architecture.layers)
        ]
        self.tiling = choose_tiling(
            architecture.heads, architecture.kv_heads, architecture.head_dim
        )
        self._workspaces: dict[int, Workspace] = {}  # by the capacity of a cache

    def _scheduler(self) -> dict[Rope, Tensor]:
        """Cosines and sines of every rope there is, on the device."""
        ropes = {
            spec.attention.rope
            for spec in self.architecture.layers
            if spec.attention.rope is not None
        }
        width, context = self.architecture.head_dim, self._info.context
        return {rope: cosines(rope, width, context).to(self.device) for rope in ropes}

    @property
    def info(self) -> ModelInfo:
        return self._info

    def new_state(self, context: int, aux_layers: Sequence[AuxLayer] = ()) -> DeviceState:
        """See ``TappableModel``. Raises DeviceLost where the GPU is gone."""
        with device_errors(self.device):
            capacity = min(context, self._info.context)
            static = StaticKVCache(
                layers=len(self.layers),
                kv_heads=self.architecture.kv_heads,
                head_dim=self.architecture.head_dim,
                capacity=capacity,
                device=self.device,
                dtype=self._cached,
            )
            features = AuxHiddenStates(
                aux_layers,
                layers=len(self.layers),
                hidden=self.architecture.hidden,
                context=capacity + 1,
                dtype=DTYPE,
                device=self.device,
            )
            self._workspace(capacity)
            return DeviceState(static, features if aux_layers else None)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """See ``Backbone``."""
        with torch.inference_mode():
            return self.embedding(torch.tensor(tokens, device=self.device)).float()

    def logits(self, normed: Tensor) -> Tensor:
        """See ``Backbone``; the head's sums are not rounded to bf16."""
        with torch.inference_mode():
            parts = [self.head(part.float()) for part in normed.split(STREAMED_ROWS)]
            logits = parts[0] if len(parts) == 1 else torch.cat(parts)
            cap = self.architecture.logit_cap
            return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(
        self, tokens: Sequence[int], state: SequenceState, *, last: int, final: bool = True
    ) -> Tensor:
        """See ``Model.forward``. Raises DeviceLost where the GPU is gone."""
        assert isinstance(state, DeviceState) and 0 <= last <= len(tokens)
        assert state.end + len(tokens) <= state.context
        with torch.inference_mode(), device_errors(self.device):
            ids = torch.tensor(tokens, dtype=torch.long).to(self.device)
            kept = []
            for part in ids.split(PREFILL_ROWS):
                kept.append(self.step(part, state))
                state.append(len(part), final=final)
            if not last:
                return torch.empty(0, self.architecture.vocabulary, device=self.device)
            return self.predict(torch.cat(kept)[-last:])

    def round_runner(
        self,
        state: SequenceState,
        draft: Model | None = None,
        draft_state: SequenceState | None = None,
        *,
        captures: bool = True,
    ) -> RoundRunner:
        """See ``RoundModel``."""
        from engine.backends.cuda.graphs import Runner  # it needs Triton
        from engine.backends.cuda.round import DeviceRound

        assert isinstance(state, DeviceState)
        if draft is None:
            return Runner(DeviceRound(self, state), captures)
        assert isinstance(draft, CudaDecoder) and isinstance(draft_state, DeviceState)
        return Runner(DeviceRound(self, state, draft, draft_state), captures)

    def step(self, ids: Tensor, state: DeviceState) -> Tensor:
        """Runs the layers on ``ids (rows,)`` at the state's length on the device; (rows, hidden).

        Neither length moves. Only the device is asked for anything, so a graph may hold it.
        """
        static, features = state.static, state.features
        places = None if features is None else _places(static, len(ids))
        x = self.embedding(ids)
        if self.scale != 1:
            x = x * self.scale
        for index, layer in enumerate(self.layers):
            if features is not None and places is not None:
                features.write_at(AuxLayer(index), places, x)
            x = self._block(layer, x, static.layer(index), static.length)
        if features is not None and places is not None:
            features.write_at(AuxLayer(len(self.layers)), places, x)
            if features.has(NORMED):
                features.write_at(NORMED, places, normalise(x, self.norm))
        return x

    def predict(self, hidden: Tensor) -> Tensor:
        """The logits behind what left the last layer: float32 ``(rows, vocabulary)``."""
        return self.logits(normalise(hidden, self.norm))

    def _block(self, layer: CudaLayer, x: Tensor, kv: LayerKV, length: Tensor) -> Tensor:
        mixed = self._attention(layer, layer.qkv(x), kv, length)
        if layer.attention_after is None:
            x = layer.output(mixed, x)
        else:
            x = normalise(layer.output(mixed), layer.attention_after, x)
        inner = layer.gate_up(x)
        if layer.gate is not None:
            inner = layer.gate(inner)
        if layer.mlp_after is None:
            return layer.down(inner, x)
        return normalise(layer.down(inner), layer.mlp_after, x)

    def _attention(self, layer: CudaLayer, qkv: Tensor, kv: LayerKV, length: Tensor) -> Tensor:
        """(rows, heads * head_dim); stores the rows' keys and values."""
        query = turn_and_store(
            qkv,
            kv,
            length,
            rotation=layer.rotation,
            norm=layer.qk_norm,
            epsilon=self.architecture.epsilon,
            scale=self.architecture.query_scale,
        )
        workspace = self._workspace(kv.capacity)
        parts = [
            attend(
                part,
                kv,
                length + index * STREAMED_ROWS if index else length,
                workspace,
                self.tiling,
                window=layer.window,
                cap=self.architecture.score_cap,
            )
            for index, part in enumerate(query.split(STREAMED_ROWS))
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _workspace(self, capacity: int) -> Workspace:
        """What attention over such a cache needs; all of a model's layers share one."""
        if capacity not in self._workspaces:
            self._workspaces[capacity] = Workspace.make(
                heads=self.architecture.heads,
                head_dim=self.architecture.head_dim,
                capacity=capacity,
                tiling=self.tiling,
                device=self.device,
                rows=STREAMED_ROWS,
            )
        return self._workspaces[capacity]


def _places(cache: StaticKVCache, rows: int) -> Tensor:
    """Where the features of the next ``rows`` go: int64; beyond the capacity all to one spare row."""
    places = cache.length + torch.arange(rows, device=cache.length.device)
    return places.clamp_max(cache.capacity)


def _at(tensor: TensorSource, prefix: str, name: str) -> Tensor:
    return tensor(prefix + name)
