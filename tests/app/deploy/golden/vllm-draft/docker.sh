#!/usr/bin/env bash
# llama-3.3-70b on 8xH100: a draft model.
# Options checked against vLLM 0.32.0.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -e HF_TOKEN \
    --entrypoint vllm vllm/vllm-openai:v0.32.0 serve nvidia/Llama-3.3-70B-Instruct-FP8 \
    --tensor-parallel-size 8 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --kv-cache-dtype fp8 \
    --speculative-config '{"method": "draft_model", "model": "nvidia/Llama-3.1-8B-Instruct-FP8", "num_speculative_tokens": 4}' \
    --host 0.0.0.0 --port 8000
