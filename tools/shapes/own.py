"""``python -m tools.shapes.own FILE PAST REPEATS``: load a file in a process of its own and time it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any

import psutil

from engine.bench.verify_cost import step_times
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from engine.models.base import Model

ROWS = (1, 2, 4, 8, 16)
PROMPT = 512
CONTEXT = 2048


def main() -> None:
    file, past, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    engine = LocalEngine()
    engine.load(LoadRequest(target=file, draft="", context=CONTEXT, threads=2))

    def measure(model: Model) -> dict[str, Any]:
        model.forward([1], model.new_state(CONTEXT), last=1)
        ready = time() - psutil.Process().create_time()
        times = step_times(model, ROWS, past=past, repeats=repeats)
        return {"load_s": ready, "prompt": _prompt(model), "rows": times}

    found = engine.measure(measure)
    found["resident"] = psutil.Process().memory_info().rss
    engine.close()
    print(json.dumps(found))


def _prompt(model: Model) -> float:
    """Return the tokens a second of a prompt, of which the last has logits; the median of two."""
    state, tokens, seconds = model.new_state(CONTEXT), [at % 1000 for at in range(PROMPT)], []
    for _ in range(2):
        began = perf_counter()
        model.forward(tokens, state, last=1)
        seconds.append(perf_counter() - began)
        state.rewind(0)
    return PROMPT / median(seconds)


def run(python: str, file: Path, past: int, repeats: int) -> list[str]:
    """Return the command that does this elsewhere."""
    return [python, "-m", "tools.shapes.own", str(file), str(past), str(repeats)]


if __name__ == "__main__":
    main()
