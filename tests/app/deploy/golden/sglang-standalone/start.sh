#!/usr/bin/env bash
# llama-3.1-70b on 4xH100: Draft model.
# Options checked against SGLang 0.5.21.
set -euo pipefail
python3 -m sglang.launch_server \
    --model-path nvidia/Llama-3.1-70B-Instruct-FP8 \
    --tp-size 4 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.86 \
    --speculative-algorithm STANDALONE \
    --speculative-draft-model-path nvidia/Llama-3.1-8B-Instruct-FP8 \
    --speculative-num-steps 3 \
    --speculative-eagle-topk 1 \
    --speculative-num-draft-tokens 4 \
    --enable-metrics \
    --host 127.0.0.1 --port 8000
