"""Formats of weights and KV caches, by the names of the settings. Torch-free."""

from __future__ import annotations

UNQUANTISED = ("fp32", "bf16")
QUANTISED = ("int8", "nf4")
"""Formats that weights can be quantised to while they are loaded, from wide to narrow."""
FORMATS = (*UNQUANTISED, *QUANTISED)
Q4 = "q4"
"""GGUF's blocks of 4 bits, quantised while the weights are loaded: 32 inputs share a scale and a
minimum. llama.cpp, Ollama and MLX use this name."""
AS_STORED = "stored"
"""The blocks of a GGUF file, in any format, multiplied as they lie in the file."""
IN_BLOCKS = (Q4, AS_STORED)
"""Formats of blocks: the compiled step multiplies by both, the CUDA kernels by the second."""

QUANTIZATIONS = ("auto", *FORMATS, Q4, AS_STORED)
"""Values of the setting ``quantization``, everywhere; auto is what suits model and machine."""
AUTO = QUANTIZATIONS[0]
KV_CACHE_DTYPES = ("auto", "fp8")
"""Values of the setting ``kv_cache_dtype``, everywhere; auto is what the model computes in."""
FP8 = KV_CACHE_DTYPES[1]
