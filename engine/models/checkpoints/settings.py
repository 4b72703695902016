"""What may be chosen about how a model is held: words of the command line, the API and the pages."""

from __future__ import annotations

from engine.kernels.formats import AS_STORED, FORMATS, Q4

QUANTIZATIONS = ("auto", *FORMATS, Q4, AS_STORED)
"""What the setting ``quantization`` may be, everywhere; auto is what suits model and machine."""
AUTO = QUANTIZATIONS[0]
KV_CACHE_DTYPES = ("auto", "fp8")
"""What the setting ``kv_cache_dtype`` may be, everywhere; auto is what the model computes in."""
FP8 = KV_CACHE_DTYPES[1]
