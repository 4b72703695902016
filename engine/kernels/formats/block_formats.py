"""Block formats of GGUF: the weights and bytes of a block. Torch-free.

Source: ggml's ``ggml-quants.c``, and the package ``gguf`` that reads them in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """A block holds ``inputs`` weights of one row in ``size`` bytes."""

    inputs: int
    size: int


LAYOUTS = {
    "q4_0": Layout(32, 18),
    "q4_1": Layout(32, 20),
    "q5_0": Layout(32, 22),
    "q5_1": Layout(32, 24),
    "q8_0": Layout(32, 34),
    "q2_k": Layout(256, 84),
    "q3_k": Layout(256, 110),
    "q4_k": Layout(256, 144),
    "q5_k": Layout(256, 176),
    "q6_k": Layout(256, 210),
    "iq4_nl": Layout(32, 18),
    "iq4_xs": Layout(256, 136),
    "mxfp4": Layout(32, 17),
    "iq1_s": Layout(256, 50),
    "iq1_m": Layout(256, 56),
    "iq2_xxs": Layout(256, 66),
    "iq2_xs": Layout(256, 74),
    "iq2_s": Layout(256, 82),
    "iq3_xxs": Layout(256, 98),
    "iq3_s": Layout(256, 110),
    "tq1_0": Layout(256, 54),
    "tq2_0": Layout(256, 66),
}
"""By the names of GGUF's tensor types in lower case."""

NATIVE_FORMATS = (
    "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs",
    "mxfp4",
)  # fmt: skip
"""Formats that the compiled step multiplies by as they are stored."""

REQUANTISED = (
    "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0",
)  # fmt: skip
"""Formats that the compiled step requantises to int8 as it loads them."""

DRAFT_FORMAT = "q4_0"
"""What the compiled step quantises larger weights of draft models to as it loads them."""

SCALES = {
    "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "q8_0": (0,), "q2_k": (80, 82),
    "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,), "iq4_nl": (0,), "iq4_xs": (0,),
}  # fmt: skip
"""Byte offsets of a block's float16 scale and minimum. Formats without an entry cannot store an infinite
scale, or are dequantised before they are used."""
