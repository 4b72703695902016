"""``foretoken chat`` and ``foretoken replay``: replies in the terminal, their traces, traces as pages."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from app import main, paths
from app.cli import options
from app.cli.loading import Drafting, check_settings, open_for_command
from app.cli.text import output, replies
from app.cli.text.tools import opened
from app.settings.defaults import Defaults
from engine.api import LoadRequest
from engine.drafting import proposers
from engine.errors import InvalidRequest
from engine.events import Event
from engine.reply import ReplyState
from engine.request import THINKING, Speculation
from engine.thoughts import served_as
from engine.values.messages import Message
from engine.values.method_titles import method_title
from engine.values.sampling import AcceptanceRule, Sampling, rule_named

if TYPE_CHECKING:
    from engine.api import Engine

GREEDY = Sampling()


@options.with_load
@options.with_sampling
def chat(
    prompt: str | None = Argument(
        None, help="Your message; - reads standard input. Without it, a chat starts."
    ),
    prompts_file: Path | None = Option(
        None, "--prompts", help="File with one JSON object per line: prompt or turns."
    ),
    file: list[str] | None = Option(
        None,
        metavar="FILE",
        help="PDF, Word, text or another document, or the address of a web page, for the model to "
        "read with your first message. Repeatable.",
    ),
    image: list[Path] | None = Option(
        None, metavar="FILE", help="An image for your first message. Repeatable."
    ),
    load: LoadRequest = main.DEFAULT_LOAD,
    proposer: str | None = Option(
        None,
        help=f"{', '.join(proposers.names())}. Default: the pair's measured default (`bench "
        "sweep --apply`), else its own.",
    ),
    depth: int | None = Option(
        None,
        help="Drafted tokens per round, 1 to 15; the maximum with --controller auto. Alone, "
        "it means --controller fixed.",
    ),
    controller: options.ControllerOption = None,
    acceptance: options.AcceptanceOption = AcceptanceRule.AUTO.value,
    option: list[str] | None = Option(
        None, metavar="NAME=VALUE", help="NAME=VALUE, an option of the proposer. Repeatable."
    ),
    sampling: Sampling = GREEDY,
    max_tokens: int | None = Option(None, help="Most tokens per reply."),
    stop: list[str] | None = Option(None, help="Text that ends the reply. Repeatable."),
    system: str | None = Option(None, help="System prompt."),
    thinking: str = Option(
        "",
        help="How much the model thinks, if its chat template has a choice: "
        f"{', '.join(THINKING[1:])}.",
    ),
    thinking_budget: int | None = Option(None, help="Most tokens per thought."),
    raw: bool = Option(
        False, "--raw", help="Continue the prompt as text, without the chat template."
    ),
    mcp: Path | None = Option(
        None, help="A JSON file with MCP servers, whose tools the model may call."
    ),
    mcp_trust: list[str] | None = Option(
        None, metavar="NAME", help="Run the calls of this server without asking. Repeatable."
    ),
    marks: bool = Option(
        False, "--marks", help="Mark drafted tokens: accepted bold, rejected struck through."
    ),
    trace: Path | None = Option(
        None, help="Write every event to this file, one JSON object per line."
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Answer a prompt in the terminal, or chat there."""
    conversations = replies.collect(prompt, prompts_file)
    limited = thinking_budget is not None
    templated = {
        "system": system,
        "file": file,
        "image": image,
        "mcp": mcp,
        "thinking": thinking,
        "thinking_budget": limited,
    }
    for name, given in templated.items():
        if given and raw:
            raise InvalidRequest(
                name, f"{name} needs a chat template, which --raw skips. Leave one out."
            )
    options.no_use("mcp_trust", mcp_trust and not mcp, without="--mcp")
    files = [replies.read(source) for source in file or ()]
    drafting = Drafting(
        proposer=proposer,
        depth=depth,
        control=options.control(controller),
        acceptance=rule_named(acceptance),
        options=option or (),
    )
    reply_options = replies.ReplyOptions(
        sampling=sampling,
        speculation=Speculation(),
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        system=system,
        raw=raw,
        thinking=thinking,
        thinking_budget=thinking_budget,
        images=replies.images_in(image or ()),
    )
    reply_options.request([Message("user", "Hi")])  # refuses wrong values before anything is loaded
    folder = paths.data_folder(data_dir)
    if trace is not None:
        output.check_writable(trace, "trace")
    check_settings(folder, load)
    with (
        open_for_command(load, folder, proposer) as (engine, loaded),
        contextlib.ExitStack() as scope,
    ):
        defaults = Defaults(folder)
        if not drafting.chosen and (measured := defaults.of(loaded)):
            print(f"Note: the default of this pair is {measured}.", file=sys.stderr)
        if note := _thinking_note(thinking, loaded.capabilities.thinking):
            print(note, file=sys.stderr)
        if limited and not (loaded.server or loaded.capabilities.thinking_budget):
            note = "Note: this model marks no thoughts, so --thinking-budget has no use."
            print(note, file=sys.stderr)
        tools = scope.enter_context(opened(mcp, mcp_trust or (), loaded)) if mcp else None
        reply_options = replace(
            reply_options,
            speculation=drafting.speculation(loaded, defaults),
            tools=tools,
            attached=replies.fitted_text(files, engine, prompt or "") if files else "",
        )
        write_event = scope.enter_context(trace_to(trace))  # last: it empties the file
        done = converse_all(engine, conversations, reply_options, write_event, marks)
    if as_json:
        print(json.dumps(replies.as_json(done), ensure_ascii=False))


def _thinking_note(asked: str, choices: tuple[str, ...]) -> str:
    """Say what the model makes of ``--thinking``, unless that is what was asked; "" if nothing."""
    served = served_as(asked, choices)
    if served == asked or asked not in THINKING:
        return ""
    if not choices:
        return f"Note: this model has no choice of thinking, so --thinking {asked} is ignored."
    used = served or "its default"
    return f"Note: this model's choices of thinking are {', '.join(choices)}; {asked} means {used}."


def converse_all(
    engine: Engine,
    conversations: list[replies.Conversation] | None,
    reply_options: replies.ReplyOptions,
    write_event: Callable[[Event], None],
    marks: bool,
) -> list[ReplyState]:
    """Hold every conversation, or one with who sits there, printing as it goes."""
    printer = output.Printer(sys.stdout, output.marks_for(sys.stdout) if marks else None)

    def on_event(event: Event) -> None:
        write_event(event)
        printer.show(event)

    if conversations is None:
        finished = replies.converse_at_terminal(engine, reply_options, on_event)
    else:
        each = (replies.converse(engine, turns, reply_options, on_event) for turns in conversations)
        finished = itertools.chain.from_iterable(each)
    done = []
    for reply in finished:
        told = f"[{method_title(reply.proposer)}: {output.summary(reply.statistics)}]"
        if sys.stdout.isatty():
            print(f"{told}\n", flush=True)
        else:  # a file has the text alone
            print(told, file=sys.stderr, flush=True)
        done.append(reply)
    return done


@contextlib.contextmanager
def trace_to(path: Path | None) -> Iterator[Callable[[Event], None]]:
    """Yield a function that writes events to ``path`` as JSON lines, or does nothing if that is None."""
    if path is None:
        yield lambda event: None
        return
    from engine.trace import to_line

    with output.writing(path, "trace"):
        file = path.open("w", encoding="utf-8")
    with file:
        yield lambda event: print(to_line(event), file=file)


def replay(
    trace: Path = Argument(..., help="A file from `chat --trace` or the page."),
    html: Path = Option(..., help="File to write."),
    reply: int | None = Option(
        None, min=1, help="Number of the reply in the trace. Default: the last."
    ),
) -> None:
    """Write a reply of a trace as one HTML file with its replay, which opens offline."""
    from app.ui.rounds import replay_file

    with output.reading(f"The trace {trace}", "trace"):
        lines = trace.read_text(encoding="utf-8").split("\n")
    page = replay_file.page(lines, reply)
    with output.writing(html, "html"):
        html.write_text(page, encoding="utf-8")
    print(f"Wrote {html}.")
