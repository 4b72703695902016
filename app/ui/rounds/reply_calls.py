"""The calls of tools in one reply: read while it is written, run after it, answered by the next one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.mcp.runner import CallRunner, Toolbox
from app.storage.rows import StoredCall, StoredCalls
from app.ui.endpoints import View
from app.ui.rounds.view import utf16_length
from engine.reply import ReplyState
from engine.request import Request
from engine.tool_calls.in_reply import CallsInReply
from engine.tool_calls.reading import CallStart, Content
from engine.tool_calls.styles import CallStyle


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """What a reply needs to call tools. ``style``: how the model writes calls.

    ``round``: the number of this reply among those of the turn that may call tools, from 1; after
    ``limit`` of them the user is asked. ``proceed`` begins the reply to the results of a message, unless
    the function that it gets says that the turn was stopped.
    """

    box: Toolbox
    style: CallStyle
    round: int
    limit: int
    proceed: Callable[[int, Callable[[], bool]], View]


class ReplyCalls:
    """The calls of one reply. ``on_change`` is told of every change, ``on_end`` of the last result."""

    def __init__(
        self,
        turn: ToolTurn,
        request: Request,
        on_change: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self.turn = turn
        self._read = CallsInReply(turn.style, request)
        self._said = 0  # characters of the answer that belong to no call, for sure
        self._at: int | None = None  # where in the text the first call begins
        self._on_change = on_change
        self.runner = CallRunner(turn.box, lambda calls: on_change(), on_end)
        self.limit: int | None = None

    def add(self, reply: ReplyState, *, last: bool) -> None:
        """Read what the last event added to the reply."""
        for part in self._read.add(reply.added[1], last=last):
            if isinstance(part, Content) and self._at is None:
                self._said += len(part.text)
            elif isinstance(part, CallStart) and self._at is None:
                self._at = reply.thoughts.start + self._said

    def shown(self, reply: ReplyState) -> int:
        """Return how much of the text people see: none of a call, nor what may become one."""
        end = self._at if self._at is not None else reply.thoughts.start + self._said
        return utf16_length(reply.text[:end])

    @property
    def written(self) -> str | None:
        """The name of the tool that the reply calls just now; None before the first call."""
        return self._read.calls[-1].name if self._read.calls else None

    @property
    def stored(self) -> StoredCalls | None:
        """None without a call that was run or waits."""
        calls = self.runner.calls
        return StoredCalls(self._at or 0, calls, self.limit) if calls else None

    def begin(self) -> bool:
        """Run the calls of the reply, which is complete; return False if it has none."""
        made = self._read.made
        if made:
            self.runner.begin(made)
        return bool(made)

    def at_limit(self) -> bool:
        """Return whether the turn ends here; ``stored`` says so from now on."""
        if self.turn.round >= self.turn.limit:
            self.limit = self.turn.limit
            self._on_change()
        return self.limit is not None


def show_calls(calls: StoredCalls | None, text: str) -> View | None:
    """Return a reply's calls as the page reads them; ``text`` is the reply."""
    if calls is None:
        return None
    return {
        "at": utf16_length(text[: calls.at]),
        "limit": calls.limit,
        "calls": list(map(_show, calls.calls)),
    }


def _show(call: StoredCall) -> dict[str, Any]:
    names = (
        "id", "name", "server", "tool", "arguments", "state", "result", "cut", "seconds",
    )  # fmt: skip
    return {name: getattr(call, name) for name in names}
