"""The tests' time, as pytest's closing line says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from tools.gate import suite


def test_the_last_closing_line_counts(tmp_path: Path) -> None:
    file = tmp_path / "tests.log"
    file.write_text(
        "5 passed in 2.00s\n...\n"
        "= 2 failed, 5225 passed, 361 skipped, 1 error in 604.12s (0:10:04) =\n"
    )
    assert suite.read(file) == {"tests": 604.12, "tests failed": 3}
    assert suite.parse("5225 passed, 361 skipped in 604.12s (0:10:04)\n", "") == {
        "tests": 604.12,
        "tests failed": 0,
    }


def test_what_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("collected 5 items\n")
    with pytest.raises(InvalidRequest, match="no closing line"):
        suite.read(tmp_path / "log")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        suite.read(tmp_path / "missing")
