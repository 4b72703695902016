"""The interpreter that the folder's tests share: starting it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.kernels.cuda.interpreted import Interpreter


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Interpreter]:
    pytest.importorskip("triton")
    started = Interpreter()
    yield started
    started.close()
