#!/usr/bin/env bash
# llama-3.3-70b on 8xH100: a draft model.
# Options checked against vLLM 0.32.0.
set -euo pipefail
vllm serve nvidia/Llama-3.3-70B-Instruct-FP8 \
    --tensor-parallel-size 8 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --kv-cache-dtype fp8 \
    --speculative-config '{"method": "draft_model", "model": "nvidia/Llama-3.1-8B-Instruct-FP8", "num_speculative_tokens": 4}' \
    --host 127.0.0.1 --port 8000
