"""Assumptions of the estimates, each with its reason.

The shares and times of a step were fitted (least squares of the logarithm) to 2,103 published runs of
eleven models on H100, H200, B200 and B300 with vLLM, SGLang and TensorRT-LLM, which InferenceX measured
and ai-dynamo/aiconfigurator publishes (systems/silicon_sample.csv at 095f58a5). A part of them is in
tests/app/deploy/published_runs.csv, with the error on models that were left out of the fit. Everything
derived from them is shown as an estimate, with its range.
"""

from __future__ import annotations

MEMORY_SHARE = 0.9
"""Share of a GPU's memory that an engine may use (``--gpu-memory-utilization``); the rest is for the
driver and fragmentation."""

WORKSPACE_BYTES = 2_000_000_000
"""CUDA's context, communication buffers and captured graphs on each GPU."""

BATCHED_TOKENS = 8192
"""Prompt tokens in one step; activations are reserved for as many."""

BANDWIDTH_SHARE = 0.85
"""Share of the memory bandwidth that streaming weights and caches reaches; fitted."""

EXPERT_BANDWIDTH_SHARE = 0.76
"""The same for experts, of which a grouped product reads those that some row chose; fitted."""

COMPUTE_SHARE = 0.67
"""Share of the dense FLOP/s that large matrix products reach; fitted."""

EXPERT_COMPUTE_SHARE = 0.22
"""The same for grouped products over experts; fitted."""

LAYER_SECONDS = 38e-6
"""Fixed time of a layer in a captured graph: launches and small kernels; fitted."""

EXPERTS_SECONDS = 22e-6
"""What routing, sorting and gathering of experts add to it; fitted."""

LATENT_SECONDS = 37e-6
"""What the products of latent attention add to it; fitted."""

ROW_SECONDS = 17e-6
"""Host's and sampler's time for a sequence in a step, fitted; taken for each of its rows with drafts."""

ALL_REDUCE_SECONDS = 14e-6
"""Minimum time of an all-reduce over NVLink; a layer needs two; fitted."""

SLOW_ALL_REDUCE_SECONDS = 40e-6
"""The same over PCIe."""

NODES_ALL_REDUCE_SECONDS = 120e-6
"""The same between nodes: with it DeepSeek-R1 over two nodes of H100 has the 43 tokens/s for one user
that tenstorrent/tt-inference-server's issue 356 reports of SGLang."""

NETWORK_BANDWIDTH = 50e9
"""Bytes a second and GPU between nodes: 400 Gb/s, as in NVIDIA's DGX H100."""

FIRST_TOKEN_SECONDS = 0.03
"""Tokenizer, template and scheduling before a prompt's first step; the least of the published runs."""

RANGE = (0.72, 1.38)
"""A measured speed by the estimated one: nine in ten of the published runs of models that were left out
of the fit lie above the first, nine in ten below the second."""
