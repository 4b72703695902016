"""Other engines' own parsers, in the environments that hold them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest


def parsed_there(variable: str, code: str, given: Any, **environment: str) -> Mapping[str, Any]:
    """What ``code`` prints last, as JSON, of ``given`` on its standard input; run by the Python of the
    virtual environment that ``variable`` names. Skips where it names none."""
    place = os.environ.get(variable)
    if not place:
        pytest.skip(f"{variable} names no virtual environment with that engine")
    done = subprocess.run(
        [str(Path(place) / "bin" / "python"), "-c", code],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Mapping[str, Any] = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    return found
