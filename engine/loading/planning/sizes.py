"""The memory of a pair's parts, for each quantization of its target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.backends.linear_factory import LinearFactory
from engine.drafting.heads.base import HeadPlan
from engine.kernels.formats import AS_STORED, FP8, Q4, QUANTISED, nf4
from engine.kernels.formats.block_formats import LAYOUTS
from engine.kernels.formats.block_planes import FORMS, bits_in_planes
from engine.loading.planning import fit
from engine.loading.planning.choices import (
    compute_dtype,
    draft_quantization,
    draft_rounding,
    packs,
    quantizations,
)
from engine.loading.planning.fit import DRAFT, TARGET, MemoryFit
from engine.loading.planning.model_size import ModelSize
from engine.machine.devices import Device
from engine.models.architecture import Recurrent
from engine.models.checkpoints.checkpoint import Checkpoint
from engine.models.families import described
from engine.models.four_bits import bytes_in_four_bits
from engine.models.hidden_states import distinct
from engine.models.tensor_shapes import Names
from engine.values import CHECKPOINT_MB
from engine.values.method_titles import method_title
from engine.vision.plan import VisionPlan
from engine.vision.towers import dtype_of

VISION, HOST_LAYERS = "vision", "layers on the CPU"
"""The roles of a vision tower and of a part of the target."""


@dataclass(frozen=True, slots=True)
class PairSizes:
    """A target, what drafts for it and the device; ``linear_factory`` are for the heads.
    ``checkpoint_mb``: see ``LoadRequest``. ``vision``: the target's tower, which images are read by.
    ``draft_device``: of the draft, if it is on the host and the target on a GPU. ``host_layers``: how
    many of the target's layers, the first ones, are there. ``names``: what people call target and
    draft, by their files; else those of the files.

    In its methods ``quantization`` is that of the target's weights, and ``cached`` its KV cache's dtype:
    auto or fp8.
    """

    target: Checkpoint
    draft: Checkpoint | None
    heads: Sequence[HeadPlan]
    linear_factory: LinearFactory
    device: Device
    checkpoint_mb: int = CHECKPOINT_MB
    vision: VisionPlan | None = None
    draft_device: Device | None = None
    host_layers: int = 0
    names: Mapping[Path, str] = field(default_factory=dict)

    def fit(self, quantization: str, cached: str, context: int, free: int | None) -> MemoryFit:
        """Return what fits into ``free`` bytes; None means the machine's free memory."""
        others = quantizations(self.target, self.device)
        instead = {other: self.models(other, cached) for other in others}
        return self._fit(quantization, cached, context, free, instead=instead)

    def context(
        self,
        quantization: str,
        cached: str,
        limit: int,
        free: int | None,
        host_free: int | None = None,
    ) -> int:
        """Return the most tokens of context that ``fit`` finds; ``host_free`` is ``free`` on the host."""
        return self._fit(quantization, cached, limit, free, host_free=host_free).context

    def _fit(
        self, quantization: str, cached: str, context: int, free: int | None, **more: Any
    ) -> MemoryFit:
        models, gpu = self.models(quantization, cached), self.device.torch_device.type == "cuda"
        threads = self.device.threads
        return fit.fit(*models, context=context, free=free, gpu=gpu, threads=threads, **more)

    def footprint(self, quantization: str, cached: str, context: int) -> dict[str, int]:
        """Return the bytes of weights and caches with ``context`` tokens, by ``target``, ``draft`` and
        kinds of heads."""
        return {
            name: size.weight_bytes() + size.kv_bytes(context)
            for name, size in zip(self.roles, self.models(quantization, cached), strict=True)
        }

    @property
    def roles(self) -> tuple[str, ...]:
        """What each of ``models`` is: target, draft, the kind of a head, vision, layers on the CPU."""
        names = (TARGET, *((DRAFT,) if self.draft else ()), *(head.kind for head in self.heads))
        names += () if self.vision is None else (VISION,)
        return (*names, HOST_LAYERS) if self.host_layers else names

    def models(self, quantization: str, cached: str) -> list[ModelSize]:
        """Return the sizes of the target, the draft if there is one, every head, the tower, and the
        target's layers on the host."""
        draft = self.draft
        drafting = []
        if draft is not None:
            device = self.draft_device or self.device
            drafting_in = draft_quantization(draft, quantization, device)
            size = self._size(draft, drafting_in, device)
            size = size if self.draft_device is None else _on_host(size)
            rounded = draft_rounding(draft, drafting_in, device)
            drafting.append(size if rounded is None else _rounded(size, draft, rounded))
        aux_layers = distinct(aux_layer for head in self.heads for aux_layer in head.aux_layers)
        target = replace(
            self._target_size(quantization), aux_width=len(aux_layers) * self.target.hidden
        )
        if cached == FP8:
            target = replace(target, cache=FP8)
        models = [target, *drafting, *map(self._head_size, self.heads)]
        if self.host_layers:
            return [*models, self._host_size(quantization)]
        if self.vision is None:
            return models
        if not self.target.is_gguf:  # where it is among the target's own tensors
            models[0] = replace(target, parameters=target.parameters - self.vision.parameters)
        return [*models, self._tower_size(self.vision)]

    def _target_size(self, quantization: str) -> ModelSize:
        """Return the size of the target, or of its later layers and head."""
        if not self.host_layers:
            return self._size(self.target, quantization, self.device)
        part = self._part_size(quantization, self.device, slice(self.host_layers, None))
        return replace(part, partial=True)

    def _host_size(self, quantization: str) -> ModelSize:
        """Return the size of the target's embedding and first layers, with their output of each token."""
        size = self._part_size(quantization, self.device.cpu, slice(self.host_layers))
        return replace(_on_host(size), aux_width=self.target.hidden)

    def _part_size(self, quantization: str, device: Device, part: slice) -> ModelSize:
        """Return the size of a part of the target's layers, see ``engine.backends.split``."""
        whole, names = self.target, Names.among(self.target.tensors)
        known = described(whole)
        assert known is not None  # else it was not split
        layers = range(whole.layers)[part]
        prefixes = tuple(map(names.layer, layers))
        outer = names.embedding if not layers.start or known.tied else names.head
        tensors = {
            name: info
            for name, info in whole.tensors.items()
            if name.startswith(prefixes) or name == outer
        }
        counts = {name: math.prod(info.shape) for name, info in tensors.items()}
        bits = sum(count * _bits(tensors[name].dtype) for name, count in counts.items())
        checkpoint = replace(
            whole, tensors=tensors, parameters=sum(counts.values()), bytes=int(bits / 8)
        )
        own = replace(known, layers=known.layers[part])
        mixers = [spec.mixer for spec in own.layers]
        states = sum(each.memory_bytes for each in mixers if isinstance(each, Recurrent))
        size = self._size(checkpoint, quantization, device)
        return replace(
            size,
            layers=len(own.attentions),
            kv_sizes=tuple(own.kv_sizes),
            recurrent_bytes=states,
            saved_bytes=size.saved_bytes if states else 0,
        )

    def _tower_size(self, vision: VisionPlan) -> ModelSize:
        """Return the size of a vision tower, as if it were loaded already."""
        dtype = "fp32" if dtype_of(vision, self.device.torch_device) == torch.float32 else "bf16"
        name, context = vision.name, self.target.context
        return ModelSize(name, vision.parameters, 0, 0, 0, context, weights=dtype, steps=0)

    def _head_size(self, head: HeadPlan) -> ModelSize:
        """Return a head's size."""
        own = [each for each in head.attentions if each.shared_with is None]
        context, linears = self.target.context, self.linear_factory
        kv = (own[0].kv_heads, own[0].head_dim) if own else (0, 0)
        cache, title = "bf16" if linears.triton else "fp32", method_title(head.kind)
        return ModelSize(
            title, head.parameters, len(own), *kv, context,
            weights=linears.kind, cache=cache, steps=head.steps,
        )  # fmt: skip

    def _size(self, checkpoint: Checkpoint, quantization: str, device: Device) -> ModelSize:
        cache = compute_dtype(checkpoint, quantization, device)
        weights = quantization if quantization in QUANTISED else cache
        size = ModelSize.of(checkpoint, weights, cache, self.checkpoint_mb)
        size = replace(size, name=self.names.get(checkpoint.path, size.name))
        if quantization == AS_STORED:  # the head is the embedding's matrix where they are the same
            return replace(size, block_bytes=_stored_bytes(checkpoint, device), repeated=0)
        if quantization == Q4:
            blocks = int(bytes_in_four_bits(checkpoint) * fit.BLOCKS_WIDTH)
            return replace(size, block_bytes=blocks, repeated=0)
        if weights == "nf4" and device.kernels:
            whole = self.draft if checkpoint is self.draft else self.target
            size = replace(size, unrounded=_uneven(checkpoint, Names.among(whole.tensors)))
        return size if packs(checkpoint, device) else replace(size, repeated=0)


def _on_host(size: ModelSize) -> ModelSize:
    """Return ``size`` in main memory beside a GPU."""
    return replace(size, name=f"{size.name} on the CPU", on_host=True)


def _bits(dtype: str) -> float:
    """Return the bits of a weight in a GGUF file's format; floats are kept in 32."""
    layout = LAYOUTS.get(dtype.lower())
    return 32 if layout is None else 8 * layout.size / layout.inputs


def _uneven(checkpoint: Checkpoint, names: Names) -> int:
    """Return how many weights of the decoder are in rows that are no whole groups of NF4."""
    return sum(
        math.prod(info.shape)
        for name, info in checkpoint.tensors.items()
        if len(info.shape) > 1 and info.shape[-1] % nf4.GROUP
        if name.startswith(names.root) or (name == names.head and not checkpoint.repeats_embedding)
    )


def _stored_bytes(checkpoint: Checkpoint, device: Device) -> int:
    """Return the bytes of a GGUF file's tensors here: on a GPU, of planes and of floats in bf16."""
    if not device.kernels:
        return int(checkpoint.bytes * fit.BLOCKS_WIDTH)
    bits = (
        math.prod(info.shape) * (bits_in_planes(format) if format in FORMS else 16)
        for info in checkpoint.tensors.values()
        for format in [info.dtype.lower()]
    )
    return int(sum(bits)) // 8


def _rounded(size: ModelSize, checkpoint: Checkpoint, format: str) -> ModelSize:
    """Return ``size`` with all weights but the embedding's rounded to ``format`` if they are wider."""
    layout = LAYOUTS[format]
    others = checkpoint.parameters - checkpoint.vocabulary * checkpoint.hidden
    weights = size.weight_bytes()
    wide = weights * others / checkpoint.parameters
    narrow = fit.BLOCKS_WIDTH * others * layout.size / layout.inputs
    return replace(size, block_bytes=int(weights - max(0, wide - narrow)))
