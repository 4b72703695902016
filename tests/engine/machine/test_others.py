"""What other programs take of the processor is seen, and what nobody misses is not counted."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from engine.machine import processor
from engine.machine.processor import taken_by_others

SPIN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


class Own:
    def cpu_percent(self) -> float:
        return 100.0


def test_only_what_others_take_from_a_busy_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([100.0, 50.0, 95.0])
    monkeypatch.setattr(psutil, "cpu_percent", lambda: next(busy))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(processor, "_own", Own())
    assert taken_by_others() == 0.75
    assert taken_by_others() == 0, "there was room for everybody"
    monkeypatch.setattr(psutil, "cpu_count", lambda: 1)
    assert taken_by_others() == 0, "it was this process"


def test_other_programs_are_seen() -> None:
    running = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        taken_by_others()
        for _ in range(20):  # starts take their time
            time.sleep(0.25)
            if (taken := taken_by_others()) > 0.3:
                break
        else:
            if psutil.cpu_percent() < 90:
                pytest.skip("this container has fewer processors than it sees")
        assert taken > 0.3
    finally:
        for each in running:
            each.kill()
            each.wait()
