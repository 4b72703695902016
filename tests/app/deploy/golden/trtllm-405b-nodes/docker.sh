#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against TensorRT-LLM 1.3 and 1.4.0rc1.
# Once, where MPI reaches all 2 nodes: mpirun starts the ranks.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    --network host \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -v "$PWD/extra-llm-api-config.yml:/plan/extra-llm-api-config.yml:ro" \
    -e HF_TOKEN \
    --entrypoint mpirun nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12 -np 16 trtllm-llmapi-launch trtllm-serve meta-llama/Llama-3.1-405B-Instruct \
    --backend pytorch \
    --tp_size 8 \
    --pp_size 2 \
    --max_batch_size 8 \
    --max_num_tokens 8192 \
    --max_seq_len 4096 \
    --extra_llm_api_options /plan/extra-llm-api-config.yml \
    --host 0.0.0.0 --port 8000
