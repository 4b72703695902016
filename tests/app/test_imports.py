"""What is slow to import is not imported by what does not need it: a chat should begin at once.

One library that reaches for another costs seconds, and nobody sees it in a review.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDS_TORCH = ("torch", "numpy", "safetensors", "tokenizers", "jinja2")
SERVES = ("gradio", "fastapi", "starlette", "uvicorn", "sqlite_utils")
COMPILES = ("torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy", "triton")
NEVER = ("transformers", "bitsandbytes", "gguf", "scipy", "matplotlib")
"""Not for any start: where one of them is asked for, a function imports it."""
DOWNLOADS = ("huggingface_hub.file_download", "huggingface_hub.hf_api")


def imported(code: str, tmp_path: Path) -> set[str]:
    """The modules that a fresh interpreter has after ``code``."""
    ending = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"],
        cwd=ROOT,
        env={**os.environ, "FORETOKEN_MODELS": str(tmp_path / "models"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"""
import sys
from app.cli import main
sys.argv = ["foretoken", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def test_help_imports_no_large_library(tmp_path: Path) -> None:
    found = imported(command("--help"), tmp_path)
    large = (
        *NEEDS_TORCH,
        *SERVES,
        *COMPILES,
        *NEVER,
        *DOWNLOADS,
        "pandas",
        "pydantic",
        "rich",
        "yaml",
    )
    assert found.isdisjoint(large), found & set(large)


def test_the_list_of_models_imports_neither_torch_nor_the_client_of_the_hub(tmp_path: Path) -> None:
    found = imported(command("models", "list", "--data-dir", str(tmp_path)), tmp_path)
    large = ("torch", *SERVES, *COMPILES, *NEVER, *DOWNLOADS)
    assert found.isdisjoint(large), found & set(large)


def test_a_chat_in_the_terminal_imports_neither_a_server_nor_transformers(tmp_path: Path) -> None:
    words = ("chat", "hi", "--max-tokens", "4", "--no-native", "--data-dir", str(tmp_path))
    found = imported(command(*words), tmp_path)
    assert "torch" in found
    large = (*SERVES, *COMPILES, *NEVER, *DOWNLOADS, "pandas")
    assert found.isdisjoint(large), found & set(large)


def test_the_page_answers_before_torch_is_imported(tmp_path: Path) -> None:
    code = f"""
import inspect
from pathlib import Path
file_of, asked = inspect.getfile, []
inspect.getfile = lambda thing: (asked.append(thing), file_of(thing))[1]
from starlette.testclient import TestClient
from app.main import Settings, prepare
from app.web.switch import ApiSwitch
switch = ApiSwitch(False, api_key=None, needs_key=False)
runtime, app = prepare(Path({str(tmp_path)!r}), switch, Settings(), True)
with TestClient(app, base_url="http://127.0.0.1:7860") as client:
    assert client.get("/").status_code == 200
runtime.close()
classes = {{one.__name__ for one in asked if getattr(one, "__module__", "").startswith("gradio.")}}
assert len(classes) < 10, classes  # it checks its stubs
"""
    found = imported(code, tmp_path)
    assert {"gradio", "app.training.runs"} <= found
    large = ("torch", *COMPILES, *NEVER)
    assert found.isdisjoint(large), found & set(large)
