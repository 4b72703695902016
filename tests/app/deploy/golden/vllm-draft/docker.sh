#!/usr/bin/env bash
# llama-3.3-70b on 8xH100: Draft model.
# Options checked against vLLM 0.31.0.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
docker run --rm --name llama-3-3-70b --gpus all --ipc=host \
    --ulimit memlock=-1 --ulimit stack=67108864 \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/hub" \
    -e HF_TOKEN \
    -e HF_HOME=/hub \
    --entrypoint vllm vllm/vllm-openai:v0.31.0 serve nvidia/Llama-3.3-70B-Instruct-FP8 \
    --tensor-parallel-size 8 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --kv-cache-dtype fp8 \
    --speculative-config '{"method": "draft_model", "model": "nvidia/Llama-3.1-8B-Instruct-FP8", "num_speculative_tokens": 3}' \
    --per-request-spec-decode-metrics summary \
    --host 0.0.0.0 --port 8000
