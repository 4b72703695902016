"""``foretoken bench load``: many clients at once, beside llama.cpp's server where it is at hand."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from app import main, paths
from app.cli import options
from app.cli.loading import open_here
from app.cli.text.output import table
from engine.api import LoadRequest
from engine.request import Request, Speculation
from engine.values import MAX_ROWS
from engine.values.messages import Message

if TYPE_CHECKING:
    from engine.bench.load import Row

CLIENTS = (1, 2, 4, 8, 16)
CONTEXT = 2048
"""Tokens for one prompt and its reply: caches are reckoned whole, and there are as many as clients."""


@options.with_load
def load(
    load: LoadRequest = main.DEFAULT_LOAD,
    clients: list[int] | None = Option(
        None, min=1, help="Concurrent clients. Repeatable. Default: 1, 2, 4, 8 and 16."
    ),
    rounds: int = Option(2, min=1, help="Requests per client."),
    max_tokens: int = Option(48, min=2, help="Tokens per reply."),
    proposer: str | None = Option(None, help="Drafting method. Default: the pair's default."),
    llama_cpp: options.LlamaCppOption = None,
    prompts_file: Path | None = Option(
        None,
        "--prompts",
        help="File with one JSON object per line: prompt or turns (the first counts).",
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Measure the tokens/s of concurrent clients, and their time to the first token."""
    from engine.bench import load as bench
    from engine.bench import prompts

    plan = bench.Plan(tuple(clients or CLIENTS), rounds, max_tokens)
    questions = bench.numbered(prompts.read(prompts_file or prompts.SHIPPED), bench.needed(plan))
    if load.parallel is None:
        load = replace(load, parallel=min(max(plan.clients), MAX_ROWS))
    load = replace(load, context=load.context or CONTEXT)
    with open_here(load, paths.data_folder(data_dir), proposer) as (engine, loaded):
        at_once = loaded.capabilities.parallel
        print(f"{loaded.name} in {loaded.quantization}, {at_once} concurrent requests.")
        speculation = Speculation(proposer=proposer or loaded.capabilities.preferred)
        token_prompts = [
            engine.tokens(Request(messages=(Message("user", question),), speculation=speculation))
            for question in questions
        ]
        with contextlib.ExitStack() as stack:
            contenders: list[bench.Contender] = [bench.ours(engine, speculation)]
            if llama_cpp is not None:
                slots = max(plan.clients)
                peer = bench.llama_server(loaded, llama_cpp, load.context or CONTEXT, slots)
                contenders.append(stack.enter_context(peer))
            rows = bench.run(contenders, token_prompts, plan, _print_row)
    print(f"\n{table(*bench.table(rows), frozenset(range(1, 6)))}")
    if as_json:
        results = [{**asdict(row), "tokens_per_s": row.tokens_per_s} for row in rows]
        print(json.dumps({"results": results}))


def _print_row(row: Row) -> None:
    print(f"{row.engine}, {row.clients}: {row.tokens_per_s:.1f} tok/s", flush=True)
