"""``python -m tools.load TARGET[::DRAFT]``: sixty-four clients for ten minutes, of whom some leave.

Before ``foretoken serve``, where each request drafts by another proposer, and then, with ``--llama-cpp``,
before llama.cpp's server on the same target and as many threads. Each question was answered alone
before: what came in the crowd is compared with that. Prints what became of the requests, what the
server's process held of memory, and how long a first token took; the last line is JSON. Status 1 where
Foretoken lost a reply, gave another one, or holds a tenth more in the end than when it had settled.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import httpx2

from engine.bench.real.peers import llama_cpp
from engine.bench.real.process import Server
from engine.errors import ForetokenError
from engine.files import expanded
from engine.loading.request import LoadRequest
from engine.machine import threads
from tools.load.crowd import Crowd, Tally, Trouble, asks
from tools.running import app

OURS, THEIRS = "Foretoken", "llama.cpp"
SETTLED_S = 60.0
GROWTH = 1.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.load", description=__doc__)
    parser.add_argument("pair", help="a pair of the catalog, or TARGET[::DRAFT]")
    parser.add_argument("--minutes", type=float, default=10.0, help="with each server")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument(
        "--parallel", type=int, default=16, help="requests at once, of each server, if they fit"
    )
    parser.add_argument("--threads", type=int, default=threads.default(), help="of each server")
    parser.add_argument("--questions", type=int, default=18, help="different ones")
    parser.add_argument("--max-tokens", type=int, default=64, help="of the longest reply")
    parser.add_argument(
        "--preface", type=int, default=300, help="words before every third question"
    )
    parser.add_argument(
        "--context", type=int, default=2048, help="tokens of each of llama.cpp's slots"
    )
    parser.add_argument("--leave-within", type=float, default=20.0, help="seconds; three of ten do")
    parser.add_argument("--llama-cpp", type=Path, help="the folder where it was built")
    given = parser.parse_args()
    try:
        program = None if given.llama_cpp is None else server_in(given.llama_cpp)
        with ours(given) as (url, process):
            proposers, given.parallel = loaded_at(url)
            print(
                f"{OURS} answers {given.parallel} at once, drafts by {', '.join(proposers)}.",
                flush=True,
            )
            told = {OURS: measure(given, url, process, proposers)}
        if program is not None:
            with theirs(program, given) as server:
                told[THEIRS] = measure(given, server.address, server.process.pid, ())
    except (ForetokenError, Trouble) as error:
        print(f"foretoken: {error}", file=sys.stderr)
        return 2
    print(json.dumps(told))
    own = told[OURS]
    return int(bool(own["wrong"]) or own["memory_most"] > GROWTH * own["memory_settled"])


def server_in(folder: Path) -> Path:
    """llama.cpp's server. Raises Trouble."""
    program = llama_cpp.find(folder, llama_cpp.SERVER)
    if program is None:
        raise Trouble(f"{folder} holds no {llama_cpp.SERVER}: build it there.")
    return program


@contextmanager
def ours(given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """``foretoken serve``: its address and its process."""
    words = ["serve", "--no-load-on-demand"]
    words += ["--parallel", str(given.parallel), "--threads", str(given.threads)]
    with (
        tempfile.TemporaryDirectory() as folder,
        app(*words, pair=given.pair, folder=folder, ready="health") as running,
    ):
        yield running.url.rstrip("/"), running.pid


@contextmanager
def theirs(program: Path, given: argparse.Namespace) -> Iterator[Server]:
    """llama.cpp's server on the target. Raises PeerFailed."""
    target = expanded(LoadRequest.parse(given.pair).target)
    slots = given.parallel
    room = given.context * slots
    command = llama_cpp.command(program, target, room, given.threads, (), parallel=slots)
    with (
        tempfile.TemporaryDirectory() as logs,
        closing(Server(llama_cpp.SERVER, command, Path(logs) / "server.log")) as server,
    ):
        yield server


def loaded_at(url: str) -> tuple[tuple[str, ...], int]:
    """All that draft for the loaded pair, and how many requests it answers at once."""
    (loaded,) = httpx2.get(f"{url}/v1/models", trust_env=False).json()["data"]
    return tuple(loaded["proposers"]), loaded["capabilities"]["parallel"]


def measure(
    given: argparse.Namespace, url: str, process: int, proposers: tuple[str, ...]
) -> dict[str, Any]:
    """A crowd before one server; prints and returns what came of it. Raises Trouble."""
    name = OURS if proposers else THEIRS
    crowd = Crowd(url, proposers, given.clients, given.leave_within, seconds=60 * given.minutes)
    known = crowd.learn(asks(given.questions, given.max_tokens, given.preface))
    print(f"{name} has answered {len(known)} questions alone.", flush=True)
    tally = crowd.run(known, process)
    told = figures(tally)
    width = max(map(len, told))
    print(f"\n{name}, {given.clients} clients, {given.parallel} at once")
    for key, value in told.items():
        print(f"  {key:<{width}}  {value}")
    for line in tally.wrong[:5]:
        print(f"  {line[:1000]}")
    return told


def figures(tally: Tally) -> dict[str, Any]:
    """By name; memory in MiB, and times in seconds."""
    settled = tally.settled(SETTLED_S)
    return {
        "seconds": round(tally.seconds, 1),
        "answered": tally.answered,
        "left": tally.left,
        "refused": tally.refused,
        "lost": len(tally.lost),
        "crossed": len(tally.crossed),
        "changed": len(tally.changed),
        "wrong": len(tally.wrong),
        "tokens_per_s": round(tally.tokens / tally.seconds, 1),
        "first_p50_s": share(tally.first_s, 0.5),
        "first_p95_s": share(tally.first_s, 0.95),
        "first_p50_from_first_try_s": share(tally.tried_s, 0.5),
        "first_p95_from_first_try_s": share(tally.tried_s, 0.95),
        "memory_settled": settled[0] >> 20,
        "memory_end": settled[-1] >> 20,
        "memory_most": max(settled) >> 20,
    }


def share(values: list[float], part: float) -> float | None:
    """The value that so many are not above."""
    return round(sorted(values)[ceil(part * len(values)) - 1], 2) if values else None


if __name__ == "__main__":
    sys.exit(main())
