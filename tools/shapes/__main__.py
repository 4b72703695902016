"""``python -m tools.shapes write NAME FILE``, or ``measure FILE... --llama-cpp DIR --ik DIR``.

``measure`` prints each turn, then the median, least and most of each figure: seconds from the start of
the process to the first token, tokens a second of a prompt of 512 and of plain decoding, and the time of
a step of M rows over that of one. ``mtp FILE --llama-cpp DIR`` does as imposed.py says.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools.shapes import imposed
from tools.shapes.measure import measure, summary
from tools.shapes.shapes import SHAPES
from tools.shapes.write import write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.shapes", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    writing = commands.add_parser("write")
    writing.add_argument("name", choices=SHAPES)
    writing.add_argument("file", type=Path)
    writing.add_argument("--layers", type=int, help="fewer than it has")
    timing = commands.add_parser("measure")
    timing.add_argument("files", type=Path, nargs="+")
    timing.add_argument("--llama-cpp", type=Path)
    timing.add_argument("--ik", type=Path)
    timing.add_argument("--repeats", type=int, default=3)
    timing.add_argument("--steps", type=int, default=9, help="of each number of rows in a turn")
    timing.add_argument("--json", type=Path)
    drafting = commands.add_parser("mtp")
    drafting.add_argument("file", type=Path)
    drafting.add_argument("--llama-cpp", type=Path)
    drafting.add_argument("--rates", type=float, nargs="+", default=[0.7, 0.8])
    drafting.add_argument("--repeats", type=int, default=3)
    drafting.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.command == "write":
        write(SHAPES[given.name], given.file, given.layers)
        return
    results: dict[str, Any]
    if given.command == "mtp":
        results = imposed.measure(given.file, given.llama_cpp, given.rates, given.repeats)
        print(json.dumps(results, indent=1))
        _keep(given.json, results)
        return
    peers = {"llama.cpp": given.llama_cpp, "ik_llama.cpp": given.ik}
    there = {name: folder for name, folder in peers.items() if folder is not None}
    results = {}
    for file in given.files:
        results[file.stem] = summary(measure(file, there, given.repeats, quick=given.steps))
        print(json.dumps({file.stem: results[file.stem]}, indent=1), flush=True)
    _keep(given.json, results)


def _keep(file: Path | None, results: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
