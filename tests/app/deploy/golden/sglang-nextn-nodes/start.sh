#!/usr/bin/env bash
# deepseek-v3 on 16xH100: the target's multi-token prediction.
# Options checked against SGLang 0.5.23.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./start.sh
set -euo pipefail
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
python3 -m sglang.launch_server \
    --model-path deepseek-ai/DeepSeek-V3 \
    --tp-size 16 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.86 \
    --speculative-algorithm NEXTN \
    --speculative-num-steps 1 \
    --speculative-eagle-topk 1 \
    --speculative-num-draft-tokens 2 \
    --nnodes 2 --node-rank "$NODE_RANK" \
    --dist-init-addr "$HEAD_ADDRESS:50000" \
    --host 127.0.0.1 --port 8000
