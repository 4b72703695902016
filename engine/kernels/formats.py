"""The formats that weights are held in, by the names of ``--quantization``. Torch-free."""

from __future__ import annotations

UNQUANTISED = ("fp32", "bf16")
QUANTISED = ("int8", "nf4")
"""Formats that weights can be quantised to while they are loaded, from wide to narrow."""
FORMATS = (*UNQUANTISED, *QUANTISED)
AS_STORED = "stored"
"""The blocks of a GGUF file, whichever they are, multiplied as they lie in the file."""
