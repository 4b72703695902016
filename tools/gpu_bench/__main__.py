"""``python -m tools.gpu_bench``: one GPU, and how near decoding comes to its memory's bandwidth."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from engine.errors import ForetokenError
from tools.gpu_bench import device
from tools.gpu_bench.engines import KINDS
from tools.gpu_bench.run import Options, Run
from tools.gpu_bench.state import State
from tools.gpu_bench.supervise import FINISHED, LOST, supervise

RESULTS = Path("docs/results")


def main(arguments: list[str] | None = None) -> int:
    """Status 0 done, 2 a mistake that the message explains."""
    about = "Measure one GPU: a page and JSON in --out, a summary in JSON as the last line."
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_bench", description=about)
    parser.add_argument("--minutes", type=float, default=5.0, help="the budget of time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of both files")
    parser.add_argument("--device", default=device.CUDA, help="cuda; cpu is a rehearsal")
    parser.add_argument("--model", action="append", default=[], help="repeatable; all of them")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="repeatable")
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)  # by ``supervise``
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    options = Options(given.minutes, given.out, given.device, tuple(given.model), tuple(given.kind))
    if given.state is not None:
        return _part_of(options, State(given.state))
    try:
        report = supervise(options, lambda text: print(text, file=sys.stderr, flush=True))
    except ForetokenError as error:
        print(f"foretoken: {error}", file=sys.stderr)
        return 2
    print(report.page(kernels=False))
    print(json.dumps(report.summary()))
    return 0


def _part_of(options: Options, state: State) -> int:
    """The run, in the process that ``supervise`` has started for it."""
    try:
        return FINISHED if Run(options, state=state)().finished else LOST
    except ForetokenError as error:
        state.refuse(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
