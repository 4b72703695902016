"""``python -m tools.gpu_bench``: measure one GPU, and how near decoding comes to its bandwidth."""

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
    """Run the bench; return 0, or 2 after an error that the message explains."""
    about = "Measure one GPU: a page and JSON in --out, a summary in JSON as the last line."
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_bench", description=about)
    parser.add_argument("--minutes", type=float, default=5.0, help="the budget of time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of both files")
    parser.add_argument("--device", default=device.CUDA, help="cuda; cpu is a rehearsal")
    parser.add_argument("--model", action="append", default=[], help="repeatable; all of them")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="repeatable")
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)  # by ``supervise``
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    options = Options(args.minutes, args.out, args.device, tuple(args.model), tuple(args.kind))
    if args.state is not None:
        return _part_of(options, State(args.state))
    try:
        report = supervise(options, lambda text: print(text, file=sys.stderr, flush=True))
    except ForetokenError as error:
        print(f"foretoken: {error}", file=sys.stderr)
        return 2
    print(report.page(kernels=False))
    print(json.dumps(report.summary()))
    return 0


def _part_of(options: Options, state: State) -> int:
    """Run in the process that ``supervise`` started; return its exit status."""
    try:
        return FINISHED if Run(options, state=state)().finished else LOST
    except ForetokenError as error:
        state.refuse(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
