"""The formats that weights are held in, by the names of ``--quantization``. Torch-free."""

from __future__ import annotations

UNQUANTISED = ("fp32", "bf16")
QUANTISED = ("int8", "nf4")
"""Formats that weights can be quantised to while they are loaded, from wide to narrow."""
FORMATS = (*UNQUANTISED, *QUANTISED)
Q4 = "q4"
"""Blocks of 4 bits as GGUF files have them, made while the weights are loaded: 32 inputs share a scale
and a minimum. llama.cpp, Ollama and MLX call such weights so."""
AS_STORED = "stored"
"""The blocks of a GGUF file, whichever they are, multiplied as they lie in the file."""
IN_BLOCKS = (Q4, AS_STORED)
"""What the compiled step alone multiplies."""
