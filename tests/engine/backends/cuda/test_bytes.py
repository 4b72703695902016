"""What a load keeps on a GPU has the bytes that are planned for it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from engine.backends.cuda import layers
from engine.kernels.cuda.linear.dispatch import convert_weight
from engine.loading.catalog import Catalog
from engine.loading.files import fetch_pair
from engine.loading.loader import load_planned
from engine.loading.planning.plan import plan_loading
from tests.engine.backends.cuda.test_blocks import stored_in
from tests.support.checkpoints import write_random
from tests.support.families import write_family
from tests.support.gguf_files import write_gguf
from tests.support.loading import request_for

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

SIZES: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "head_dim": 128, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False,
}  # fmt: skip
"""Rows are whole blocks and groups, and norms and routers small beside them."""
UNEVEN = {**SIZES, "intermediate_size": 480}
"""Rows of ``down_proj`` are no whole groups of NF4, so they stay in bf16."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("bytes")
    write_random(root / "dense", **SIZES)
    write_random(root / "uneven", **UNEVEN)
    write_family(root / "experts", "mixtral", **SIZES)
    write_family(root / "uneven experts", "mixtral", **UNEVEN)
    file = write_gguf(root / "dense", root / "blocks.gguf", stored_in)
    return {folder.name: folder for folder in root.iterdir() if folder.is_dir()} | {"blocks": file}


def tensors_of(part: object, seen: set[int]) -> Iterator[Tensor]:
    """Yield the tensors that ``part`` refers to, each memory once."""
    if id(part) in seen or isinstance(part, type | str | torch.device | torch.dtype):
        return
    seen.add(id(part))
    if isinstance(part, Tensor) and part.is_mkldnn:  # of a router, only on a CPU
        yield part.to_dense()
    elif isinstance(part, Tensor):
        storage = part.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            yield part
        return
    inner: list[object] = []
    if isinstance(part, dict):
        inner = list(part.values())
    elif isinstance(part, list | tuple):
        inner = list(part)
    elif isinstance(part, MethodType):
        inner = [part.__self__]
    elif isinstance(part, FunctionType):
        inner = [cell.cell_contents for cell in part.__closure__ or ()]
    elif type(part).__module__.startswith("engine."):
        slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
        inner = [*getattr(part, "__dict__", {}).values()]
        inner += [getattr(part, name) for name in slots if hasattr(part, name)]
    for each in inner:
        yield from tensors_of(each, seen)


def kept_bytes(*parts: object) -> int:
    seen: set[int] = set()
    return sum(each.untyped_storage().nbytes() for part in parts for each in tensors_of(part, seen))


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        *((name, kind) for name in ("dense", "experts") for kind in ("bf16", "int8", "nf4")),
        ("uneven", "nf4"),
        ("uneven experts", "nf4"),
        ("blocks", "stored"),
    ],
)
@pytest.mark.parametrize("cached", ["auto", "fp8"])
def test_weights_and_caches_have_the_planned_bytes(
    name: str, quantization: str, cached: str, models: dict[str, Path]
) -> None:
    """Also after prompts, which multiply by the weights of one expert at a time."""
    settings = {"quantization": quantization, "context": 64, "kv_cache_dtype": cached}
    request = request_for(models[name], **settings)
    plan = plan_loading(fetch_pair(request, Catalog((), ()), None), request)
    model: Any = load_planned(plan.target)
    for layer in model.layers if "experts" in name else ():
        for experts in (layer.feed_forward.gate_up, layer.feed_forward.down):
            for index in range(layer.feed_forward.spec.count):
                experts.of(index)
    rotations = {id(layer.rotation) for layer in model.layers}
    weights = kept_bytes(model.layers, model.embedding, model.head, model.norm)
    weights -= kept_bytes(model.layers[0].rotation)
    assert len(rotations) == 1  # counted with attention
    assert weights == pytest.approx(plan.memory_fit.weights, rel=0.01)
    state = model.new_state(64)
    size = plan.sizes.models(quantization, cached)[0]
    if cached != "fp8":  # a CPU, which interprets, would have fp32
        size = replace(size, cache="bf16")
    assert sum(each.nbytes for each in state.static.parts) == size.kv_bytes(64)


def test_experts_are_loaded_one_by_one_into_their_place(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All experts of a layer were there twice for a moment, some hundred megabytes."""
    made: list[weakref.ref[Tensor]] = []
    most = 0

    def convert(*asked: Any) -> Any:
        nonlocal most
        weight = convert_weight(*asked)
        assert isinstance(weight, Tensor)
        made.append(weakref.ref(weight))
        experts = [one for each in made if (one := each()) is not None and len(one) == 1024]
        most = max(most, len(experts))
        return weight

    monkeypatch.setattr(layers, "convert_weight", convert)
    request = request_for(models["experts"], quantization="bf16")
    load_planned(plan_loading(fetch_pair(request, Catalog((), ()), None), request).target)
    assert len(made) > 8 and 0 < most <= 2
