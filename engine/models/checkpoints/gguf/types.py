"""GGUF's numbers for what tensors are in, and for what a file as a whole is called.

Written down because the package ``gguf`` takes half a second to import; a test holds them against it.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.kernels.formats.block_formats import LAYOUTS, Layout

TENSOR_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 28: "F64", 29: "IQ1_M", 30: "BF16",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""Those that can be read."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
    18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
    25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
    32: "BF16", 36: "TQ1_0", 37: "TQ2_0",
}  # fmt: skip
"""What people call a file whose matrices are mostly of a type (``general.file_type``)."""

_PLAIN = {"F64": Layout(1, 8), "F32": Layout(1, 4), "F16": Layout(1, 2), "BF16": Layout(1, 2)}


def layout_of(name: str) -> Layout:
    """How many weights of a row lie together in how many bytes, by a name of ``TENSOR_TYPES``."""
    return _PLAIN.get(name) or LAYOUTS[name.lower()]


def is_blocks(name: str) -> bool:
    """Whether a tensor of this type is codes that share scales, not numbers."""
    return name.lower() in LAYOUTS
