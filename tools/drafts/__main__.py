"""``python -m tools.drafts record FILE --pair PAIR``, or ``replay FILE``."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.bench import prompts
from engine.loading.request import LoadRequest
from tools.drafts.record import record, write


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
    given = parser.parse_args()
    asked = prompts.first_of_each(prompts.read(given.prompts), given.per_kind)
    request = LoadRequest.parse(given.pair, threads=given.threads, parallel=1)
    write(record(request, asked, given.temperatures, given.tokens), given.file)


if __name__ == "__main__":
    main()
