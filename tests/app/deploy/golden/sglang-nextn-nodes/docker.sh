#!/usr/bin/env bash
# deepseek-v3 on 16xH100: MTP layer.
# Options checked against SGLang 0.5.21.
# On each of the 2 nodes: NODE_RANK=0 (1, ...) HEAD_ADDRESS=first.node ./this.sh
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export NODE_RANK="${NODE_RANK:?0 on the first node, then 1, ...}"
export HEAD_ADDRESS="${HEAD_ADDRESS:?the address of the first node}"
docker run --rm --name deepseek-v3 --gpus all --ipc=host \
    --ulimit memlock=-1 --ulimit stack=67108864 \
    --network host \
    -v "$HOME/.cache/huggingface:/hub" \
    -e HF_TOKEN \
    -e HF_HOME=/hub \
    $([ ! -e /dev/infiniband ] || echo --device /dev/infiniband) \
    -e NCCL_SOCKET_IFNAME -e NCCL_IB_HCA \
    -e NODE_RANK -e HEAD_ADDRESS \
    --entrypoint python3 lmsysorg/sglang:v0.5.21 -m sglang.launch_server \
    --model-path deepseek-ai/DeepSeek-V3 \
    --tp-size 16 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.86 \
    --speculative-algorithm NEXTN \
    --speculative-num-steps 2 \
    --speculative-eagle-topk 1 \
    --speculative-num-draft-tokens 3 \
    --enable-metrics \
    --nnodes 2 --node-rank "$NODE_RANK" \
    --dist-init-addr "$HEAD_ADDRESS:50000" \
    --host 127.0.0.1 --port 8000
