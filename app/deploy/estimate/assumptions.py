"""Assumptions of the estimates, each with its reason.

They reproduce two published figures (tests/app/deploy/test_speed.py): Llama-3.1-8B in bf16 on one H100,
158 tokens/s plain and 373 with EAGLE-3 (SGLang's documentation); and Llama-3.3-70B in fp8 on one H200, 51
tokens/s plain (NVIDIA's developer blog). Everything derived from them is shown as an estimate.
"""

from __future__ import annotations

MEMORY_SHARE = 0.9
"""Share of a GPU's memory that an engine may use (``--gpu-memory-utilization``); the rest is for the
driver and fragmentation."""

WORKSPACE_BYTES = 2_000_000_000
"""CUDA's context, communication buffers and captured graphs on each GPU."""

BATCHED_TOKENS = 8192
"""Prompt tokens in one step; activations are reserved for as many."""

BANDWIDTH_SHARE = 0.8
"""Share of the memory bandwidth that streaming weights and caches reaches."""

COMPUTE_SHARE = 0.6
"""Share of the dense FLOP/s that large matrix products reach."""

LAYER_SECONDS = 20e-6
"""Fixed time of a layer in a captured graph: launches and small kernels."""

ALL_REDUCE_SECONDS = 10e-6
"""Minimum time of an all-reduce over NVLink; a layer needs two."""

SLOW_ALL_REDUCE_SECONDS = 40e-6
"""The same over PCIe or between nodes."""

NETWORK_BANDWIDTH = 50e9
"""Bytes a second and GPU between nodes: 400 Gb/s, as in NVIDIA's DGX H100."""
