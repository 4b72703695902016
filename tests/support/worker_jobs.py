"""Jobs that a worker process is given in tests."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

prepared: list[str] = []


def run(message: dict[str, Any]) -> Any:
    """Do what ``message["job"]`` says."""
    match message["job"]:
        case "echo":
            return message["value"]
        case "pid":
            return os.getpid()
        case "prepare":
            time.sleep(1)
            prepared.append("prepared")
        case "prepared":
            return "".join(prepared)
        case "environment":
            return dict(os.environ)
        case "raise":
            raise LookupError(message["message"])
        case "loop":
            while True:
                pass
        case "sleep":
            time.sleep(300)
        case "allocate at once":
            return len("A" * 10**10)
        case "allocate piece by piece":
            held = []
            while True:
                held.append(bytearray(1 << 20))
        case "answer at length":
            return "A" * 10**7
        case "crash":
            ctypes.string_at(0)  # as an overflow in native code: the system ends the process
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does where memory runs out
        case "processor time":
            os.kill(os.getpid(), signal.SIGXCPU)  # as the kernel does at its own limit
        case "recurse":
            return run(message)
    return None
