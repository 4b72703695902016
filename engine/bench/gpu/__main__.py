"""``python -m engine.bench.gpu``: the same as ``foretoken bench gpu``, without the app."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path

from engine.bench.gpu import device
from engine.bench.gpu.engines import KINDS
from engine.bench.gpu.run import Options, Run
from engine.bench.gpu.state import State
from engine.bench.gpu.supervise import FINISHED, LOST, supervise
from engine.errors import ForetokenError

RESULTS = Path("docs/results")


def main(arguments: list[str] | None = None) -> int:
    """Status 0 done, 2 a mistake that the message explains."""
    told = "Measure one GPU: a page and JSON in --out, a summary in JSON as the last line."
    parser = argparse.ArgumentParser(prog="python -m engine.bench.gpu", description=told)
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
