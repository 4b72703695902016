#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: n-grams of the text so far.
# Options checked against SGLang 0.5.23.
set -euo pipefail
python3 -m sglang.launch_server \
    --model-path meta-llama/Llama-3.1-8B-Instruct \
    --tp-size 1 \
    --context-length 8192 \
    --max-running-requests 8 \
    --mem-fraction-static 0.86 \
    --speculative-algorithm NGRAM \
    --speculative-ngram-max-bfs-breadth 1 \
    --speculative-num-draft-tokens 5 \
    --host 127.0.0.1 --port 8000
