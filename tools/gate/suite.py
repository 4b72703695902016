"""The time of the tests: read from pytest's closing line, or of a run of the whole suite."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from engine.errors import InvalidRequest
from tools.gate.figures import FAILED, TESTS
from tools.running import ROOT


def read(file: Path) -> dict[str, float]:
    """Return what the last closing line in a run's output says. Raises InvalidRequest."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidRequest("tests", f"{file} cannot be read: {error}.") from error
    return parse(text, str(file))


def run() -> dict[str, float]:
    """Run the suite as README does, and return its figures."""
    done = subprocess.run(
        [sys.executable, "launcher.py", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return parse(done.stdout, f"The suite (status {done.returncode})")


def parse(text: str, where: str) -> dict[str, float]:
    """Return seconds and failures by the last line such as ``1 failed, 5 passed in 604.12s``."""
    found = re.findall(r"^=*\s*(.*\bpassed\b.*) in ([\d.]+)s\b", text, re.MULTILINE)
    if not found:
        raise InvalidRequest("tests", f"{where} holds no closing line of pytest.")
    counted, seconds = found[-1]
    failed = sum(int(n) for n in re.findall(r"(\d+) (?:failed|errors?)\b", counted))
    return {TESTS: float(seconds), FAILED: failed}
