#!/usr/bin/env bash
# deepseek-r1 on 16xB200: plain decoding.
# Options checked against SGLang 0.5.23.
# Start it on 2 nodes and put a load balancer before them.
# Where 127.0.0.1 stands, write the address that the load balancer asks, and add --api-key: nobody else should reach it.
set -euo pipefail
python3 -m sglang.launch_server \
    --model-path nvidia/DeepSeek-R1-FP4 \
    --tp-size 4 \
    --context-length 8192 \
    --max-running-requests 50 \
    --mem-fraction-static 0.88 \
    --quantization modelopt_fp4 \
    --dp-size 2 \
    --host 127.0.0.1 --port 8000
