"""Modules that must import without Triton and a CUDA device."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

PLAIN = """
    attention kv_cache linear.bulk linear.dispatch linear.fusion
    linear.tiles references rotary sampling.distribution sampling.state
""".split()


@pytest.mark.timeout(900)
def test_without_triton_and_cuda_everything_but_the_kernels_imports_and_multiplies() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import engine, engine.kernels.cuda, engine.local.session\n"
        + "".join(f"import engine.kernels.cuda.{name}\n" for name in PLAIN)
        + "from tests.support import interpreter, ptx\n"
        "import torch; assert not torch.cuda.is_available()\n"
        "weight = torch.ones(2, 3).bfloat16()\n"
        "reference = engine.kernels.cuda.references.linear_reference\n"
        "plain = engine.kernels.cuda.linear.fusion.PLAIN\n"
        "print(reference(weight, plain)(torch.ones(1, 3)).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[3.0, 3.0]]"
