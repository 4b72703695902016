"""What the estimates take for granted, each number once and with the reason for it.

They were set so that two published figures come out (tests/app/deploy/test_speed.py holds them to it):
Llama-3.1-8B in bf16 on one H100, SGLang's documentation, 158 tokens/s plain and 373 with EAGLE-3; and
Llama-3.3-70B in fp8 on one H200, NVIDIA's developer blog, 51 tokens/s plain. Everything that follows from
them is an estimate and is called one wherever it is shown.
"""

from __future__ import annotations

MEMORY_SHARE = 0.9
"""Of a GPU's memory an engine uses this much at most, as plans tell it to
(``--gpu-memory-utilization`` and the like); the rest is for the driver and what fragments."""

WORKSPACE_BYTES = 2_000_000_000
"""CUDA's context, communication buffers and captured graphs on each GPU."""

BATCHED_TOKENS = 8192
"""Tokens of prompts that one step takes: activations are reserved for as many."""

BANDWIDTH_SHARE = 0.8
"""Of a GPU's memory bandwidth, what streaming weights and caches reaches."""

COMPUTE_SHARE = 0.6
"""Of a GPU's dense FLOP/s, what large products reach."""

LAYER_SECONDS = 20e-6
"""Launches and what else a layer takes beside its bytes and products, in a captured graph."""

ALL_REDUCE_SECONDS = 10e-6
"""The least an all-reduce takes between GPUs joined by NVLink; a layer needs two."""

SLOW_ALL_REDUCE_SECONDS = 40e-6
"""The same over PCIe or between nodes."""

NETWORK_BANDWIDTH = 50e9
"""Bytes a second and GPU between nodes: 400 Gb/s, as in NVIDIA's DGX H100."""
