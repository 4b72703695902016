"""Tokens a second with MTP under an imposed acceptance, here and in llama.cpp.

Random weights accept nothing. So each drafted token is accepted with a given probability if those before
it were, by a coin instead of the target's choice; all the work of a round stays. llama.cpp has
``--spec-synth-rates`` for the same. The target's choices become frequent tokens, as most of a text are:
what drafts here computes the logits of few others, while llama.cpp computes all.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from engine.bench.real.peers.llama_cpp import command, complete, find
from engine.bench.real.process import Server
from engine.decoding import verifier
from engine.decoding.acceptance import Acceptance, accept_matching
from engine.drafting.vocabulary_trimmer import FREQUENT
from engine.events import Emitted, Failed, Tree
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from engine.values.sampling import Sampling

PROMPT = tuple(range(1000, 1032))
CONTEXT, TOKENS, THREADS = 1024, 96, 2
DEPTHS = (0, 1, 2, 3, 4, 6)
PEER_DEPTHS = (0, 1, 2, 3)
Speeds = dict[str, float]


def measure(file: Path, peer: Path | None, rates: Sequence[float], repeats: int) -> dict[str, Any]:
    """Return tokens a second by engine, acceptance and depth."""
    found: dict[str, Any] = {"Foretoken": _ours(file, rates, repeats)}
    if peer is not None:
        found["llama.cpp"] = {str(rate): _theirs(file, peer, rate, repeats) for rate in rates}
    return found


def _ours(file: Path, rates: Sequence[float], repeats: int) -> dict[str, Any]:
    engine = LocalEngine()
    with closing(engine):
        engine.load(LoadRequest(target=str(file), context=CONTEXT, threads=THREADS))
        return {str(rate): _at(engine, rate, repeats) for rate in rates}


def _at(engine: LocalEngine, rate: float, repeats: int) -> dict[str, Any]:
    with _imposed(rate):
        turns = [{depth: _reply(engine, depth) for depth in DEPTHS} for _ in range(repeats)]
    return {
        str(depth): {
            key: round(median(turn[depth][key] for turn in turns), 3) for key in turns[0][depth]
        }
        for depth in DEPTHS
    }


def _reply(engine: LocalEngine, depth: int) -> Speeds:
    """Return the speed of a reply, and the milliseconds of a round and of its draft and verification."""
    speculation = (
        Speculation(proposer="mtp", depth=depth) if depth else Speculation(proposer="none")
    )
    request = Request(
        token_ids=PROMPT,
        sampling=Sampling(temperature=0.0),
        speculation=speculation,
        max_tokens=TOKENS,
        reuse_cache=False,
        ignore_eos=True,
    )
    rounds = []
    for event in engine.generate(request):
        if isinstance(event, Failed):
            raise SystemExit(event.message)
        if isinstance(event, Emitted) and event.round is not None:
            rounds.append(event.round)
    rounds = rounds[1:]  # the first one makes what the others reuse
    total = sum(each.timing.total_s for each in rounds)
    return {
        "tokens_s": sum(each.emitted for each in rounds) / total,
        "tokens_round": sum(each.emitted for each in rounds) / len(rounds),
        "draft_ms": 1e3 * median(each.timing.draft_s for each in rounds),
        "verify_ms": 1e3 * median(each.timing.verify_s for each in rounds),
    }


@contextmanager
def _imposed(rate: float) -> Iterator[None]:
    """Let the verifier accept by a coin."""
    coin = random.Random(1)

    def accept(choices: Sequence[int], tree: Tree) -> Acceptance:
        told, last = [choice % FREQUENT for choice in choices], -1
        while last + 1 < len(tree.tokens) and coin.random() < rate:
            told[last + 1] = tree.tokens[last + 1]
            last += 1
        if last + 1 < len(tree.tokens) and told[last + 1] == tree.tokens[last + 1]:
            told[last + 1] = (told[last + 1] + 1) % FREQUENT
        return accept_matching(told, tree)

    with patch.object(verifier, "accept_matching", accept):
        yield


def _theirs(file: Path, folder: Path, rate: float, repeats: int) -> Speeds:
    program = find(folder, "llama-server")
    assert program is not None
    speeds: Speeds = {}
    for depth in PEER_DEPTHS:
        accepted = ",".join(str(rate**place) for place in range(1, depth + 1))
        words = ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(depth)]
        words += ["--spec-synth-rates", accepted]
        started = command(program, file, CONTEXT, THREADS, words if depth else [])
        with (
            tempfile.TemporaryDirectory() as logs,
            closing(Server("llama-server", started, Path(logs) / "log")) as server,
        ):
            replies = [
                complete(server, PROMPT, TOKENS, ignore_eos=True) for _ in range(repeats + 1)
            ]
        speeds[str(depth)] = round(median(each.decoded / each.decode_s for each in replies[1:]), 3)
    return speeds
