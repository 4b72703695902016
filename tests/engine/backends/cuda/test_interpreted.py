"""All tests that launch kernels or run models on a device, in Triton's interpreter.

The interpreter checks masks, offsets and orders; only a device can check tensor cores.
"""

from __future__ import annotations

import pytest

from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import interpreter


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreting process")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "marks",
    ["gpu and not exhaustive", pytest.param("gpu and exhaustive", marks=pytest.mark.exhaustive)],
)
def test_kernels_models_and_rounds_pass_interpreted(marks: str) -> None:
    """A GPU runs all of them with ``-m gpu``."""
    pytest.importorskip("triton")
    folders = ("tests/engine/kernels/cuda", "tests/engine/backends/cuda")
    interpreter.run_tests(folders, marks)
