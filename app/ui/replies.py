"""Replies being written: each is pumped from the engine into its feed and the store.

The pump belongs to the app, not to a page: closing or reloading the page neither stops a reply nor
loses any of it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from app.store import Store
from app.ui import view
from app.ui.feed import Feed
from engine import trace
from engine.events import Event, Failed
from engine.reply import ReplyState

logger = logging.getLogger(__name__)

SAVE_PERIOD = 0.5
"""Seconds between two writes of a growing reply: what ``kill -9`` can cost at most."""

KEPT = 32
"""Ended replies whose feeds are still there for pages that come late."""


class Generation(Protocol):
    """What is needed of the engine's ``Generation``."""

    def __iter__(self) -> Iterator[Event]: ...

    def cancel(self) -> None: ...


class Writing:
    """One reply being written. ``feed`` is what pages follow."""

    def __init__(
        self, run: int, generation: Generation, store: Store, chat: int, message: int
    ) -> None:
        self.run = run
        self.chat = chat
        self.message = message
        self.feed = Feed()
        self.done = threading.Event()
        self._generation = generation
        self._store = store

    def start(self) -> None:
        threading.Thread(target=self._pump, name=f"reply-{self.run}", daemon=True).start()

    def stop(self) -> None:
        self._generation.cancel()

    def _pump(self) -> None:
        reply = ReplyState()
        unsaved: list[str] = []
        saved = time.monotonic()
        try:
            for event in _guarded(self._generation):
                reply.add(event)
                self.feed.append(view.show(event), view.totals(reply.statistics))
                unsaved.append(trace.to_line(event))
                if time.monotonic() - saved > SAVE_PERIOD:
                    self._save(reply, unsaved)
                    saved = time.monotonic()
        finally:
            self._save(reply, unsaved)
            self.done.set()
            self.feed.close()

    def _save(self, reply: ReplyState, unsaved: list[str]) -> None:
        """Write the reply as it stands; empties ``unsaved``."""
        self._store.save_reply(
            self.message,
            text=reply.text,
            marks=view.marks(reply.tokens or ()),
            status=view.status(reply),
            error=reply.error,
            statistics=view.numbers(reply.statistics),
            trace=unsaved,
        )
        unsaved.clear()


def _guarded(generation: Generation) -> Iterator[Event]:
    """The generation's events; whatever goes wrong becomes the last one."""
    try:
        yield from generation
    except Exception as error:
        logger.exception("a reply broke off")
        yield Failed(f"The reply broke off: {error!r}. The terminal has the details; try again.")


class Writings:
    """All replies being written, and the last ones that ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._all: dict[int, Writing] = {}

    def start(self, generation: Generation, chat: int, message: int) -> Writing:
        with self._lock:
            writing = Writing(next(self._numbers), generation, self._store, chat, message)
            self._all[writing.run] = writing
            ended = [run for run, old in self._all.items() if old.done.is_set()]
            for run in ended[:-KEPT]:
                del self._all[run]
        writing.start()
        return writing

    def find(self, run: int) -> Writing | None:
        with self._lock:
            return self._all.get(run)

    def of_chat(self, chat: int) -> Writing | None:
        """The reply being written in this chat."""
        with self._lock:
            running = (w for w in self._all.values() if w.chat == chat and not w.done.is_set())
            return next(running, None)
