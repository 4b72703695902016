#!/usr/bin/env bash
# llama-3.1-8b on 4xH100: EAGLE-3.
# Options checked against Dynamo 1.6.1.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -v "$PWD:/plan:ro" \
    -e HF_TOKEN \
    --entrypoint bash nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.6.1 /plan/start.sh
