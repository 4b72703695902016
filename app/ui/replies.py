"""Replies being written: what the engine tells goes into their feeds and into the store.

Replies belong to the app, not to a page: closing or reloading a page neither stops one nor loses any of
it. The engine's thread only hands events over; one thread for all replies does the rest, and ends when
nothing is being written.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.mcp.runner import Answer
from app.storage.rows import StoredMessage
from app.storage.store import Store
from app.ui.endpoints import View
from app.ui.rounds import view
from app.ui.rounds.feed import Feed
from app.ui.rounds.reply_calls import ReplyCalls, ToolTurn, show_calls
from engine import trace
from engine.api import Generation
from engine.errors import ForetokenError
from engine.events import Event, Failed, Finished, FinishReason
from engine.reply import ReplyState, ResumedReply
from engine.stats import Statistics

logger = logging.getLogger(__name__)

SAVE_PERIOD = 0.5
"""Seconds between two writes of a growing reply: what ``kill -9`` can cost at most. The first words are
written at once."""

CLOSING_S = 1.5
"""Seconds that the app's end waits for replies to stop between two rounds."""

KEPT = 32
"""Ended replies whose feeds are still there for pages that come late."""


class LiveReply:
    """One reply being written. ``feed`` is what pages follow; once all is stored, ``done`` is set.

    If it calls tools, it is done once they have results, and the reply to these has begun.
    """

    def __init__(
        self,
        run: int,
        generation: Generation,
        store: Store,
        chat: int,
        message: int,
        pair: View | None = None,
        before: Sequence[Event] = (),
        tools: ToolTurn | None = None,
        earlier: Statistics | None = None,
    ) -> None:
        """``pair`` loads the reply's model again. ``before``: the events of the reply that is
        continued. ``earlier``: the sum of the replies before it that called tools in the same turn."""
        self.run = run
        self.chat = chat
        self.message = message
        self.feed = Feed()
        self.done = threading.Event()
        self._generation = generation
        self._store, self._pair = store, pair
        self._reply = ReplyState()
        self._thought: View | None = None
        self._resumed = ResumedReply(before)
        self._anew = bool(before)  # its kept rounds are stored again, with those that follow
        self._calls: ReplyCalls | None = None
        if tools is not None:
            self._calls = ReplyCalls(
                tools, generation.request, self._calls_changed, self._calls_ended
            )
        self._earlier, self._stopped = earlier, False
        self._unsaved: list[str] = []
        self._saved = time.monotonic()
        self._begun = False  # whether some of its text is stored
        # It is written by its thread, and at the app's end by another.
        self._lock = threading.RLock()

    def stop(self, *, closing: bool = False) -> None:
        """Stop the reply, or the calls of tools that it made. ``closing``: because the app ends."""
        self._stopped = True
        self._generation.cancel()
        if self._calls is not None:
            self._calls.runner.cancel(closing=closing)

    def answer_call(self, id: str, answer: Answer, reason: str = "") -> bool:
        """Answer for a call that waits for the user; return False if none does by that id."""
        return self._calls is not None and self._calls.runner.answer(id, answer, reason)

    @property
    def unsaved(self) -> bool:
        """True if the store lacks some of the events."""
        return bool(self._unsaved)

    @property
    def statistics(self) -> Statistics | None:
        """None until the reply is complete."""
        return self._reply.statistics if self.done.is_set() else None

    def add(self, event: Event) -> None:
        """Take the next event. After the last one, store the reply and mark it done."""
        with self._lock:
            try:
                self._take(event)
                last = isinstance(event, Finished | Failed)
                first = not self._begun and bool(self._reply.text)
                if last or first or time.monotonic() - self._saved > SAVE_PERIOD:
                    self._save()
                if last and not self._begin_calls():
                    self._end()
            except Exception as error:  # the thread writes other replies too
                self._break_off(error)

    def flush(self) -> None:
        """Store what is not stored yet."""
        with self._lock:
            try:
                self._save()
            except Exception as error:
                self._break_off(error)

    def store_again(self) -> None:
        """Try again, after the reply's end, to store what could not be stored then."""
        with self._lock, contextlib.suppress(Exception):  # the log has the first time
            if self.unsaved:
                self._save()

    def _save(self) -> None:
        """Store the reply as it is now."""
        self._store.save_reply(self.message, trace=self._unsaved, anew=self._anew, **self._state())
        self._anew = False
        self._unsaved = []  # only here: what could not be stored goes with the next
        self._saved = time.monotonic()
        self._begun = bool(self._reply.text)

    def _state(self) -> dict[str, Any]:
        """Return what the store keeps of the reply as it stands, by the names of StoredMessage."""
        return {
            "text": self._reply.text,
            "marks": view.marks(self._reply.tokens or ()),
            "status": view.status(self._reply),
            "error": self._reply.error,
            "statistics": {
                **view.numbers(self._reply.statistics),
                "predicted": view.predicted(self._reply),
                "thought": view.stored_thought(self._reply),
                "full": self._full,
                "pair": self._pair,
                "turn": self._turn,
            },
        }

    def over(self, message: StoredMessage) -> StoredMessage:
        """Return the stored message of this reply with what the disk did not take."""
        with self._lock:
            ended = self.done.is_set() and self.unsaved
            return replace(message, **self._state()) if ended else message

    @property
    def _full(self) -> bool:
        """True if the context was full, and not a limit of the request reached."""
        if self._reply.reason is not FinishReason.LENGTH:
            return False
        request = self._generation.request
        new = self._reply.statistics.completion_tokens - len(request.reply_prefix)
        return request.max_tokens is None or new < request.max_tokens

    @property
    def _turn(self) -> View | None:
        """The figures of the whole turn; None if this is its only reply."""
        if self._earlier is None:
            return None
        return view.turn_totals(self._earlier + self._reply.statistics)

    def _begin_calls(self) -> bool:
        """Run the calls of a reply that is complete; return False if there is nothing to run."""
        ended = self._reply.reason is FinishReason.STOP
        return ended and self._calls is not None and not self._stopped and self._calls.begin()

    def _calls_changed(self) -> None:
        """Store and show what became of the calls."""
        assert self._calls is not None
        stored = self._calls.stored
        try:
            self._store.save_calls(self.message, stored)
        except ForetokenError as error:  # the disk is full: the page still shows them
            _log("calls of tools could not be stored", error)
        self.feed.append({"t": "calls", **(show_calls(stored, self._reply.text) or {})})

    def _calls_ended(self) -> None:
        """Begin the reply to the results, unless the turn ends here."""
        assert self._calls is not None
        try:
            if not (self._stopped or self._calls.at_limit()):
                began = self._calls.turn.proceed(self.message, lambda: self._stopped)
                self.feed.append({"t": "next", **began})
        except Exception:
            logger.exception("a turn with tool calls failed")
        finally:
            self._end()

    def _take(self, event: Event) -> None:
        for each in self._resumed.join(event):
            self._add(each)

    def _add(self, event: Event) -> None:
        self._reply.add(event)
        self._unsaved.append(trace.to_line(event))
        if self._calls is not None:
            self._calls.add(self._reply, last=isinstance(event, Finished))
        if self._thought is None or self._thought["to"] is None:
            self._thought = view.thought_of(self._reply)
        told = view.totals(self._reply)
        told |= {"thought": self._thought, "full": self._full, "turn": self._turn}
        if self._calls is not None:
            told |= {"shown": self._calls.shown(self._reply), "calling": self._calls.written}
        self.feed.append(view.show(event), told)

    def _break_off(self, error: Exception) -> None:
        """End the reply with an error, and store that if possible."""
        _log("a reply failed", error)
        self._generation.cancel()
        try:
            why = str(error) if isinstance(error, ForetokenError) else f"{error!r}."
            self._take(Failed(f"The reply failed. {why}"))
            self._save()
        except Exception as another:
            _log("the end of a reply could not be stored", another)
        finally:
            self._end()

    def _end(self) -> None:
        self.done.set()
        self.feed.close()


def _log(what: str, error: Exception) -> None:
    """Log an error; one of ours, a full disk, says all without a traceback."""
    logger.error("%s: %s", what, error, exc_info=not isinstance(error, ForetokenError))


class LiveReplies:
    """All replies being written, and the last ones that ended."""

    def __init__(self, store: Store, others: Callable[[], bool] = lambda: True) -> None:
        """``others``: whether another app writes into the store."""
        self._store, self._others = store, others
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._all: dict[int, LiveReply] = {}
        self._inbox: queue.SimpleQueue[tuple[LiveReply, Event]] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None

    def start(
        self,
        generation: Generation,
        chat: int,
        message: int,
        pair: View | None = None,
        before: Sequence[Event] = (),
        tools: ToolTurn | None = None,
        earlier: Statistics | None = None,
    ) -> LiveReply:
        """Start to write a reply. For the last four see ``LiveReply``."""
        with self._lock:
            number = next(self._numbers)
            writing = LiveReply(
                number, generation, self._store, chat, message, pair, before, tools, earlier
            )
            self._all[writing.run] = writing
            ended = [old for old in self._all.values() if old.done.is_set()]
            for old in ended[:-KEPT]:
                del self._all[old.run]
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="replies", daemon=True)
                self._writer.start()
        generation.listen(lambda event: self._inbox.put((writing, event)))
        for old in ended:
            old.store_again()  # the disk was full, perhaps, and now takes another reply
        return writing

    def close(self) -> None:
        """Stop all replies and store what they have, because the app ends."""
        for writing in self.stop_all():
            writing.flush()
        for writing in self._all.values():
            writing.store_again()

    def stop_all(self) -> list[LiveReply]:
        """Stop all replies and wait for their ends. Return those that did not stop."""
        with self._lock:
            growing = self._growing()
        for writing in growing:
            writing.stop(closing=True)
        end = time.monotonic() + CLOSING_S
        return [each for each in growing if not each.done.wait(max(0.0, end - time.monotonic()))]

    def stop_chat(self, chat: int) -> list[LiveReply]:
        """Stop what is being written in a chat; return it. Two follow each other after calls of tools."""
        with self._lock:
            growing = [each for each in self._growing() if each.chat == chat]
        for writing in growing:
            writing.stop()
        return growing

    def find(self, run: int) -> LiveReply | None:
        with self._lock:
            return self._all.get(run)

    def of_chat(self, chat: int) -> LiveReply | None:
        """Return the reply being written in this chat."""
        with self._lock:
            return next((each for each in self._growing() if each.chat == chat), None)

    def now(self, message: StoredMessage) -> StoredMessage:
        """Return a stored message as it stands: a reply that ended on a full disk with all its words, and
        one that nobody writes any more, also no other process, as interrupted."""
        with self._lock:
            writing = next(
                (each for each in self._all.values() if each.message == message.id), None
            )
        if writing is not None and not writing.done.is_set():
            return message
        lost = writing is None and message.status == "running"
        left = replace(
            message,
            calls=message.calls and message.calls.interrupted(),
            status="interrupted" if lost else message.status,
        )
        if left != message and (message.id in self._store.own or not self._others()):
            message = left
        return message if writing is None else writing.over(message)

    def _growing(self) -> list[LiveReply]:
        return [each for each in self._all.values() if not each.done.is_set()]

    def _write(self) -> None:
        """Write replies while there are some; the body of the thread."""
        while True:
            with self._lock:
                growing = self._growing()
                if not growing:
                    self._writer = None
                    return
            unsaved = [each for each in growing if each.unsaved]
            try:
                writing, event = self._inbox.get(timeout=SAVE_PERIOD if unsaved else None)
            except queue.Empty:
                for each in unsaved:
                    each.flush()
                continue
            if not writing.done.is_set():  # one that broke off may still be told of
                writing.add(event)
