"""The captured executor: a decoder on a CUDA device, and whole rounds there as CUDA graphs.

``layers``      fused linear layers from a checkpoint's tensors
``state``       a sequence's state, whose length host and device both know
``decoder``     the model
``prompts``     attention of a prompt's many rows, by torch
``round``       one round as device operations only: draft, verify, accept, next inputs
``heads``       heads that draft within a round
``capture``     device operations as a CUDA graph
``graphs``      rounds captured once and replayed, and their results on the host
``passes``      rows of several sequences at once, captured too

Importing this package needs neither torch, Triton nor a device; ``round`` and ``graphs`` need Triton.
"""

from __future__ import annotations

from engine.kernels.cuda import KV_SPLIT, STREAMED_ROWS, kv_parts

__all__ = ["GRAPH_DEPTHS", "KV_SPLIT", "PASS_GRAPHS", "STREAMED_ROWS", "kv_parts"]

GRAPH_DEPTHS = (0, 1, 2, 3, 4, 5, 7, 10, 15)
"""Depths of a round. Each is a graph, which takes memory and time to capture."""
PASS_GRAPHS = 8
"""Most graphs of passes for several sequences; the least recently used one goes first."""
