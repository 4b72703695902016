"""Run the calls of one reply: ask for each unless its server is trusted, run them side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.mcp import limits
from app.mcp.servers import McpServers
from app.mcp.tools import CallResult, OfferedTool
from app.storage.rows import CallState, StoredCall
from engine.values.tools import ToolCall, json_object

REFUSED = "The user refused this call."
STOPPED = "The user stopped this call."
NOT_AN_OBJECT = "The arguments are not a JSON object. Write the call again."
LONGEST_REASON = 2000


class Answer(StrEnum):
    """What the user says to a call."""

    ONCE = "once"
    TRUST = "trust"
    """Run it, and all further calls of its server in this chat."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a turn. ``trusted``: whether calls of a server run without a question. ``longest``:
    characters of all results of a reply that the model gets, which its calls share."""

    servers: McpServers
    tools: tuple[OfferedTool, ...]
    trusted: Callable[[str], bool]
    longest: int

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool that a model knows by this name."""
        return next((each for each in self.tools if each.tool.name == name), None)


@dataclass
class CallRunner:
    """The calls of one reply. Thread-safe.

    ``on_change`` gets all calls whenever one changes; ``on_end`` is called once, in a thread of its own,
    after the last one has a result, also after ``cancel``.
    """

    box: Toolbox
    on_change: Callable[[tuple[StoredCall, ...]], None]
    on_end: Callable[[], None]
    cancelled: bool = False
    _calls: dict[str, StoredCall] = field(default_factory=dict)
    _running: dict[str, Future[CallResult]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _ended: bool = False

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        with self._lock:
            return tuple(self._calls.values())

    def begin(self, made: Sequence[ToolCall]) -> None:
        """Take the reply's calls, and run those of trusted servers."""
        with self._lock:
            for at, call in enumerate(made):
                self._calls[call.id] = self._planned(at, call)
            if self.cancelled:  # meanwhile
                return self.cancel()
            self._changed()
            for each in self.calls:
                if each.state == "waiting" and self.box.trusted(each.server):
                    self._run(each)

    def answer(self, id: str, answer: Answer, reason: str = "") -> bool:
        """Answer for a call that waits; return False if it does not wait any more.

        With TRUST, the waiting calls of the same server run too.
        """
        with self._lock:
            call = self._calls.get(id)
            if call is None or call.state != "waiting":
                return False
            if answer is Answer.REFUSE:
                told = f"{REFUSED} {reason.strip()[:LONGEST_REASON]}".strip()
                self._put(replace(call, state="refused", result=told))
                return True
            self._run(call)
            for other in self.calls if answer is Answer.TRUST else ():
                if other.state == "waiting" and other.server == call.server:
                    self._run(other)
            return True

    def cancel(self, *, closing: bool = False) -> None:
        """Stop all calls that have no result yet: the user stopped them, or the app is ``closing``."""
        with self._lock:
            self.cancelled = True
            for call in self.calls:
                if call.pending:
                    stopped = replace(call, state="stopped", result=STOPPED)
                    self._put(call.interrupted() if closing else stopped)
            running = list(self._running.values())
        for each in running:
            each.cancel()

    def _planned(self, at: int, call: ToolCall) -> StoredCall:
        """Return a call as it begins: waiting, or failed if it cannot be run."""
        stored = StoredCall(call.id, call.name, call.arguments)
        found = self.box.find(call.name)
        if found is None:
            return replace(stored, state="failed", result=f"There is no tool {call.name!r}.")
        stored = replace(stored, server=found.server, tool=found.name)
        if at >= limits.MOST_CALLS:
            why = f"Not run: a reply can make at most {limits.MOST_CALLS} calls."
            return replace(stored, state="failed", result=why)
        if call.object is None:
            return replace(stored, state="failed", result=NOT_AN_OBJECT)
        return stored

    def _run(self, call: StoredCall) -> None:
        self._put(replace(call, state="running"))
        begun = time.monotonic()
        arguments = json_object(call.arguments) or {}
        self._running[call.id] = running = self.box.servers.call(call.server, call.tool, arguments)
        running.add_done_callback(lambda done: self._done(call.id, done, begun))

    def _done(self, id: str, done: Future[CallResult], begun: float) -> None:
        try:
            result = done.result()
        except CancelledError:
            result = CallResult(STOPPED, True)
        except Exception as error:  # a mistake of ours must not leave the turn waiting for ever
            result = CallResult(f"The call failed: {error!r}", True)
        with self._lock:
            call = self._calls[id]
            if call.state != "running":
                return
            seconds = round(time.monotonic() - begun, 3)
            told = result.within(max(limits.SMALLEST_RESULT, self.box.longest // len(self._calls)))
            state: CallState = "failed" if result.failed else "done"
            self._put(replace(call, state=state, result=told.text, cut=told.cut, seconds=seconds))

    def _put(self, call: StoredCall) -> None:
        self._calls[call.id] = call
        self._changed()

    def _changed(self) -> None:
        self.on_change(self.calls)
        if not self._ended and not any(each.pending for each in self._calls.values()):
            self._ended = True
            threading.Thread(target=self.on_end, name="after tool calls", daemon=True).start()
