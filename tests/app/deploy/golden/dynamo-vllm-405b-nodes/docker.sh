#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against Dynamo 1.6.1.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./start.sh
set -euo pipefail
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
docker run --rm --gpus all --ipc=host \
    --network host \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -v "$PWD:/plan:ro" \
    -e HF_TOKEN \
    -e NODE_RANK -e HEAD_ADDRESS \
    --entrypoint bash nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1 /plan/start.sh
