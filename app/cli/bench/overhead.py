"""``foretoken bench overhead``: what a round takes in Python, whatever the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from app import paths
from app.cli import options
from app.cli.text.output import progress, table
from engine.request import PLAIN
from engine.values.sampling import Sampling

if TYPE_CHECKING:
    from engine.bench.overhead import Reader, Row


def overhead(
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token.")] = 0.0,
    vocabulary: Annotated[int, typer.Option(min=1024, help="Tokens that are judged among.")] = 4096,
    max_tokens: Annotated[int, typer.Option(min=16, help="Of each reply.")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Of each the middle one counts.")] = 9,
    as_json: options.JsonOption = False,
) -> None:
    """Microseconds a round besides the models' own steps, with models that take none."""
    from engine.bench import overhead as bench

    Sampling(temperature=temperature)  # told before anything is measured
    with progress("Timing") as on_progress:
        rows = bench.run(
            paths.assets() / "pip" / "target",
            reader,
            vocabulary=vocabulary,
            tokens=max_tokens,
            temperature=temperature,
            repeats=repeats,
            on_progress=on_progress,
        )
    _print(rows)
    if as_json:
        print(json.dumps(bench.as_json(rows)))


def reader() -> Reader:
    """Who follows a reply as the chat page does: its view, its totals, its line in the trace."""
    from app.ui.rounds import view
    from engine import trace
    from engine.events import Event
    from engine.reply import ReplyState

    reply = ReplyState()

    def read(event: Event) -> None:
        reply.add(event)
        view.show(event)
        view.totals(reply.statistics)
        json.dumps(trace.to_json(event), separators=(",", ":"))

    return read


def _print(rows: Sequence[Row]) -> None:
    head = ("proposer", "depth", "tokens", "propose", "judge", "events", "door", "read", "total")
    lines = [
        (
            row.proposer,
            "-" if row.proposer == PLAIN else str(row.depth or "auto"),
            f"{row.tokens_per_round:.1f}",
            *(
                f"{part:.0f}"
                for part in (row.propose, row.judge, row.events, row.door, row.read, row.total)
            ),
        )
        for row in rows
    ]
    print("Microseconds a round, the models' own steps left out:\n")
    print(table(head, lines, frozenset(range(1, len(head)))))
