#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: EAGLE-3 head.
# Options checked against vLLM 0.31.0.
set -euo pipefail
VLLM_USE_V2_MODEL_RUNNER=0 vllm serve nvidia/Llama-3.1-8B-Instruct-FP8 \
    --tensor-parallel-size 1 \
    --max-model-len 256 \
    --max-num-seqs 900 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 31, 3], [32, 63, 2], [64, 900, 1]]}' \
    --per-request-spec-decode-metrics summary \
    --host 127.0.0.1 --port 8000
