#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against Dynamo 1.6.1.
# Once, where MPI reaches all 2 nodes: mpirun starts the ranks.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap 'kill 0' EXIT
python3 -m dynamo.frontend \
    --http-port 8000 \
    --discovery-backend file &
mpirun -np 16 trtllm-llmapi-launch python3 -m dynamo.trtllm \
    --model-path meta-llama/Llama-3.1-405B-Instruct \
    --served-model-name meta-llama/Llama-3.1-405B-Instruct \
    --extra-engine-args "$here/engine.yaml" \
    --discovery-backend file &
wait
