"""``foretoken chat`` and ``foretoken replay``: replies in the terminal, their traces, traces as pages."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import main, paths
from app.cli import options
from app.cli.drafting import Drafting
from app.cli.loading import open_for_command
from app.cli.text import interactive, replies, terminal
from app.settings.defaults import Defaults
from engine.api import LoadRequest
from engine.drafting import proposers
from engine.errors import InvalidRequest
from engine.events import Event
from engine.reply import ReplyState
from engine.request import THINKING
from engine.values.sampling import AcceptanceRule, Sampling, rule_named

if TYPE_CHECKING:
    from engine.api import Engine

GREEDY = Sampling()


@options.with_load
@options.with_sampling
def chat(
    prompt: Annotated[
        str | None,
        typer.Argument(help="What to say; - reads standard input. Without one, a chat begins."),
    ] = None,
    prompts_file: Annotated[
        Path | None,
        typer.Option("--prompts", help="A file with one JSON object a line: prompt or turns."),
    ] = None,
    load: LoadRequest = main.DEFAULT_LOAD,
    proposer: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(proposers.names())}. Default: what `bench sweep --apply` kept for the "
            "pair, else what suits what is loaded."
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            help="Tokens drafted a round, 1 to 15; with --controller auto, at most. "
            "Given alone, it is kept to."
        ),
    ] = None,
    controller: options.ControllerOption = None,
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the proposer. Repeatable."),
    ] = None,
    sampling: Sampling = GREEDY,
    max_tokens: Annotated[int | None, typer.Option(help="The longest reply.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text that ends the reply. Repeatable.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    thinking: Annotated[
        str,
        typer.Option(
            help=f"How much the model thinks, where its chat template has the choice: "
            f"{', '.join(THINKING[1:])}."
        ),
    ] = "",
    thinking_budget: Annotated[
        int | None, typer.Option(help="Tokens after which a thought is ended.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as text: no chat template.")
    ] = False,
    marks: Annotated[
        bool,
        typer.Option(
            "--marks", help="Show origins: accepted drafts bold, rejected ones struck through."
        ),
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write every event, one JSON object a line.")
    ] = None,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Answer a prompt in the terminal, or chat there."""
    conversations = replies.collect(prompt, prompts_file)
    drafting = Drafting(
        proposer=proposer,
        depth=depth,
        control=options.control(controller),
        acceptance=rule_named(acceptance),
        options=option or (),
    )
    folder = paths.data_folder(data_dir)
    with trace_to(trace) as write_event, open_for_command(load, folder, proposer) as engine:
        loaded = engine.loaded
        assert loaded is not None
        defaults = Defaults(folder)
        if not drafting.chosen and (measured := defaults.of(loaded)):
            print(f"Note: the default of this pair is {measured}.", file=sys.stderr)
        reply_options = replies.ReplyOptions(
            sampling=sampling,
            speculation=drafting.speculation(loaded, defaults),
            max_tokens=max_tokens,
            stop=tuple(stop or ()),
            system=system,
            raw=raw,
            thinking=thinking,
            thinking_budget=thinking_budget,
        )
        done = converse_all(engine, conversations, reply_options, write_event, marks)
    if as_json:
        print(json.dumps(replies.as_json(done), ensure_ascii=False))


def converse_all(
    engine: Engine,
    conversations: list[replies.Conversation] | None,
    reply_options: replies.ReplyOptions,
    write_event: Callable[[Event], None],
    marks: bool,
) -> list[ReplyState]:
    """Hold every conversation, or one with who sits there, printing as it goes."""
    printer = terminal.Printer(sys.stdout, terminal.marks_for(sys.stdout) if marks else None)

    def on_event(event: Event) -> None:
        write_event(event)
        printer.show(event)

    if conversations is None:
        finished = interactive.converse(engine, reply_options, on_event)
    else:
        each = (replies.converse(engine, turns, reply_options, on_event) for turns in conversations)
        finished = itertools.chain.from_iterable(each)
    done = []
    for reply in finished:
        print(f"[{terminal.summary(reply.statistics)}]\n", flush=True)
        done.append(reply)
    return done


@contextlib.contextmanager
def trace_to(path: Path | None) -> Iterator[Callable[[Event], None]]:
    """Yield a function that writes events to ``path`` as JSON lines, or does nothing if that is None."""
    if path is None:
        yield lambda event: None
        return
    from engine.trace import to_line

    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            "trace", f"The trace cannot be written to {path}: {error.strerror or error}."
        ) from error
    with file:
        yield lambda event: print(to_line(event), file=file)


def replay(
    trace: Annotated[Path, typer.Argument(help="A file that `chat --trace` or the page wrote.")],
    html: Annotated[Path, typer.Option(help="The file to write.")],
    reply: Annotated[
        int | None, typer.Option(min=1, help="Which of the trace's replies. Default: the last.")
    ] = None,
) -> None:
    """Write a trace's reply as one HTML file, with its replay inside; it needs no network."""
    from app.ui import replay_file

    try:
        lines = trace.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("trace", f"The trace {trace} cannot be read: {error}.") from error
    page = replay_file.page(lines, reply)
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidRequest("html", f"{html} cannot be written: {error}.") from error
    print(f"Wrote {html}.")
