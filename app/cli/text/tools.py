"""Tools in the terminal: the user is asked for each call, and sees what it returned."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.cli.text.output import harmless, reading
from app.mcp.config import GivenServers, read_servers
from app.mcp.limits import result_length
from app.mcp.runner import Answer, CallRunner, Toolbox
from app.mcp.servers import McpServers
from app.mcp.tools import fitting
from app.storage.rows import StoredCall, StoredCalls
from engine.api import Loaded
from engine.errors import GenerationFailed, InvalidRequest
from engine.files import bounded
from engine.reply import ReplyState
from engine.request import Request
from engine.tool_calls.in_reply import CallsInReply
from engine.tool_calls.styles import CallStyle
from engine.values.messages import Message
from engine.values.tools import Tool

SHOWN = 500
"""Characters of a result on the terminal."""
NOBODY = (
    "{} was not run: input is not a terminal, so nobody could confirm it. "
    "Allow the server's calls with --mcp-trust {}."
)


@dataclass(frozen=True, slots=True)
class TerminalTools:
    """The tools of a run. ``trusted``: names of servers whose calls are not asked for; it grows."""

    box: Toolbox
    style: CallStyle
    rounds: int
    trusted: set[str]

    @property
    def offered(self) -> tuple[Tool, ...]:
        return tuple(each.tool for each in self.box.tools)

    def results(self, reply: ReplyState, request: Request) -> tuple[Message, ...]:
        """Run the calls of a reply; return it and their results as messages, none without a call.

        Raises GenerationFailed for a call that needs the user's word if nobody can give it."""
        read = CallsInReply(self.style, request)
        read.add(reply.thoughts.answer, last=True)
        if not read.made:
            return ()
        ended = threading.Event()
        runner = CallRunner(self.box, lambda calls: None, ended.set)
        try:
            runner.begin(read.made)
            while waiting := [each for each in runner.calls if each.state == "waiting"]:
                self._ask(runner, waiting[0])
            while not ended.wait(0.2):  # Ctrl-C is heard in between
                pass
        except BaseException:
            runner.cancel()
            raise
        for call in runner.calls:
            print(_line(call))
        calls = StoredCalls(0, runner.calls)
        return calls.messages(read.content.strip(), reply.thoughts.thought)

    def _ask(self, runner: CallRunner, call: StoredCall) -> None:
        print(f"{call.name} from {call.server}: {harmless(call.arguments)}", flush=True)
        if not sys.stdin.isatty():
            raise GenerationFailed(NOBODY.format(call.name, call.server))
        question = f"Run it? [y]es, [a]lways for {call.server}, [n]o, or a reason why not: "
        try:
            said = input(question).strip()
        except EOFError:
            said = ""
        if said.lower() in ("y", "yes"):
            runner.answer(call.id, Answer.ONCE)
        elif said.lower() in ("a", "always"):
            self.trusted.add(call.server)
            runner.answer(call.id, Answer.TRUST)
        else:
            runner.answer(call.id, Answer.REFUSE, "" if said.lower() in ("n", "no") else said)


@contextlib.contextmanager
def opened(file: Path, trusted: Collection[str], loaded: Loaded) -> Iterator[TerminalTools]:
    """Start the servers of a file, and stop them in the end.

    Raises InvalidRequest for a file that cannot be used, a server that does not start, and a model that
    cannot call tools.
    """
    style = loaded.capabilities.calls
    if style is None or not loaded.capabilities.template_tools:
        raise InvalidRequest(
            "mcp",
            f"{loaded.target_name} cannot call tools: its chat template has no tools. Load another "
            "model.",
        )
    given = GivenServers(read_servers(read_file(file)).servers)
    names = [each.name for each in given.given if each.on]
    for name in trusted:
        if name not in names:
            raise InvalidRequest(
                "mcp_trust", f"{file} has no server {name!r}; it has {', '.join(names) or 'none'}."
            )
    servers = McpServers(given)
    try:
        servers.wait(names)
        for state in servers.states():
            if state.phase == "failed":
                raise InvalidRequest("mcp", f"The server {state.config.name} failed. {state.why}")
        known = set(trusted)
        found = servers.offered(names)
        tools = fitting(found, loaded.context)
        if left_out := [each.tool.name for each in found[len(tools) :]]:
            print(
                f"Note: {', '.join(left_out)}: left out; the descriptions do not fit the context.",
                file=sys.stderr,
            )
        box = Toolbox(servers, tools, known.__contains__, result_length(loaded.context))
        yield TerminalTools(box, style, given.rounds, known)
    finally:
        servers.close()


def read_file(file: Path) -> str:
    """Return the text of a configuration. Raises InvalidRequest."""
    with reading(file, "mcp"):
        return bounded(file, 1 << 20).decode("utf-8")


def _line(call: StoredCall) -> str:
    took = f", {call.seconds:.1f} s" if call.seconds is not None else ""
    left = len(call.result) - SHOWN
    more = f" ({left:,} more characters)" if left > 0 else ""
    return harmless(f"{call.name} ({call.state}{took}): {call.result[:SHOWN]}{more}\n")
