"""Titles of chats by the loaded model, written while nothing else is to be done."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import replace

from app.runtime import Runtime
from app.storage.rows import history
from app.storage.store import Store
from app.ui.controls.settings import Settings
from engine.api import Generation, Loaded
from engine.errors import ForetokenError
from engine.reply import ReplyState
from engine.values.messages import Message

log = logging.getLogger(__name__)

IDLE_S = 3.0
"""Seconds without a request before a title is written."""
SMALLEST = 1_000_000_000
"""Parameters of a model, at least. Of seven chats Qwen2.5 Coder 1.5B named six well, the 0.5B five
(2026-11-26): it answered "hi" once more, and took a part for the whole."""
TOKENS = 24
LONGEST = 60
"""Characters of a title."""
PROMPT = (
    "Give this conversation a title of at most five words, in its language. Answer with the title "
    "alone."
)


class Titles:
    """Names the chats that have no title of the user's.

    The title is asked for as one more message of its chat, so it takes few tokens to compute, and the
    chat's next message finds its KV cache as it was. Any other request cancels it.
    """

    def __init__(self, runtime: Runtime, store: Store, settings: Callable[[], Settings]) -> None:
        self._runtime, self._store, self._settings = runtime, store, settings
        self._lock = threading.Lock()
        self._wanted: int | None = None
        self._tried: set[int] = set()
        self._running: Generation | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        runtime.idle.watch(self._cancel)

    def note(self, chat: int, *, anew: bool = False) -> None:
        """Name a chat, in which a reply begins, once nothing else is to be done. ``anew``: it begins with
        another message, so the title it had is gone."""
        with self._lock:
            if anew:
                self._tried.discard(chat)
            if chat in self._tried or self._ended.is_set():
                return
            self._wanted = chat
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="titles", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop, because the app ends."""
        self._ended.set()
        self._cancel()

    def _cancel(self) -> None:
        running = self._running
        if running is not None:
            running.cancel()

    def _work(self) -> None:
        """Name chats until there is none left; the body of the thread."""
        while not self._ended.wait(IDLE_S / 4):
            with self._lock:
                chat = self._wanted
                if chat is None:
                    self._thread = None
                    return
                if not self._idle:
                    continue
                self._wanted = None  # before naming, during which its next message may ask again
            if not self._is_done_with(chat):
                with self._lock:
                    self._wanted = chat if self._wanted is None else self._wanted

    @property
    def _idle(self) -> bool:
        runtime = self._runtime
        busy = runtime.engine.busy or runtime.loader.working
        return not busy and runtime.idle.seconds >= IDLE_S

    def _is_done_with(self, chat: int) -> bool:
        """Name a chat; return False if it is to be tried again."""
        try:
            return self._name(chat)
        except ForetokenError as error:  # too long a chat, perhaps, or a full disk
            log.info("No title for a chat: %s", error)
            return True

    def _name(self, chat: int) -> bool:
        """Ask for a title and store it; return False if the request was cancelled."""
        loaded = self._runtime.engine.loaded
        if loaded is None or not writes_titles(loaded) or not self._store.is_untitled(chat):
            return True
        if not self._runtime.preferences.read().titles:
            return True
        messages = [each for each in self._store.messages(chat) if not each.left_out]
        turns = [each for message in messages for each in message.turn]
        answered = any(m.role == "assistant" and m.parts.answer.strip() for m in messages)
        if not answered or turns[-1].role != "assistant":
            return True  # of a question alone the model invents what it is about
        thinking = "off" if "off" in loaded.capabilities.thinking else ""
        settings = replace(
            self._settings(), temperature=0.0, max_tokens=TOKENS, stop="", thinking=thinking
        )
        system = self._store.system_of(chat)
        asked = history(
            [*turns, Message("user", PROMPT)], system.text if system else settings.system
        )
        try:
            self._running = self._runtime.engine.generate(settings.request(asked))
            reply = ReplyState.of(self._running)
        finally:
            cancelled = self._running is not None and self._running.cancelled
            self._running = None
        if cancelled:
            return False
        with self._lock:
            self._tried.add(chat)  # only now: a chat may begin with calls of tools alone
        if title := tidy(reply.thoughts.answer):
            self._store.name_chat(chat, title)
        return True


def writes_titles(loaded: Loaded) -> bool:
    """Return whether a model is large enough to write titles, is on this machine, and need not think."""
    thinks = bool(loaded.capabilities.thinking) and "off" not in loaded.capabilities.thinking
    return not loaded.server and loaded.parameters >= SMALLEST and not thinks


def tidy(text: str) -> str:
    """Return the title in a model's answer; "" if it holds none that is short."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"^(?:#+\s*|\*\*|(?:title|conversation title)\s*:\s*)+", "", line, flags=re.I)
    line = line.strip(" \"'“”*`_").rstrip(".:")
    return line if len(line) <= LONGEST and re.search(r"\w", line) else ""
