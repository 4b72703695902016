#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against vLLM 0.32.0.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./start.sh
set -euo pipefail
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
vllm serve meta-llama/Llama-3.1-405B-Instruct \
    --tensor-parallel-size 8 \
    --pipeline-parallel-size 2 \
    --max-model-len 4096 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --nnodes 2 --node-rank "$NODE_RANK" \
    --master-addr "$HEAD_ADDRESS" \
    $([ "$NODE_RANK" = 0 ] || echo --headless) \
    --host 127.0.0.1 --port 8000
