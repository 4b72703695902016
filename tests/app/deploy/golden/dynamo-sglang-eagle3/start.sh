#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: EAGLE-3.
# Options checked against Dynamo 1.6.1.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap 'kill 0' EXIT
python3 -m dynamo.frontend \
    --http-port 8000 \
    --discovery-backend file &
python3 -m dynamo.sglang \
    --model-path meta-llama/Llama-3.1-8B-Instruct \
    --served-model-name meta-llama/Llama-3.1-8B-Instruct \
    --tp-size 1 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.86 \
    --speculative-algorithm EAGLE3 \
    --speculative-draft-model-path yuhuili/EAGLE3-LLaMA3.1-Instruct-8B \
    --speculative-num-steps 3 \
    --speculative-eagle-topk 1 \
    --speculative-num-draft-tokens 4 \
    --discovery-backend file &
wait
