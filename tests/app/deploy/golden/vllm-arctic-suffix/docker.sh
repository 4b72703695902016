#!/usr/bin/env bash
# llama-3.1-8b on 1xH100: Arctic's LSTM speculator with suffix trees.
# Options checked against Arctic Inference 0.2.1.dev0, which is for vLLM 0.18.0.
set -euo pipefail
docker run --rm --gpus all --ipc=host \
    -p 127.0.0.1:8000:8000 \
    -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
    -e HF_TOKEN \
    -e ARCTIC_INFERENCE_ENABLED=1 \
    --entrypoint bash vllm/vllm-openai:v0.18.0 -c 'pip install '"'"'arctic-inference[vllm]'"'"' && exec "$@"' start \
    vllm serve meta-llama/Llama-3.1-8B-Instruct \
    --tensor-parallel-size 1 \
    --max-model-len 128 \
    --max-num-seqs 900 \
    --gpu-memory-utilization 0.90 \
    --speculative-config '{"method": "arctic", "model": "Snowflake/Arctic-LSTM-Speculator-Llama-3.1-8B-Instruct", "num_speculative_tokens": 3, "enable_suffix_decoding": true, "hard_disable_by_batch_size": 135}' \
    --host 0.0.0.0 --port 8000
