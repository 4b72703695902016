"""``python -m tools.drafts record FILE --pair PAIR``, or ``replay FILE``.

``replay`` prints speeds relative to plain decoding on a simulated machine, by kind and temperature: of
fixed settings, and of ``auto`` after other replies and as the first one after a load ("cold").
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.bench import prompts
from engine.loading.request import LoadRequest
from engine.request import Control, Speculation
from engine.values import MAX_DEPTH
from tools.drafts.record import read, record, write
from tools.drafts.replay import FIXED, QUIET, Speed, replay


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.drafts", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--pair", default="pip")
    recording.add_argument("--prompts", type=Path, default=prompts.SHIPPED)
    recording.add_argument("--per-kind", type=int, default=0)
    recording.add_argument("--tokens", type=int, default=160)
    recording.add_argument("--threads", type=int, default=2)
    recording.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.8])
    commands.add_parser("replay").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "replay":
        return _replay(given.file)
    asked = prompts.first_of_each(prompts.read(given.prompts), given.per_kind)
    request = LoadRequest.parse(given.pair, threads=given.threads, parallel=1)
    write(record(request, asked, given.temperatures, given.tokens), given.file)


def _replay(file: Path) -> None:
    texts = read(file).texts
    for temperature in sorted({text.temperature for text in texts}):
        some = [text for text in texts if text.temperature == temperature]
        print(f"temperature {temperature}")
        for name, depth in FIXED:
            wanted = Speculation(proposer=name, depth=depth, controller=Control.FIXED)
            _show(f"{name} {depth}", replay(some, wanted, QUIET, seeds=1))
        for name in ("draft", "hybrid", "best"):
            wanted = Speculation(proposer=name, depth=MAX_DEPTH, controller=Control.AUTO)
            _show(f"{name} auto", replay(some, wanted, QUIET))
            _show(f"{name} auto, cold", replay(some, wanted, QUIET, cold=True))


def _show(label: str, found: dict[str, Speed]) -> None:
    figures = "  ".join(f"{kind} {speed.speedup:.2f}" for kind, speed in found.items())
    slowest = min(speed.slowest for speed in found.values())
    print(f"{label:18} {figures}  slowest reply {slowest:.2f}", flush=True)


if __name__ == "__main__":
    main()
