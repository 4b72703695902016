#!/usr/bin/env bash
# llama-3.1-8b on 8xH100: EAGLE-3.
# Options checked against vLLM 0.32.0.
set -euo pipefail
vllm serve meta-llama/Llama-3.1-8B-Instruct \
    --tensor-parallel-size 1 \
    --max-model-len 2048 \
    --max-num-seqs 125 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 3}' \
    --data-parallel-size 8 \
    --host 127.0.0.1 --port 8000
