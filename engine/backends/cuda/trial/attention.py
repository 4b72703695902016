"""Try rope, the cache's writes and attention, at every border of the work's division."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from engine.backends.cuda.decoder import CudaDecoder
from engine.backends.cuda.prompts import attend_prompt, is_plain
from engine.backends.cuda.trial.findings import Comparison, some
from engine.kernels.cuda import STREAMED_ROWS
from engine.kernels.cuda.attention import Tiling, Workspace, attend, choose_tiling
from engine.kernels.cuda.kv_cache import FP8, StaticKVCache
from engine.kernels.cuda.linear.dispatch import DTYPE
from engine.kernels.cuda.references import attend_reference, rope_and_store_reference
from engine.kernels.cuda.rotary import rope_and_store
from engine.kernels.cuda.trees import branch, tree_table
from engine.models.architecture import Attention
from engine.values import MAX_ROWS

_MORE_SPLITS = 4
"""Splits of the trial's cache beyond one for each part, so that some parts have two."""
_FILLED = 512
"""Rows that the reference stores at once."""
_ATTENTION_ERROR = (2**-6, 2**-6)
"""Weights are rounded to bf16 before the product with values; see ``Comparison.near``."""
_FP8_ERROR = (2**-3, 2**-4)
"""A number that lies between two of e4m3 may go to either."""


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """The attention of a layer; ``rope`` has the arguments of ``rope_and_store``."""

    spec: Attention
    rope: dict[str, Any]
    sinks: Tensor | None
    capacity: int
    cached: torch.dtype
    device: torch.device

    @property
    def shape(self) -> str:
        spec = self.spec
        parts = [f"{spec.heads} heads on {spec.kv_heads} of {spec.head_dim}"]
        parts += [str(self.cached).removeprefix("torch.")]
        parts += ["rope"] * (self.rope["rotation"] is not None)
        parts += ["norms"] * (self.rope["norm"] is not None)
        parts += ["values normed"] * spec.value_norm
        parts += ["stored before"] * (not self.stores)
        parts += [] if spec.window is None else [f"window {spec.window}"]
        parts += [] if spec.score_cap is None else [f"cap {spec.score_cap:g}"]
        parts += ["sinks"] * spec.sinks
        return ", ".join(parts)

    @property
    def stores(self) -> bool:
        """Whether the layer makes keys and values."""
        return self.spec.shared_with is None

    @property
    def _tiling(self) -> Tiling:
        return choose_tiling(self.spec.heads, self.spec.kv_heads, self.spec.head_dim)

    def check_stores(self, comparison: Comparison) -> Callable[[], object]:
        """Try ``rope_and_store``; see ``try_kernel``."""
        ours, theirs = self._filled(), self._filled()
        qkv = self._own(self._qkv(MAX_ROWS, seed=1))
        for start in self._starts():

            def run(rows: slice, start: int = start) -> Tensor:
                first = 0 if rows.start is None else rows.start
                ours.set_length(start + first)
                return rope_and_store(qkv[rows], ours.slots[0], ours.length, **self.rope)

            whole = run(slice(None))
            kept = [part.clone() for part in ours.slots[0].tensors]

            def again(
                rows: slice,
                run: Callable[[slice], Tensor] = run,
                kept: list[Tensor] = kept,
            ) -> Tensor:
                query = run(rows)
                for part, before in zip(ours.slots[0].tensors, kept, strict=True):
                    comparison.same(_bits(part), _bits(before), "in the cache")
                return query

            comparison.rows_are_alike(again, whole)
            theirs.set_length(start)
            expected = rope_and_store_reference(qkv, theirs.slots[0], theirs.length, **self.rope)
            comparison.near(whole, expected)
            error = _FP8_ERROR if self.cached == FP8 else None
            stored = (each.slots[0].floats() for each in (ours, theirs))
            for found, right in zip(*stored, strict=True):
                comparison.near(found.flatten(0, 1).to(DTYPE), right.flatten(0, 1), error)
        return lambda: run(slice(None))

    def check_attends(self, comparison: Comparison) -> Callable[[], object]:
        """Try ``attend``, and torch's attention of a prompt; see ``try_kernel``."""
        spec, cache = self.spec, self._filled()
        tiling, workspace = self._tiling, self._workspace()
        masks = self._masks
        query = self._queries(MAX_ROWS)
        for start in self._starts():

            def run(rows: slice, start: int = start) -> Tensor:
                cache.set_length(start + (0 if rows.start is None else rows.start))
                part = query[rows].contiguous()
                return attend(part, cache.slots[0], cache.length, workspace, tiling, **masks)

            whole = run(slice(None))
            comparison.rows_are_alike(run, whole)
            cache.set_length(start)
            expected = attend_reference(query, cache.slots[0], cache.length, **masks)
            comparison.near(whole, expected, _ATTENTION_ERROR)
        many, kv = self._queries(2 * STREAMED_ROWS), cache.slots[0]
        # Short prompts, and the attention of long ones that torch does not have.
        for rows in (MAX_ROWS + 1, STREAMED_ROWS):
            for start in self._starts(rows):
                cache.set_length(start)
                few = many[:rows]
                expected = attend_reference(few, kv, cache.length, **masks)
                found = attend(few, kv, cache.length, workspace, tiling, **masks)
                comparison.near(found, expected, _ATTENTION_ERROR)
        for past in (0, tiling.split):
            end = past + len(many)
            if end <= self.capacity and is_plain(spec, kv, end):
                cache.set_length(past)
                expected = attend_reference(many, kv, cache.length, **masks)
                comparison.near(attend_prompt(many, kv, past), expected, _ATTENTION_ERROR)
        return lambda: run(slice(None))

    def check_trees(self, comparison: Comparison) -> Callable[[], object]:
        """Try rope, the cache and attention of a tree, and its accepted path; see ``try_kernel``."""
        ours, chain = self._filled(), self._filled()
        qkv, parents = self._qkv(MAX_ROWS, seed=1), random_parents(MAX_ROWS)
        tree, workspace = tree_table(parents).to(self.device), self._workspace()

        def run(cache: StaticKVCache, rows: list[int], tree: Tensor | None = None) -> Tensor:
            slot, length = cache.slots[0], cache.length
            if not self.stores:  # an earlier layer does
                rope_and_store_reference(qkv[rows], slot, length, rotation=None)
            query = rope_and_store(self._own(qkv[rows]), slot, length, **self.rope, tree=tree)
            return attend(query, slot, length, workspace, self._tiling, **self._masks, tree=tree)

        every = list(range(MAX_ROWS))
        leaves = [row for row in every if row not in parents]
        for start in reversed(self._starts()):  # what one leaves behind it, the next does not see
            for leaf in some(leaves, self.device):
                for cache in (ours, chain):
                    cache.set_length(start)
                whole = run(ours, every, tree)
                path = branch(parents, leaf)
                comparison.same(whole[path], run(chain, path), f"in a tree's branch of {len(path)}")
                ours.move(chain.length.long(), torch.tensor(path, device=self.device))
                end = start + len(path)
                for pair in zip(ours.parts, chain.parts, strict=True):
                    moved, right = (_bits(each[:, :, :, :end]) for each in pair)
                    comparison.same(moved, right, "where a tree's accepted rows were moved")
        return lambda: run(ours, every, tree)

    @property
    def _masks(self) -> dict[str, Any]:
        return {"window": self.spec.window, "cap": self.spec.score_cap, "sinks": self.sinks}

    def _workspace(self) -> Workspace:
        spec = self.spec
        return Workspace.make(
            heads=spec.heads, head_dim=spec.head_dim, capacity=self.capacity, tiling=self._tiling,
            device=self.device,
        )  # fmt: skip

    def _starts(self, rows: int = MAX_ROWS) -> list[int]:
        """Return positions of row 0: the first, at borders of splits, chunks and parts, and the last."""
        tiling, last = self._tiling, self.capacity - rows
        splits = (1, 3, tiling.chunk, tiling.parts(self.capacity))
        borders = [0, *(count * tiling.split - 7 for count in splits), last]
        inside = [start for start in borders if 0 <= start <= last]
        return sorted({*some(inside, self.device), *inside[-1:]})

    def _filled(self) -> StaticKVCache:
        """Return a cache that the reference filled."""
        size = self.spec.kv_heads, self.spec.head_dim
        cache = StaticKVCache([size], capacity=self.capacity, device=self.device, dtype=self.cached)
        for start in range(0, self.capacity, _FILLED):
            cache.set_length(start)
            qkv = self._qkv(min(_FILLED, self.capacity - start), seed=start)
            rope = self.rope if self.stores else {"rotation": None}
            rope_and_store_reference(qkv, cache.slots[0], cache.length, **rope)
        return cache

    def _queries(self, rows: int) -> Tensor:
        """Return queries (rows, heads, head_dim), scaled so that positions count differently."""
        heads, width = self.spec.heads, self.spec.head_dim
        part = self._qkv(rows, seed=1)[:, : heads * width]
        return part.reshape(-1, heads, width) * (2 / math.sqrt(width))

    def _own(self, qkv: Tensor) -> Tensor:
        """Return what the layer makes of ``qkv``."""
        queries = self.spec.heads * self.spec.head_dim
        return qkv if self.stores else qkv[:, :queries].contiguous()

    def _qkv(self, rows: int, seed: int) -> Tensor:
        width = (self.spec.heads + 2 * self.spec.kv_heads) * self.spec.head_dim
        draw = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(rows, width, generator=draw, device=self.device).to(DTYPE)


def random_parents(rows: int) -> list[int]:
    """Return the parents of a random tree's rows; siblings are near one another, so branches are long."""
    draw = torch.Generator().manual_seed(rows)
    reach = torch.randint(1, 4, (rows,), generator=draw).tolist()
    return [max(row - each, 0) if row else -1 for row, each in enumerate(reach)]


def _bits(stored: Tensor) -> Tensor:
    return stored.view(torch.uint8) if stored.dtype == FP8 else stored


def _capacity(spec: Attention, context: int) -> int:
    """Return the positions of the trial's cache. What divides the model's capacity divides it too, since
    Triton compiles other code for multiples of 16."""
    tiling = choose_tiling(spec.heads, spec.kv_heads, spec.head_dim)
    return min(context, (tiling.most_parts + _MORE_SPLITS) * tiling.split + context % 16)


def head_cases(model: CudaDecoder, heads: Collection[Attention]) -> list[AttentionCase]:
    """Return the causal attention of ``heads`` whose sizes are not the model's."""
    sizes = attrgetter("heads", "kv_heads", "head_dim")
    known, cases = {*map(sizes, model.architecture.attentions)}, list[AttentionCase]()
    for spec in {sizes(each): each for each in heads if each.causal}.values():
        stores = spec.shared_with is None
        norms = torch.ones(spec.heads + spec.kv_heads * stores, spec.head_dim, device=model.device)
        rope = {
            "rotation": model.attention.rotation(spec),
            "norm": norms if spec.qk_norm else None,
            "epsilon": model.architecture.epsilon,
            "stores": stores,
        }
        capacity, cached = _capacity(spec, model.info.context), DTYPE if stores else model.cached
        cases.append(AttentionCase(spec, rope, None, capacity, cached, model.device))
    return [case for case in cases if sizes(case.spec) not in known]


def attention_cases(model: CudaDecoder) -> list[AttentionCase]:
    """Return the attention of the model's layers that differ in what their launches depend on."""
    found = [
        AttentionCase(
            spec.mixer,
            {
                "rotation": layer.rotation,
                "norm": layer.qk_norm,
                "epsilon": model.architecture.epsilon,
                "scale": spec.mixer.query_scale,
                "value_norm": spec.mixer.value_norm,
                "stores": spec.mixer.shared_with is None,
            },
            layer.sinks,
            _capacity(spec.mixer, model.info.context),
            model.cached,
            model.device,
        )
        for layer, spec in zip(model.layers, model.architecture.layers, strict=True)
        if isinstance(spec.mixer, Attention)
    ]
    return list({each.shape: each for each in reversed(found)}.values())
