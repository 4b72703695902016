"""Reckon the size of a GGUF file from its type, as far as a model's numbers tell."""

from __future__ import annotations

from engine.kernels.formats.block_formats import LAYOUTS, Layout
from engine.loading.specs import ModelSpec

BF16_WIDTH = 2
_TABLE_BITS = 6.5625
"""Bits of a weight in the output head, and in an embedding that is the head too: q6_k in all mixes."""
_MIXES = {
    "IQ1_S": 1.69, "IQ1_M": 1.84, "IQ2_XXS": 2.09, "IQ2_XS": 2.31, "IQ2_S": 2.47, "IQ2_M": 2.68,
    "IQ3_XS": 3.28, "IQ3_S": 3.46, "IQ3_M": 3.57, "Q2_K_S": 2.72, "Q2_K": 2.94, "Q2_K_XL": 3.1,
    "IQ3_XXS": 3.2, "Q3_K_S": 3.5, "Q3_K_M": 3.85, "Q3_K_L": 4.15, "Q3_K_XL": 4.0, "IQ4_XS": 4.4,
    "IQ4_NL": 4.55, "Q4_0": 4.55, "Q4_K_S": 4.6, "Q4_K_M": 4.8, "Q4_K_XL": 4.95, "MXFP4": 4.5,
    "MXFP4_MOE": 4.4, "Q5_K_S": 5.5, "Q5_K_M": 5.65, "Q5_K_XL": 5.75, "Q6_K_XL": 7.2,
}  # fmt: skip
"""Bits of the other weights by type, after the README of llama.cpp's ``quantize``; those of a block where
a file has one format throughout."""
_MTP_SHARE = 0.04
"""Bytes of MTP layers as a share of the others, by files of Qwen3.5 4B to 35B with and without them."""


def gguf_bytes(spec: ModelSpec) -> int:
    """Return about how many bytes a GGUF file takes by its type; an unknown one has 16 bits a weight."""
    kind = spec.gguf_type
    layout = LAYOUTS.get(kind.lower(), Layout(1, 2))
    bits = _MIXES.get(kind, 8 * layout.size / layout.inputs)
    table = spec.vocabulary * spec.hidden
    whole = (spec.parameters - table) * bits + table * max(bits, _TABLE_BITS)
    return int(whole / 8 * (1 + _MTP_SHARE if spec.mtp else 1))
