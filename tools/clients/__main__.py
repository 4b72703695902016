"""``python -m tools.clients [NAMES]``: the API, asked by the packages and programs that people have.

Each has an environment of its own, made at the first run, for they do not agree on each other's versions
and are no dependencies of the project. Serves a model and runs ``tests/clients`` there. Tests that need a
model with some sense skip with Pip. ``--cases N`` sets how many requests Schemathesis makes of each
operation of the API's document.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.running import ROOT, app

TESTS = ROOT / "tests" / "clients"
SETTINGS = Path(__file__).parent / "pytest.ini"
NEEDS = {
    "agent_turns": ("openai", "openai-agents", "pydantic-ai-slim[openai]"),
    "fuzz": ("schemathesis",),
    "instructor": ("instructor",),
    "langchain": ("langchain-openai",),
    "litellm": ("litellm", "mcp"),
    "ollama_client": ("ollama",),
    "openai_agents": ("openai-agents",),
    "programs": ("llm",),
    "pydantic_ai": ("pydantic-ai-slim[openai]",),
}
"""What ``test_NAME.py`` needs, beside pytest."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NEEDS)}; all")
    parser.add_argument("--pair", default="pip", help="what is served: a pair, or TARGET::DRAFT")
    parser.add_argument("--env", type=Path, default=ROOT / "runs" / "clients", metavar="DIR")
    parser.add_argument("--cases", type=int, default=50, help="of each operation; 50 by default")
    arguments = parser.parse_args()
    names = arguments.names or list(NEEDS)
    if unknown := [name for name in names if name not in NEEDS]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(NEEDS)}")
    pythons = {name: environment(arguments.env / name, NEEDS[name]) for name in names}
    words = ("serve", "--no-load-on-demand")
    with (
        tempfile.TemporaryDirectory() as folder,
        app(*words, pair=arguments.pair, folder=folder, ready="health") as server,
    ):
        url = server.url.rstrip("/")
        results = {name: run(pythons[name], name, url, arguments) for name in names}
    failed = [name for name, status in results.items() if status]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return bool(failed)


def environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """The Python of one with these packages; what it has is kept."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done, wanted = folder / "installed", " ".join(packages)
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {wanted} into {folder}", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "pytest", *packages], check=True)
        done.write_text(wanted)
    return python


def run(python: Path, name: str, url: str, arguments: argparse.Namespace) -> int:
    """pytest's status."""
    variables = {"FORETOKEN_CLIENTS_URL": url, "FORETOKEN_CLIENTS_CASES": str(arguments.cases)}
    variables["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks for prices on the web
    if arguments.pair != "pip":
        variables["FORETOKEN_CLIENTS_REAL"] = arguments.pair
    print(f"--- {name}", flush=True)
    command: list[str | Path] = [
        python,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-rs",
        "--tb=short",
        "-c",
        SETTINGS,
    ]
    command += ["--rootdir", ROOT, f"--confcutdir={TESTS}", TESTS / f"test_{name}.py"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
