#!/usr/bin/env bash
# llama-3.1-8b on 4xH100: EAGLE-3.
# Options checked against Dynamo 1.6.1.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap 'kill 0' EXIT
python3 -m dynamo.frontend \
    --http-port 8000 \
    --discovery-backend file &
for copy in 0 1 2 3; do
    CUDA_VISIBLE_DEVICES="$copy" python3 -m dynamo.trtllm \
        --model-path meta-llama/Llama-3.1-8B-Instruct \
        --served-model-name meta-llama/Llama-3.1-8B-Instruct \
        --extra-engine-args "$here/engine.yaml" \
        --discovery-backend file &
done
wait
