"""Block formats of GGUF: the weights and bytes of a block. Torch-free.

Source: ggml's ``ggml-common.h`` and ``ggml-quants.c``. The package ``gguf`` reads all but
Q1_0 and Q2_0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """A block holds ``inputs`` weights of one row in ``size`` bytes."""

    inputs: int
    size: int


LAYOUTS = {
    "q8_0": Layout(32, 34),
    "q4_0": Layout(32, 18),
    "q4_1": Layout(32, 20),
    "q5_0": Layout(32, 22),
    "q5_1": Layout(32, 24),
    "q2_k": Layout(256, 84),
    "q3_k": Layout(256, 110),
    "q4_k": Layout(256, 144),
    "q5_k": Layout(256, 176),
    "q6_k": Layout(256, 210),
    "iq4_nl": Layout(32, 18),
    "iq4_xs": Layout(256, 136),
    "mxfp4": Layout(32, 17),
    "nvfp4": Layout(64, 36),
    "q1_0": Layout(128, 18),
    "q2_0": Layout(64, 18),
    "tq1_0": Layout(256, 54),
    "tq2_0": Layout(256, 66),
    "iq2_xxs": Layout(256, 66),
    "iq2_xs": Layout(256, 74),
    "iq2_s": Layout(256, 82),
    "iq3_xxs": Layout(256, 98),
    "iq3_s": Layout(256, 110),
    "iq1_s": Layout(256, 50),
    "iq1_m": Layout(256, 56),
}
"""By the names of GGUF's tensor types in lower case, in the order of blocks.h."""

NATIVE_FORMATS = tuple(LAYOUTS)
"""Formats that the compiled step multiplies by as they are stored: all of them, by its numbers."""

DRAFT_FORMAT = "q4_0"
"""What the compiled step quantises larger weights of draft models to as it loads them."""

SCALES = {
    "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "q8_0": (0,), "q2_k": (80, 82),
    "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,), "iq4_nl": (0,), "iq4_xs": (0,),
    "q1_0": (0,), "q2_0": (0,), "tq1_0": (52,), "tq2_0": (64,), "iq2_xxs": (0,), "iq2_xs": (0,),
    "iq2_s": (0,), "iq3_xxs": (0,), "iq3_s": (0,), "iq1_s": (0,),
}  # fmt: skip
"""Byte offsets of a block's float16 scale and minimum. Formats without an entry cannot store an infinite
scale, or store its bits in pieces (IQ1_M)."""
