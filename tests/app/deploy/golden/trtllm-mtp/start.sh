#!/usr/bin/env bash
# deepseek-r1 on 8xH200: the target's multi-token prediction.
# Options checked against TensorRT-LLM 1.3 and 1.4.0rc1.
set -euo pipefail
trtllm-serve deepseek-ai/DeepSeek-R1 \
    --backend pytorch \
    --tp_size 8 \
    --max_batch_size 8 \
    --max_num_tokens 8192 \
    --max_seq_len 8192 \
    --extra_llm_api_options extra-llm-api-config.yml \
    --host 127.0.0.1 --port 8000
