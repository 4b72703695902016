"""``python -m tools.gpu_bench``: measure one GPU, and how near decoding comes to its bandwidth."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.gpu_bench.supervise import supervise


def main(arguments: list[str] | None = None) -> int:
    """Run the bench; return 0, or 2 where there is no GPU, with the reason."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_bench", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="the budget of time")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="a folder")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"),
                        help="cpu tries the whole run, interpreted, at tiny shapes")  # fmt: skip
    parser.add_argument("--part", help=argparse.SUPPRESS)  # by ``supervise``
    args = parser.parse_args(arguments)
    if args.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    import torch

    from engine.machine import devices
    from tools.gpu_bench import parts

    reason = devices.why_no_gpu() if args.device == "cuda" else None
    if reason is not None:
        print(f"There is no GPU to measure. {reason} --device cpu tries the run.", file=sys.stderr)
        return 2
    if args.part is not None:
        parts.Bench(torch.device(args.device)).do(args.part)
        return 0
    command = [sys.executable, "-m", "tools.gpu_bench", "--device", args.device, "--part"]
    report = supervise(command, parts.estimates(args.device), args.minutes, args.out)
    print(report.page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
