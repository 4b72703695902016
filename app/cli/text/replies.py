"""Conversations held from the command line: turns in, replies out, every event passed on; and the files
that go with the first turn."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.text.output import harmless, reading
from engine.errors import ForetokenError, GenerationFailed, InvalidRequest, what_failed
from engine.events import Event
from engine.files import bounded, expanded
from engine.reply import ReplyState
from engine.request import Request, Speculation
from engine.stats import Statistics
from engine.values.messages import MAX_IMAGE_BYTES, Image, Message
from engine.values.sampling import Sampling
from engine.values.units import counted

if TYPE_CHECKING:
    from app.cli.text.tools import TerminalTools
    from app.storage.attachments import Attachment
    from engine.api import Engine

Conversation = tuple[str, ...]
"""The user's turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOptions:
    """The options of all replies of a run. ``raw`` skips the chat template. ``tools``: those that replies
    may call. ``attached`` and ``images``: what goes with the first turn of a conversation."""

    sampling: Sampling
    speculation: Speculation
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    system: str | None = None
    raw: bool = False
    thinking: str = ""
    thinking_budget: int | None = None
    tools: TerminalTools | None = None
    attached: str = ""
    images: tuple[Image, ...] = ()

    def opening(self) -> list[Message]:
        """Return the messages before the first turn."""
        return [Message("system", self.system)] if self.system else []

    def asked(self, history: list[Message], turn: str) -> Message:
        """Return the message of a turn, the first one after what is attached and with the images."""
        if any(each.role == "user" for each in history):
            return Message("user", turn)
        text = "\n\n".join(filter(None, (self.attached, turn)))
        return Message("user", text, images=self.images)

    def request(self, history: list[Message]) -> Request:
        """Return the request that answers ``history``, or, with ``raw``, continues its last message."""
        text: dict[str, Any] = (
            {"prompt": history[-1].content} if self.raw else {"messages": tuple(history)}
        )
        return Request(
            **text,
            sampling=self.sampling,
            speculation=self.speculation,
            max_tokens=self.max_tokens,
            stop=self.stop,
            thinking=self.thinking,
            thinking_budget=self.thinking_budget,
            tools=self.tools.offered if self.tools else (),
        )


def collect(prompt: str | None, file: Path | None) -> list[Conversation] | None:
    """Return the conversations to hold; None for a chat with the user at the terminal.

    ``prompt`` "-" reads standard input, and so does none if standard input is no terminal.
    """
    if prompt is not None and file is not None:
        raise InvalidRequest(
            "prompt", "Give either a prompt or a file of them with --prompts FILE, not both."
        )
    if file is not None:
        from engine.bench import prompts

        return [each.turns for each in prompts.read(file)]
    if prompt is None and sys.stdin.isatty():
        return None
    try:
        text = sys.stdin.read() if prompt in (None, "-") else str(prompt)
    except UnicodeDecodeError as error:
        why = f"Standard input cannot be read: {what_failed(error)}. Save it as UTF-8."
        raise InvalidRequest("messages", why) from error
    if not text.strip():
        raise InvalidRequest("messages", "The prompt is empty. Write a message.")
    return [(text,)]


def images_in(files: Iterable[Path]) -> tuple[Image, ...]:
    """Return the images in ``files``. Raises InvalidRequest for one that cannot be read."""
    found = []
    for file in files:
        with reading(file, "image"):
            found.append(Image(bounded(file, MAX_IMAGE_BYTES)))
    return tuple(found)


def converse(
    engine: Engine,
    conversation: Conversation,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> Iterator[ReplyState]:
    """Send each turn in order, with the replies so far as context; yield every reply."""
    history = options.opening()
    for turn in conversation:
        yield from say(engine, history, turn, options, on_event)


def say(
    engine: Engine,
    history: list[Message],
    turn: str,
    options: ReplyOptions,
    on_event: Callable[[Event], None],
) -> Iterator[ReplyState]:
    """Send one turn and yield its replies: several if they call tools. Once the turn is complete, all of
    it joins ``history``."""
    messages = [*history, options.asked(history, turn)]
    for _ in range(options.tools.rounds if options.tools else 1):
        request = options.request(messages)
        reply = answer(engine, request, on_event)
        yield reply
        results = options.tools.results(reply, request) if options.tools else ()
        if not results:
            parts = reply.thoughts
            messages.append(Message("assistant", parts.answer, reasoning=parts.thought))
            break
        messages += results
    else:
        rounds = options.tools.rounds if options.tools else 0
        print(f"Stopped after {counted(rounds, 'tool step')}.")
    history[:] = messages


def answer(engine: Engine, request: Request, on_event: Callable[[Event], None]) -> ReplyState:
    """Generate one reply. Ctrl-C cancels it and is raised again."""
    generation = engine.generate(request)
    reply = ReplyState()
    try:
        for event in generation:
            reply.add(event)
            on_event(event)
    except KeyboardInterrupt:
        generation.cancel()
        for _ in generation:  # it ends within one round
            pass
        raise
    if reply.error is not None:
        raise GenerationFailed(reply.error)
    return reply


def as_json(done: list[ReplyState]) -> dict[str, Any]:
    """Return totals over all replies, with stable keys; ``results`` lists them if there are several.

    ``text`` holds the thought too, which ``reasoning`` is again without marks; null if there is none.
    ``token_ids`` and counts are null if the engine did not report them; ``shared``: the counts include
    other clients' requests.
    """
    if len(done) == 1:
        return _of(done[0])
    text = "\n".join(reply.text for reply in done)
    ids = [reply.token_ids for reply in done if reply.token_ids is not None]
    token_ids = tuple(itertools.chain(*ids)) if len(ids) == len(done) else None
    statistics = functools.reduce(operator.add, (r.statistics for r in done), Statistics())
    reasoning = "\n".join(reply.thoughts.thought for reply in done if reply.thoughts.thought)
    results = [_of(reply) for reply in done]
    return {**_entry(text, reasoning, token_ids, statistics), "results": results}


def _of(reply: ReplyState) -> dict[str, Any]:
    entry = _entry(reply.text, reply.thoughts.thought, reply.token_ids, reply.statistics)
    return {**entry, "proposer": reply.proposer}


def _entry(
    text: str, reasoning: str, token_ids: tuple[int, ...] | None, statistics: Statistics
) -> dict[str, Any]:
    counted = statistics.rounds or statistics.drafted  # else a server says nothing of its drafts
    return {
        "text": text,
        "reasoning": reasoning or None,
        "token_ids": token_ids,
        "rounds": statistics.rounds or None,
        "drafted": statistics.drafted if counted else None,
        "accepted": statistics.accepted if counted else None,
        "shared": statistics.shared,
        "acceptance_rate": statistics.acceptance_rate,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "tokens_per_s": statistics.tokens_per_s,
        "time_to_first_token_s": statistics.time_to_first_token_s,
        "prompt_tokens": statistics.prompt_tokens,
        "reused_tokens": statistics.reused_tokens,
        "completion_tokens": statistics.completion_tokens,
        "decision": statistics.decision and asdict(statistics.decision),
    }


PROMPT = "> "
CLEAR, EXIT = "/clear", "/exit"
HINT = f"{CLEAR} starts a new chat, {EXIT} or Ctrl-D quits, Ctrl-C stops a reply."
_COMMAND = re.compile(r"/\w*(?!\S)")
"""Begins a line that is a command. Paths are none."""


def converse_at_terminal(
    engine: Engine, options: ReplyOptions, on_event: Callable[[Event], None]
) -> Iterator[ReplyState]:
    """Answer line after line with the chat so far as context; yield the replies to each line.

    A turn that is stopped or refused is reported and left out of the context.
    """
    print(HINT)
    history = options.opening()
    for line in _lines():
        if line.strip() == CLEAR:
            history = options.opening()
            continue
        if unknown := _COMMAND.match(line):
            print(
                f"There is no command {unknown[0]}. {HINT} To send this, put a space before it.\n"
            )
            continue
        try:
            yield from say(engine, history, line.strip(), options, on_event)
        except KeyboardInterrupt:
            print("\nStopped. This turn is not remembered.\n")
        except ForetokenError as error:
            print(f"{harmless(str(error))}\n", file=sys.stderr)


def _lines() -> Iterator[str]:
    """Yield the lines typed, as far as ``EXIT``, without empty ones."""
    with contextlib.suppress(ImportError):  # arrow keys and earlier lines, where there is readline
        import readline  # noqa: F401
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            print()
            return
        if line.strip() == EXIT:
            return
        if line.strip():
            yield line


def read(source: str) -> Attachment:
    """Read a file or web page, before anything is loaded; print what of it could not be read.

    Raises InvalidRequest, which names the file.
    """
    from app.documents.reading import read_file
    from app.documents.web import fetch_page

    if "://" in source:
        found = fetch_page(source, private=True)  # typed by who may open it anyway
    else:
        path = expanded(source)
        with reading(f"--file {source}", "file"):
            found = read_file(path, path.name)
    for note in found.notes:
        print(f"Note: {note}", file=sys.stderr)
    return found.attachment


def fitted_text(files: Sequence[Attachment], engine: Engine, question: str) -> str:
    """Return the files as the model reads them, without the pages that do not fit its context; print
    which those are."""
    from app.documents.fitting import Weighed, fitted
    from app.storage.attachments import ranges, with_files

    loaded = engine.loaded
    weighed = []
    for each in files:
        counted = engine.tokenize(each.parts)
        weighed.append(
            Weighed(
                [len(part) // 4 for part in each.parts]
                if counted is None
                else [*map(len, counted)],
                bool(each.pages),
            )
        )
    used = engine.tokenize([question])
    fit = fitted(weighed, loaded.context if loaded else 0, len(used[0]) if used else 0)
    given = []
    for each, out in zip(files, fit.left_out, strict=True):
        if out:
            unit = each.unit.lower() or "page"
            says = f"{unit} {out[0]}" if len(out) == 1 else f"{unit}s {ranges(out)}"
            verb, why = ("is", "it does") if len(out) == 1 else ("are", "they do")
            print(
                f"Note: {says} of {each.name} {verb} left out: {why} not fit the context.",
                file=sys.stderr,
            )
        given.append(replace(each, left_out=out))
    return with_files("", given)
