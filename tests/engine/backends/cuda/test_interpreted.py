"""All of the folder's tests that run models on a device, in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.kernels.cuda.where import INTERPRETED
from tests.support import interpreter


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreting process")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "marks",
    ["gpu and not exhaustive", pytest.param("gpu and exhaustive", marks=pytest.mark.exhaustive)],
)
def test_models_and_rounds_pass_interpreted(marks: str) -> None:
    """A GPU runs all of them with ``-m gpu``."""
    pytest.importorskip("triton")
    interpreter.run_tests(Path(__file__).parent, marks)
