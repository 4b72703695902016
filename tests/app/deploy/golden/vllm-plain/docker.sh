#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: plain decoding.
# Options checked against vLLM 0.32.0.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -e HF_TOKEN \
    --entrypoint vllm vllm/vllm-openai:v0.32.0 serve meta-llama/Llama-3.1-8B-Instruct \
    --tensor-parallel-size 1 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --host 0.0.0.0 --port 8000
