"""Attention of a decoder's layers on the device, with the tables and workspaces that they share."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.backends.cuda.layers import CudaLayer
from engine.backends.cuda.prompts import attend_prompt, is_plain
from engine.backends.cuda.state import DeviceState
from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.attention import Tiling, Workspace, attend, choose_tiling
from engine.kernels.cuda.kv_cache import LayerKV
from engine.kernels.cuda.rotary import rope_and_store
from engine.models.architecture import Architecture, Attention, Rope, Temperature
from engine.models.rotation import cosines, temperatures


class DecoderAttention:
    """``in_images``: the rotations of ropes that images change, of which each state has its own."""

    def __init__(self, architecture: Architecture, context: int, device: torch.device) -> None:
        self._architecture, self._context, self._device = architecture, context, device
        self._workspaces: dict[tuple[int, ...], Workspace] = {}
        attentions = set(architecture.attentions)
        self._rotations: dict[tuple[Rope, int], Tensor] = {}
        for each in attentions:
            self.rotation(each)
        self.in_images = {key: table for key, table in self._rotations.items() if key[0].axes}
        self._temperatures = {
            each.temperature: temperatures(each.temperature, context).to(device)
            for each in attentions
            if each.temperature is not None
        }

    def rotation(self, mixer: object) -> Tensor | None:
        """Return the cosines and sines of a layer's rope, also of a head's; None for one without."""
        if not isinstance(mixer, Attention) or mixer.rope is None:
            return None
        key = mixer.rope, mixer.head_dim
        if key not in self._rotations:
            self._rotations[key] = cosines(*key, self._context).to(self._device)
        return self._rotations[key]

    def prepare(self, capacity: int) -> None:
        """Make the workspaces for a cache of ``capacity`` positions: none is made during a capture."""
        for each in set(self._architecture.attentions):
            self._workspace(each, capacity)

    def __call__(
        self,
        layer: CudaLayer,
        spec: Attention,
        qkv: Tensor,
        kv: LayerKV,
        state: DeviceState,
        tree: Tensor | None,
    ) -> Tensor:
        """Store the rows' keys and values; return their attention ``(rows, heads * head_dim)``."""
        cache, length = state.static, state.static.length
        placed = None if spec.rope is None else state.rotations.get((spec.rope, spec.head_dim))
        query = rope_and_store(
            qkv.contiguous(),
            kv,
            length,
            rotation=layer.rotation if placed is None else placed,
            norm=layer.qk_norm,
            epsilon=self._architecture.epsilon,
            scale=spec.query_scale,
            value_norm=spec.value_norm,
            stores=spec.shared_with is None,
            tree=tree,
        )
        if spec.temperature is not None:
            query = self._sharpened(query, spec.temperature, length, tree)
        if len(query) > STREAMED_ROWS and is_plain(spec, kv, cache.host_length + len(query)):
            return attend_prompt(query, kv, cache.host_length)
        return self.attend(query, kv, length, spec, layer.sinks, tree)

    def attend(
        self,
        query: Tensor,
        kv: LayerKV,
        length: Tensor,
        spec: Attention,
        sinks: Tensor | None = None,
        tree: Tensor | None = None,
    ) -> Tensor:
        """Return the attention of rows after ``length`` positions, any number of them in a chain."""
        workspace = self._workspace(spec, kv.capacity)
        parts = [
            attend(
                part,
                kv,
                length + index * STREAMED_ROWS if index else length,
                workspace,
                _tiling(spec),
                window=spec.window,
                cap=spec.score_cap,
                causal=spec.causal,
                sinks=sinks,
                tree=tree,
            )
            for index, part in enumerate(query.split(STREAMED_ROWS))
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _sharpened(
        self, query: Tensor, temperature: Temperature, length: Tensor, tree: Tensor | None
    ) -> Tensor:
        """Return queries (rows, heads, head_dim) after ``length`` positions, by their temperatures."""
        table, rows = self._temperatures[temperature], len(query)
        depths = torch.arange(rows, device=self._device) if tree is None else tree[0, :rows]
        positions = (length + depths).clamp_max(len(table) - 1)
        return (query * table[positions][:, None, None]).to(query.dtype)

    def _workspace(self, spec: Attention, capacity: int) -> Workspace:
        """Return attention's workspace for such a cache, which layers of one size share."""
        key = spec.heads, spec.kv_heads, spec.head_dim, capacity
        if key not in self._workspaces:
            self._workspaces[key] = Workspace.make(
                heads=spec.heads,
                head_dim=spec.head_dim,
                capacity=capacity,
                tiling=_tiling(spec),
                device=self._device,
            )
        return self._workspaces[key]


def _tiling(spec: Attention) -> Tiling:
    return choose_tiling(spec.heads, spec.kv_heads, spec.head_dim)
