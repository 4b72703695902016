#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: EAGLE-3.
# Options checked against Dynamo 1.6.1.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap 'kill 0' EXIT
python3 -m dynamo.frontend \
    --http-port 8000 \
    --discovery-backend file &
python3 -m dynamo.vllm \
    --model meta-llama/Llama-3.1-8B-Instruct \
    --tensor-parallel-size 1 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 2}' \
    --discovery-backend file &
wait
