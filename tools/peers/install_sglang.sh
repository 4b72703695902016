#!/usr/bin/env bash
# SGLang 0.5.21's own words for its options in a virtual environment DIR of its own, which finds Foretoken's packages
# too. Its server is for GPUs and does not run here: only what reads a command line is wanted.
set -euo pipefail
dir="${1:?usage: install_sglang.sh DIR [PYTHON]}"
python="${2:-$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python}"
where='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -m venv "$dir"
"$python" -c "$where" >"$("$dir/bin/python" -c "$where")/foretoken.pth"
"$dir/bin/python" -m pip install --quiet --no-deps sglang==0.5.21
"$dir/bin/python" -m pip install --quiet aiohttp ipython msgspec pybase64 pyzmq
"$dir/bin/python" -c "import sglang.srt.server_args"
echo "$dir"
