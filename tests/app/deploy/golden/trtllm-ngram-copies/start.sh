#!/usr/bin/env bash
# llama-3.1-8b on 2xH100: N-gram.
# Options checked against TensorRT-LLM 1.3.0rc29.
# The 2 replicas listen at ports 8000 to 8001.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
trap exit TERM HUP
trap 'trap - INT; kill -INT $$; exit 130' INT
trap 'kill $(jobs -pr) 2>/dev/null || true; wait' EXIT
for copy in 0 1; do
    CUDA_VISIBLE_DEVICES="$copy" trtllm-serve meta-llama/Llama-3.1-8B-Instruct \
        --backend pytorch \
        --tp_size 1 \
        --max_batch_size 100 \
        --max_num_tokens 8192 \
        --max_seq_len 2048 \
        --extra_llm_api_options "$here/extra-llm-api-config.yml" \
        --host 127.0.0.1 --port $((8000 + copy)) &
done
wait
