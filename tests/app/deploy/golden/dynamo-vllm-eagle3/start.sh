#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: EAGLE-3 head.
# Options checked against Dynamo 1.6.1 with vLLM 0.31.0.
# Workers publish the tokens in their caches at every address, from port 20080: let nobody else reach it.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap exit TERM HUP
trap 'trap - INT; kill -INT $$; exit 130' INT
trap 'kill $(jobs -pr) 2>/dev/null || true; wait' EXIT
python3 -m dynamo.frontend \
    --http-host "${HTTP_HOST:-127.0.0.1}" --http-port 8000 \
    --router-mode kv --migration-limit 3 \
    --discovery-backend file &
python3 -m dynamo.vllm \
    --model meta-llama/Llama-3.1-8B-Instruct \
    --tensor-parallel-size 1 \
    --max-model-len 8192 \
    --max-num-seqs 8 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "num_speculative_tokens": 2}' \
    --per-request-spec-decode-metrics summary \
    --kv-events-config '{"publisher": "zmq", "topic": "kv-events", "endpoint": "tcp://*:20080", "enable_kv_cache_events": true}' \
    --discovery-backend file &
wait
