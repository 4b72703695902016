"""Time files with this engine, llama.cpp and ik_llama.cpp, in turns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from engine.bench.real.peers.llama_cpp import find
from tools.shapes import own

OURS = "Foretoken"
THREADS = "2"
ROWS = (4, 8)
"""Of the steps that peers are timed for, beside one."""
PAST = 32
"""Tokens before our timed steps. Peers begin empty."""
Found = dict[str, Any]


def measure(
    file: Path, peers: dict[str, Path], repeats: int, *, quick: int
) -> dict[str, list[Found]]:
    """Return what each engine took in each turn. ``quick``: how often each step of ours is timed."""
    found: dict[str, list[Found]] = {name: [] for name in (OURS, *peers)}
    for turn in range(repeats):
        names = list(found) if turn % 2 == 0 else list(found)[::-1]
        for name in names:
            one = _ours(file, quick) if name == OURS else _peer(peers[name], file)
            found[name].append(one)
            print(file.name, name, json.dumps(one), flush=True)
    return found


def summary(found: dict[str, list[Found]]) -> dict[str, Found]:
    """Return medians, and the least and the most, of each figure of each engine."""
    return {name: _medians(turns) for name, turns in found.items()}


def _medians(turns: Sequence[Found]) -> Found:
    flat = [
        {
            "load_s": turn.get("load_s"),
            "prompt": turn.get("prompt"),
            "plain": 1 / rows["1"] if (rows := turn.get("rows", {})).get("1") else None,
            **{f"t{count}": rows[count] / rows["1"] for count in rows if count != "1"},
        }
        for turn in turns
    ]
    result: Found = {}
    for key in flat[0]:
        values = [each[key] for each in flat if each.get(key)]
        if values:
            result[key] = [
                round(number, 3) for number in (median(values), min(values), max(values))
            ]
    return result


def _ours(file: Path, repeats: int) -> Found:
    done = _run(own.run(sys.executable, file, PAST, repeats))
    found: Found = json.loads(done.splitlines()[-1])
    return found


def _peer(folder: Path, file: Path) -> Found:
    """Time ``llama-bench``. Of several rows only the last has logits there, of ours all."""
    bench = [str(find(folder, "llama-bench")), "-m", str(file), "-t", THREADS, "-o", "json"]
    began = perf_counter()
    _tests([*bench, "-p", "1", "-n", "0", "-r", "1", *_no_warm_up(folder)])
    found: Found = {"load_s": perf_counter() - began, "rows": {}}
    few = _tests([*bench, "-p", ",".join(map(str, ROWS)), "-n", "0", "-r", "9"])
    for test in few + _tests([*bench, "-p", "512", "-n", "32", "-r", "1"]):
        count = test["n_prompt"]
        if test["n_gen"]:
            found["plain"] = test["avg_ts"]
            found["rows"]["1"] = 1 / test["avg_ts"]
        elif count in ROWS:
            found["rows"][str(count)] = median(test["samples_ns"]) / 1e9
        else:
            found["prompt"] = test["avg_ts"]
    return found


def _tests(command: Sequence[str]) -> list[Found]:
    said = _run(command)
    tests: list[Found] = json.loads(said[said.index("[") :])
    return tests


def _no_warm_up(folder: Path) -> tuple[str, ...]:
    help_ = _run([str(find(folder, "llama-bench")), "--help"])
    return ("--no-warmup",) if "--no-warmup" in help_ else ("-w", "0")


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(" ".join(command), done.stdout[-1000:], done.stderr[-2000:], file=sys.stderr)
        return "[]"
    return done.stdout
