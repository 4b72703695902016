#!/usr/bin/env bash
# deepseek-r1 on 8xH200: the target's multi-token prediction.
# Options checked against SGLang 0.5.23.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -e HF_TOKEN \
    --entrypoint python3 lmsysorg/sglang:v0.5.23 -m sglang.launch_server \
    --model-path deepseek-ai/DeepSeek-R1 \
    --tp-size 8 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.88 \
    --speculative-algorithm NEXTN \
    --speculative-num-steps 1 \
    --speculative-eagle-topk 1 \
    --speculative-num-draft-tokens 2 \
    --host 0.0.0.0 --port 8000
