#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against Dynamo 1.6.1.
# Once, where MPI reaches all 2 nodes: mpirun starts the ranks.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    --network host \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -v "$PWD:/plan:ro" \
    -e HF_TOKEN \
    --entrypoint bash nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.6.1 /plan/start.sh
