"""Runs a file of checks in a process of its own.

Triton decides between compiling and interpreting when it is imported, and other tests of this
process may need the one it did not choose.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PLACES = ["interpreter", pytest.param("device", marks=pytest.mark.gpu)]


def run_checks(name: str, place: str) -> None:
    """Runs ``name`` beside this file in the interpreter or on the GPU; fails with its output."""
    if place == "device" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if place == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    file = Path(__file__).with_name(name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(file)],
        capture_output=True, text=True, check=False, env=environment, cwd=file.parents[4],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
