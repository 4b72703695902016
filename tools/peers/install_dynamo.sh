#!/usr/bin/env bash
# NVIDIA Dynamo 1.6.1 (frontend, router, mocker, worker runtime) in a virtual environment DIR of its own, which
# finds Foretoken's packages too: there `DIR/bin/python -m app worker --dynamo` runs, started in this repository.
# No GPU or NATS is needed, and etcd for several machines alone. aisimulate, which the wheel names too, is for Dynamo's planner and left out.
set -euo pipefail
dir=$(mkdir -p "${1:?usage: install_dynamo.sh DIR [PYTHON]}" && cd "$1" && pwd)
python="${2:-$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python}"
where='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -m venv "$dir"
"$python" -c "$where" >"$("$dir/bin/python" -c "$where")/foretoken.pth"
"$dir/bin/python" -m pip install --quiet --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1
"$dir/bin/python" -m pip install --quiet uvloop msgspec packaging pyzmq zstandard "aiohttp<4" \
    "kubernetes>=32.0.1,<33" "redis<9" "prometheus-client<1"
# The test with several hosts has workers found by etcd, which Debian packages; nothing is installed of it here.
if ! command -v etcd >/dev/null && command -v apt-get >/dev/null; then
    package=$(mktemp -d)
    (cd "$package" && apt-get download etcd-server >/dev/null 2>&1 && dpkg -x etcd-server_*.deb . &&
        cp usr/bin/etcd "$dir/bin/") || echo "No etcd could be had: what needs it is skipped." >&2
    rm -r "$package"
fi
"$dir/bin/python" -m dynamo.frontend --help >/dev/null
(cd "$(dirname "$0")/../.." && "$dir/bin/python" -c "import app.worker.dynamo")
echo "$dir"
