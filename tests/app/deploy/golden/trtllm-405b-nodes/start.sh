#!/usr/bin/env bash
# llama-3.1-405b on 16xH100: plain decoding.
# Options checked against TensorRT-LLM 1.3 and 1.4.0rc1.
# Once, where MPI reaches all 2 nodes: mpirun starts the ranks.
set -euo pipefail
mpirun -np 16 trtllm-llmapi-launch trtllm-serve meta-llama/Llama-3.1-405B-Instruct \
    --backend pytorch \
    --tp_size 8 \
    --pp_size 2 \
    --max_batch_size 8 \
    --max_num_tokens 8192 \
    --max_seq_len 4096 \
    --extra_llm_api_options extra-llm-api-config.yml \
    --host 127.0.0.1 --port 8000
