"""``python -m tools.memory PAIR``: what a pair takes of memory, against what was predicted.

The process's resident memory once everything is imported, once the pair is loaded, and once a reply has
filled the context; beside it the arithmetic of engine/loading/planning/fit.py for that context.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import sys
from functools import partial

import psutil

from app import paths
from app.inventory import open_inventory
from engine.errors import ForetokenError
from engine.events import Failed
from engine.loading.hub import disk
from engine.loading.planning.forecast import forecast
from engine.loading.request import LoadRequest
from engine.local.engine import LocalEngine
from engine.request import Request, Speculation
from engine.values.messages import Message
from engine.values.sampling import Sampling
from engine.values.units import format_bytes

_WORDS = "The harbour was quiet, and the lamp on the quay burned until the morning came. "
_ROOM = 64
"""Tokens that are left for a reply behind the prompt that fills the context."""


def main(arguments: list[str] | None = None) -> int:
    """Status 0 done, 2 a mistake that the message explains."""
    parser = argparse.ArgumentParser(prog="python -m tools.memory", description=__doc__)
    parser.add_argument("pair", help="a pair of the catalog, or TARGET[::DRAFT]")
    parser.add_argument("--context", type=int, default=4096, help="tokens, all of which are filled")
    parser.add_argument("--proposer", default="draft", help="what drafts while it fills")
    parser.add_argument("--quantization", default="auto")
    given = parser.parse_args(arguments)
    try:
        measured = measure(given.pair, given.context, given.proposer, given.quantization)
    except ForetokenError as error:
        print(f"foretoken: {error}", file=sys.stderr)
        return 2
    for name, value in measured.items():
        print(f"{name:>28}  {format_bytes(value) if isinstance(value, int) else value}")
    print(json.dumps(measured))
    return 0


def measure(pair: str, context: int, proposer: str, quantization: str) -> dict[str, object]:
    """Bytes by name, and the error of the prediction."""
    data_dir = paths.data_folder(None)
    catalog, models = open_inventory(data_dir).catalog, disk.models_folder(data_dir)
    locate = partial(disk.locate, models=models)
    request = LoadRequest.parse(pair, context=context, quantization=quantization)
    predicted = forecast(catalog.resolve(request, locate), request, locate, context)
    from engine.local import pair as _  # noqa: F401  # what a load imports is no part of the pair

    before = _resident()
    with contextlib.closing(LocalEngine(lambda: catalog, models=models)) as engine:
        loaded = engine.load(request)
        after = _resident()
        _fill(engine, loaded.context, proposer)
        full = _resident()
    room = predicted.memory_fit
    taken = full - before
    expected = room.weights + room.kv
    return {
        "context": f"{loaded.context:,}",
        "held": predicted.quantization,
        "before": before,
        "loaded": after,
        "filled": full,
        "predicted weights": room.weights,
        "predicted KV": room.kv,
        "predicted work": room.work,
        "predicted in all": room.needed,
        "all against measured": f"{room.needed / full:.3f}",
        "the pair alone": taken,
        "pair against measured": f"{expected / taken:.3f}" if taken > 0 else "-",
    }


def _fill(engine: LocalEngine, context: int, proposer: str) -> None:
    """One reply to a prompt that leaves just room for it."""
    words = _WORDS * (context // 8)
    while True:
        request = Request(
            messages=(Message("user", words),),
            sampling=Sampling(temperature=0.0),
            speculation=Speculation(proposer=proposer),
            max_tokens=_ROOM // 2,
            ignore_eos=True,
        )
        try:
            generation = engine.generate(request)
        except ForetokenError as error:
            over = getattr(error, "over", None)
            if over is None:
                raise
            words = words[: -(over + _ROOM) * 4]  # a token is hardly shorter
            continue
        for event in generation:
            if isinstance(event, Failed):
                raise SystemExit(event.message)
        return


def _resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    sys.exit(main())
