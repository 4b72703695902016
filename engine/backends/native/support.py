"""What the compiled step computes, and why it cannot run a model."""

from __future__ import annotations

from collections.abc import Collection

from engine.backends.native import trial
from engine.backends.support import ALL_DECODER, ALL_MIXERS, EXPERTS, MLPS, Support
from engine.kernels.formats import IN_BLOCKS, Q4
from engine.kernels.formats.block_formats import NATIVE_FORMATS
from engine.kernels.native import library as native
from engine.kernels.native.library import Library
from engine.models.architecture import (
    Architecture,
    Experts,
    GatedDeltaNet,
    Mamba2,
    ShortConvolution,
)
from engine.models.four_bits import IN_FOUR_BITS


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
    attended = {attention.heads * attention.head_dim for attention in architecture.attentions}
    whole = not any(size % native.LANES for size in {architecture.hidden} | widths | heads)
    deltas = {spec.mixer for spec in architecture.layers if isinstance(spec.mixer, GatedDeltaNet)}
    for delta in deltas:
        attended.add(delta.values)
        if any(size % native.LANES for size in (delta.key_dim, delta.value_dim, delta.value_heads)):
            return (
                f"Its gated delta nets have {delta.value_heads} value heads, key size "
                f"{delta.key_dim} and value size {delta.value_dim}; the compiled kernels need "
                f"multiples of {native.LANES} for all three."
            )
    for mamba in {spec.mixer for spec in architecture.layers if isinstance(spec.mixer, Mamba2)}:
        attended.add(mamba.values)
        sizes = mamba.heads, mamba.head_dim, mamba.state
        if any(size % native.LANES for size in sizes) or mamba.kernel > native.ROWS:
            return (
                f"Its Mamba-2 layers have {mamba.heads} heads of size {mamba.head_dim}, state "
                f"size {mamba.state} and kernel {mamba.kernel}; the compiled kernels need "
                f"multiples of {native.LANES} for the first three, and at most {native.ROWS} "
                "for the kernel."
            )
    attended |= {
        spec.mixer.width for spec in architecture.layers if isinstance(spec.mixer, ShortConvolution)
    }
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
        formats = {*(IN_FOUR_BITS if weights == Q4 else blocks), "fp32"} | {"fp32"}
    failed = sorted(each for each in formats if not trial.passes(library, each))
    if not failed:
        return None
    return (
        f"On this processor the results for {', '.join(failed)} weights depend on the "
        "batch, so they would not be exact."
    )
