"""All of the folder's tests that run models on a device, in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.kernels.cuda.where import INTERPRETED

FOLDER = Path(__file__).parent


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreting process")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "which",
    ["gpu and not exhaustive", pytest.param("gpu and exhaustive", marks=pytest.mark.exhaustive)],
)
def test_models_and_rounds_pass_interpreted(which: str) -> None:
    """A GPU runs all of them with ``-m gpu``."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--durations=8", "-o", "timeout=900", str(FOLDER)],
        # Tensors are tiny: threads would only wait for one another.
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=FOLDER.parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
