"""Run each part in a process of its own, within a budget of time.

After a device error CUDA refuses every call of the process, and a kernel that never returns cannot be
cancelled from within. On a lent GPU neither may cost more than the part in which it happens.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from tools.gpu_bench.report import Report

MARK = "@bench "
"""Begins the lines of a part's output that are results; libraries print there too."""
SLOWEST, GRACE_S = 3.0, 60.0
"""A part is ended after so many times its estimate and this, for compiling."""
OVERTIME_S = 45.0
"""Time beyond the budget for the current part; then it is ended too."""


def tell(**said: object) -> None:
    """Say ``facts`` or a ``row`` to ``supervise``, from the process of a part."""
    print(MARK + json.dumps(said), flush=True)


def supervise(
    command: Sequence[str], estimates: Mapping[str, float], minutes: float, folder: Path
) -> Report:
    """Run ``command`` with each part as the last argument; write the report into ``folder`` after each.

    ``estimates``: seconds of each part. Parts that no longer fit are left out, and reported.
    """
    report, ends = Report(minutes), monotonic() + 60 * minutes
    for part, expected in estimates.items():
        left = max(ends - monotonic(), 0.0)
        reason = f"it may take {expected:.0f} s, and {left:.0f} s are left (--minutes)"
        if expected <= left:
            print(part, file=sys.stderr, flush=True)
            limit = min(SLOWEST * expected + GRACE_S, left + OVERTIME_S)
            reason = _run([*command, part], limit, report)
        if reason:
            report.left_out[part] = reason
        report.write(folder)
    report.finished = True
    report.write(folder)
    return report


def _run(command: Sequence[str], limit: float, report: Report) -> str:
    """Add what a part tells to the report, however it ends; return why it is not whole, or ""."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit, check=False)
        output, status = done.stdout, done.returncode
        reason = f"its process ended with status {status}" if status else ""
    except subprocess.TimeoutExpired as error:
        output, reason = error.stdout or b"", f"it did not end within {limit:.0f} s, and was ended"
    for line in output.decode(errors="replace").splitlines():
        if line.startswith(MARK) and line.endswith("}"):
            said = json.loads(line.removeprefix(MARK))
            report.facts = said.get("facts", report.facts)
            report.rows += [said["row"]] if "row" in said else []
    return reason
