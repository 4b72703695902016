#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: EAGLE-3.
# Options checked against TensorRT-LLM 1.3 and 1.4.0rc1.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -v "$PWD/extra-llm-api-config.yml:/plan/extra-llm-api-config.yml:ro" \
    -e HF_TOKEN \
    --entrypoint trtllm-serve nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12 meta-llama/Llama-3.1-8B-Instruct \
    --backend pytorch \
    --tp_size 1 \
    --max_batch_size 1 \
    --max_num_tokens 8192 \
    --max_seq_len 8192 \
    --extra_llm_api_options /plan/extra-llm-api-config.yml \
    --host 0.0.0.0 --port 8000
