#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against Dynamo 1.6.1.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./start.sh
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap 'kill 0' EXIT
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
[ "$NODE_RANK" != 0 ] || python3 -m dynamo.frontend \
    --http-port 8000 \
    --discovery-backend file &
python3 -m dynamo.vllm \
    --model meta-llama/Llama-3.1-405B-Instruct \
    --tensor-parallel-size 8 \
    --pipeline-parallel-size 2 \
    --max-model-len 4096 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --nnodes 2 --node-rank "$NODE_RANK" \
    --master-addr "$HEAD_ADDRESS" \
    $([ "$NODE_RANK" = 0 ] || echo --headless) \
    --discovery-backend file &
wait
