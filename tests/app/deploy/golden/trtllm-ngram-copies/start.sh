#!/usr/bin/env bash
# llama-3.1-8b on 2xH100: n-grams of the text so far.
# Options checked against TensorRT-LLM 1.3 and 1.4.0rc1.
set -euo pipefail
for copy in 0 1; do
    CUDA_VISIBLE_DEVICES="$copy" trtllm-serve meta-llama/Llama-3.1-8B-Instruct \
        --backend pytorch \
        --tp_size 1 \
        --max_batch_size 100 \
        --max_num_tokens 8192 \
        --max_seq_len 2048 \
        --extra_llm_api_options extra-llm-api-config.yml \
        --host 127.0.0.1 --port $((8000 + copy)) &
done
wait
