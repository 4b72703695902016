#!/usr/bin/env bash
# deepseek-v3 on 16xH100: MTP layer.
# Options checked against vLLM 0.31.0.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./this.sh
set -euo pipefail
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
vllm serve deepseek-ai/DeepSeek-V3 \
    --tensor-parallel-size 16 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}' \
    --per-request-spec-decode-metrics summary \
    --nnodes 2 --node-rank "$NODE_RANK" \
    --master-addr "$HEAD_ADDRESS" \
    $([ "$NODE_RANK" = 0 ] || echo --headless) \
    --host 127.0.0.1 --port 8000
