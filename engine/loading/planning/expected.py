"""What a model's files will be, by the catalog: a checkpoint and heads that planning takes as read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from engine.drafting.heads.base import HeadPlan
from engine.kernels.formats.block_formats import LAYOUTS
from engine.loading.specs import ModelSpec
from engine.models.checkpoints.checkpoint import Checkpoint, inspect
from engine.models.checkpoints.weight_files import TensorInfo
from engine.models.families import checkpoint_by, described
from engine.models.hidden_states import entering
from engine.models.sizes.weight_counts import AUX_LAYERS
from engine.models.tensor_shapes import ROUTERS, Names, tensor_shapes

_WIDE = {"mxfp4": "q8_0"}
"""Formats of a file's more exact tensors, by that of the others; of k-quants Q6_K."""


@lru_cache(maxsize=1024)
def expected(spec: ModelSpec) -> Checkpoint | None:
    """Return the checkpoint in a model's files, read if they are here, else as far as the catalog tells;
    None if no family describes the model. Raises ModelError for files that cannot be used.

    Experts of a layer count as one. The formats of a GGUF file are that of its type and a wider one, by
    its bytes. Cached, as lists of models ask repeatedly.
    """
    if spec.path is not None:
        return inspect(spec.path)
    own = checkpoint_by(spec.config)
    architecture = None if own is None else described(own)
    if own is None or architecture is None:
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in tensor_shapes(architecture, Names()).items():
        joined = re.sub(r"\.experts\.\d+\.", ".experts.0.", name)
        rows = shapes[joined][0] if joined in shapes else 0
        shapes[joined] = (rows + shape[0], *shape[1:])
    path = Path(spec.name + (".gguf" if spec.is_gguf else ""))
    dtypes = _dtypes(spec, shapes)
    return replace(
        own,
        path=path,
        context=spec.context or own.context,
        parameters=spec.parameters,
        bytes=spec.bytes,
        dtype=spec.gguf_type or "BF16",
        tensors={name: TensorInfo(path, shape, dtypes[name]) for name, shape in shapes.items()},
    )


def expected_head(spec: ModelSpec, target: Checkpoint) -> HeadPlan:
    """Return the plan of a head that drafts for ``target``, for its sizes alone."""
    architecture = described(target)
    attentions = () if architecture is None else architecture.attentions[-1:] * spec.layers
    aux_layers = entering(*range(AUX_LAYERS.get(spec.method, 0)))
    nothing = cast(Any, None)  # it is never read
    return HeadPlan(
        spec.method, nothing, aux_layers, spec.parameters, nothing, attentions, in_folder=False
    )


def _dtypes(spec: ModelSpec, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the dtype of each tensor: so many matrices are wider that a GGUF file has its bytes."""
    kind = spec.gguf_type.lower()
    if not kind or kind.endswith(("f16", "f32")):
        return dict.fromkeys(shapes, "BF16")
    bits = {name: 8 * layout.size / layout.inputs for name, layout in LAYOUTS.items()}
    known = [name for name in LAYOUTS if kind.startswith(name)]
    least = [name for name in LAYOUTS if bits[name] * spec.parameters <= 8 * spec.bytes]
    narrow = max(known or least or ["q4_k"], key=lambda name: (len(name) * bool(known), bits[name]))
    wide = max(narrow, _WIDE.get(narrow, "q6_k"), key=bits.__getitem__)
    names = Names()
    dtypes = dict.fromkeys(shapes, "F32")
    matrices = {
        name: math.prod(shape)
        for name, shape in shapes.items()
        if len(shape) == 2 and not name.endswith(ROUTERS)
    }
    dtypes |= dict.fromkeys(matrices, narrow.upper())
    left = 8 * spec.bytes - bits[narrow] * sum(matrices.values())
    first = names.embedding, names.head
    for name in sorted(matrices, key=lambda name: (name not in first, "down_proj" not in name)):
        more = matrices[name] * (bits[wide] - bits[narrow])
        if more <= left:
            dtypes[name], left = wide.upper(), left - more
    return dtypes
