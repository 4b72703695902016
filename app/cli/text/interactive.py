"""A chat in the terminal: lines in, replies out, until ``/exit`` or the end of the input."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from app.cli.text import replies
from engine.errors import ForetokenError
from engine.events import Event
from engine.reply import ReplyState

if TYPE_CHECKING:
    from engine.api import Engine

PROMPT = "> "
CLEAR, EXIT = "/clear", "/exit"
HINT = f"{CLEAR} starts a new chat, {EXIT} or Ctrl-D quits, Ctrl-C stops a reply."


def converse(
    engine: Engine, options: replies.ReplyOptions, on_event: Callable[[Event], None]
) -> Iterator[ReplyState]:
    """Answer line after line with the chat so far as context; yield the replies to each line.

    A turn that is stopped or refused is reported and left out of the context.
    """
    print(HINT)
    history = options.opening()
    for line in _lines():
        if line == CLEAR:
            history = options.opening()
            continue
        try:
            yield from replies.say(engine, history, line, options, on_event)
        except KeyboardInterrupt:
            print("\nStopped. This turn is not remembered.\n")
        except ForetokenError as error:
            print(f"{error}\n", file=sys.stderr)


def _lines() -> Iterator[str]:
    """Yield the lines typed, without empty ones."""
    with contextlib.suppress(ImportError):  # arrow keys and earlier lines, where there is readline
        import readline  # noqa: F401
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            print()
            return
        if line == EXIT:
            return
        if line:
            yield line
