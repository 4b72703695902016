"""What the compiled step computes, and why it cannot run a model.

Before a format is planned, a trial tests whether a row has the same bits beside other rows: compilers
differ in how they fuse multiplications and additions. A small random decoder of the format, with every
part that a decoder may have, is run. Passed formats are stored beside the library, whose name depends
on source, compiler and processor.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Collection
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from engine.backends.native.decoder import NativeDecoder
from engine.backends.support import ALL_DECODER, ALL_MIXERS, EXPERTS, MLPS, Support
from engine.errors import DiskError
from engine.files import read_json, write_private
from engine.kernels.formats import IN_BLOCKS, Q4
from engine.kernels.formats.block_formats import LAYOUTS, NATIVE_FORMATS, SCALES
from engine.kernels.formats.blocks import Blocks, Weight
from engine.kernels.native import library as native
from engine.kernels.native.library import BLOCKS, Library
from engine.models.architecture import (
    Architecture,
    Attention,
    Experts,
    GatedDeltaNet,
    GatedMlp,
    LayerSpec,
    Mamba2,
    Mlp,
    Rope,
    ShortConvolution,
    Temperature,
)
from engine.models.base import ModelInfo
from engine.models.four_bits import IN_FOUR_BITS
from engine.models.tensor_shapes import Names, tensor_shapes

log = logging.getLogger(__name__)

_HEAD_DIM, _WIDTH, _TEXT = 64, 256, 12
"""Sizes of the decoder and the text. k-quants have blocks of 256 inputs, so no matrix is narrower."""
_ROPE = Rope(tuple(1e4 ** (-2 * pair / _HEAD_DIM) for pair in range(_HEAD_DIM // 2)))
_ATTENTION = Attention(
    heads=4,
    kv_heads=2,
    head_dim=_HEAD_DIM,
    query_scale=_HEAD_DIM**-0.5,
    rope=_ROPE,
    qkv_bias=True,
    qk_norm=True,
    score_cap=20.0,
)
_OTHER = replace(
    _ATTENTION,
    heads=2,
    kv_heads=1,
    head_dim=2 * _HEAD_DIM,
    rope=None,
    window=5,
    output_gate=True,
    value_norm=True,
    qk_norm_across_heads=True,
    temperature=Temperature(0.5, 4),
)
_AFTER = replace(_ATTENTION, qk_norm_after_rope=True, sinks=True)
_DELTA = GatedDeltaNet(key_heads=4, value_heads=16, key_dim=16, value_dim=16, kernel=4)
_EXPERTS = Experts(
    4, 2, _WIDTH, "quick_gelu", score_bias=True, renormalised=True, bias=True, clamp=3.0,
    shared=_WIDTH, shared_gate=True,
)  # fmt: skip
_ARCHITECTURE = Architecture(
    layers=(
        LayerSpec(_ATTENTION, GatedMlp(2 * _WIDTH, "silu")),
        LayerSpec(_DELTA, GatedMlp(_WIDTH, "relu")),
        LayerSpec(ShortConvolution(_WIDTH, 3), GatedMlp(_WIDTH, "silu")),
        LayerSpec(Mamba2(16, 16, 1, 16, 4), GatedMlp(_WIDTH, "silu")),
        LayerSpec(_OTHER, GatedMlp(_WIDTH, "gelu")),
        LayerSpec(_AFTER, Mlp(_WIDTH, "gelu_pytorch_tanh", bias=True)),
        LayerSpec(_ATTENTION, _EXPERTS),
    ),
    vocabulary=64,
    hidden=_WIDTH,
    epsilon=1e-6,
    tied=False,
    sandwich_norms=True,
    per_layer_width=_WIDTH,
    layer_scalars=True,
    layer_norms=True,
    norm_bias=True,
    residual_scale=0.7,
    logit_scale=0.6,
)


@cache
def passes(library: Library, weights: str) -> bool:
    """Return whether rows have their own bits with weights in a format, or in blocks of one.

    Logs a failure. The first call for a format takes some milliseconds.
    """
    results = library.path.with_name(f"{library.path.name}.trial.json")
    passed = _read(results)
    if passed.get(weights) is True:
        return True
    # Only linear layers depend on the format, so one format is enough to try both dtypes of the KV cache.
    cached = (torch.float32, torch.bfloat16) if weights == "fp32" else (torch.float32,)
    if not all(is_row_independent(library, weights, dtype) for dtype in cached):
        log.warning(
            "On this processor the compiled kernels' results for %s weights depend on the "
            "batch. They are not used for such weights.",
            weights,
        )
        return False
    with contextlib.suppress(DiskError):  # then it is tried again next time
        write_private(results, json.dumps({**passed, weights: True}))
    return True


def _read(results: Path) -> dict[str, object]:
    try:
        content = read_json(results)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_row_independent(library: Library, weights: str, cached: torch.dtype) -> bool:
    """Try a small random decoder whose weights are in a format, and its KV cache in ``cached``.

    Rows alone, beside three and beside eleven, and in a tree of which a path is committed.
    """
    info = ModelInfo("trial", "", 64, _TEXT, 0, weights, "cpu", frozenset())
    kind = "fp32" if weights in BLOCKS else weights
    source = partial(_tensor, weights, tensor_shapes(_ARCHITECTURE, Names()))
    model = NativeDecoder(_ARCHITECTURE, Names(), source, info, library, kind, cached)
    text = list(range(7, 7 + _TEXT))
    state = model.new_state(_TEXT)
    alone = torch.cat([model.forward([token], state, last=1) for token in text[:4]])
    equal = bool(alone.isfinite().all())
    for rows in (4, _TEXT):
        state.rewind(0)
        equal &= torch.equal(model.forward(text[:rows], state, last=rows)[:4], alone)
    state.rewind(0)
    model.forward(text[:1], state, last=0)
    tree = model.forward_tree([text[1], 60, text[2], 61], [-1, 0, 0, 2], state)
    equal &= torch.equal(tree[[0, 2]], alone[1:3])
    state.commit((0, 2))
    return equal and torch.equal(model.forward([text[3]], state, last=1), alone[3:])


def _tensor(weights: str, shapes: dict[str, tuple[int, ...]], name: str) -> Weight:
    shape = shapes[name]
    draw = torch.Generator().manual_seed(sum(name.encode()))
    if len(shape) == 2 and weights in BLOCKS:
        return _blocks(weights, shape[0], shape[1], draw)
    return torch.randn(shape, generator=draw) * (0.05 if len(shape) == 2 else 1)


def _blocks(weights: str, outputs: int, inputs: int, draw: torch.Generator) -> Blocks:
    """Return random codes under small scales."""
    layout = LAYOUTS[weights]
    size = inputs // layout.inputs * layout.size
    data = torch.randint(0, 256, (outputs, size), dtype=torch.uint8, generator=draw)
    scale = torch.tensor([1e-3], dtype=torch.float16).view(torch.uint8)
    by_block: Tensor = data.view(-1, layout.size)
    for place in SCALES.get(weights, ()):
        by_block[:, place : place + 2] = scale
    if weights == "mxfp4":
        by_block[:, 0] = 120  # the exponent of a power of two
    if weights == "iq1_m":
        by_block[:, 49::2] &= 0x0F  # the bits of the scale
        by_block[:, 55] |= 0x10
    return Blocks(weights, (outputs, inputs), data)


def support(library: Library | None) -> Support:
    """Return what the compiled step computes on this processor, or without a ``library`` on any."""
    formats = tuple(native.KINDS if library is None else library.kinds)
    if "fp32" in formats:  # for vectors
        formats = (*formats, *IN_BLOCKS)
    return Support(
        "The compiled kernels",
        ALL_MIXERS,
        {**MLPS, **EXPERTS},
        native.GATES,
        formats,
        ALL_DECODER,
        blocks=frozenset(NATIVE_FORMATS),
    )


def why_not(
    architecture: Architecture, weights: str, library: Library | None, blocks: Collection[str] = ()
) -> str | None:
    """Return why the compiled step cannot run the model, as a sentence for users; None if it can.

    Without a ``library`` the step is not built yet; the answer is then for when it is. ``blocks``: see
    ``Support.why_not``.
    """
    reason = support(library).why_not(architecture, weights, blocks)
    if reason is None and library is not None:
        reason = _why_not_trusted(library, weights, blocks)
    if reason is not None:
        return reason
    feed_forwards = {spec.feed_forward for spec in architecture.layers}
    widths = {each.intermediate for each in feed_forwards}
    widths |= {each.shared for each in feed_forwards if isinstance(each, Experts) and each.shared}
    if architecture.per_layer_width:
        widths.add(architecture.per_layer_width)
    heads = {attention.head_dim for attention in architecture.attentions}
    attended = set[int]()
    for mixer in {spec.mixer for spec in architecture.layers}:
        sizes: tuple[int, ...] = ()
        match mixer:
            case Attention():
                attended.add(mixer.heads * mixer.head_dim)
            case ShortConvolution():
                attended.add(mixer.width)
            case GatedDeltaNet():
                attended.add(mixer.values)
                sizes = mixer.value_heads, mixer.key_dim, mixer.value_dim
                has = "gated delta nets have {} value heads, key size {} and value size {}"
            case Mamba2():
                attended.add(mixer.values)
                sizes = mixer.heads, mixer.head_dim, mixer.state
                has = "Mamba-2 layers have {} heads of size {} and state size {}"
        if any(size % native.LANES for size in sizes):
            return (
                f"Its {has.format(*sizes)}; the compiled kernels need multiples of {native.LANES} "
                "for all three."
            )
    whole = not any(size % native.LANES for size in {architecture.hidden} | widths | heads)
    if whole and native.has_whole_groups(weights, {architecture.hidden} | widths | attended):
        return None
    return (
        f"Its widths are {architecture.hidden} and {_listed(widths)}, with head sizes "
        f"{_listed(heads)}; the compiled kernels need multiples of {native.LANES}, in q4 "
        f"of {native.UNITS[Q4]}, and in nf4 of {native.UNITS['nf4']}."
    )


def _listed(sizes: Collection[int]) -> str:
    return " or ".join(map(str, sorted(sizes)))


def _why_not_trusted(library: Library, weights: str, blocks: Collection[str]) -> str | None:
    """Return why weights in this format or these blocks failed their trial on this processor."""
    formats = {weights}
    if weights in IN_BLOCKS:
        formats = {*(IN_FOUR_BITS if weights == Q4 else blocks), "fp32"}
    failed = sorted(each for each in formats if not passes(library, each))
    if not failed:
        return None
    return (
        f"On this processor the results for {', '.join(failed)} weights depend on the "
        "batch, so they would not be exact."
    )
