"""``python -m tools.clients [TESTS]``: the API, asked by the packages and programs that people have.

Makes them an environment of their own (they are no dependencies of the project), serves a model, and
runs ``tests/clients`` there. Tests that need a model with some sense skip with Pip. ``--cases N`` sets
how many requests Schemathesis makes of each operation of the API's document.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.screenshots import ROOT, free_port, wait_for

HERE = Path(__file__).parent
TESTS = ROOT / "tests" / "clients"
REQUIREMENTS = HERE / "requirements.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", type=Path, default=[TESTS], help="all by default")
    parser.add_argument("--pair", default="pip", help="what is served: a pair, or TARGET::DRAFT")
    parser.add_argument("--env", type=Path, default=ROOT / "runs" / "clients", metavar="DIR")
    parser.add_argument("--cases", type=int, default=50, help="of each operation; 50 by default")
    arguments = parser.parse_args()
    python = environment(arguments.env)
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
        command += ["--data-dir", folder, "--pair", arguments.pair, "--no-load-on-demand"]
        server = subprocess.Popen(command, cwd=ROOT)
        try:
            wait_for(f"http://127.0.0.1:{port}/health")
            return run(python, arguments.tests, f"http://127.0.0.1:{port}", arguments)
        finally:
            server.terminate()
            server.wait(timeout=30)


def environment(folder: Path) -> Path:
    """Its Python, with what ``requirements.txt`` names; installed anew where that has changed."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted, mark = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest(), folder / "installed"
    if not mark.exists() or mark.read_text() != wanted:
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS], check=True)
        mark.write_text(wanted)
    return python


def run(python: Path, tests: list[Path], url: str, arguments: argparse.Namespace) -> int:
    """pytest's status."""
    variables = {"FORETOKEN_CLIENTS_URL": url, "FORETOKEN_CLIENTS_CASES": str(arguments.cases)}
    if arguments.pair != "pip":
        variables["FORETOKEN_CLIENTS_REAL"] = arguments.pair
    command = [python, "-m", "pytest", "-c", HERE / "pytest.ini", "--rootdir", ROOT]
    command += [f"--confcutdir={TESTS}", "-rs", *tests]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
