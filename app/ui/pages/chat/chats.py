"""The chats: their messages and branches, and what is deleted. Plain values: no Gradio, no HTML."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from app.storage.imports.importing import import_file
from app.storage.rows import StoredMessage
from app.storage.store import Store
from app.ui import words
from app.ui.endpoints import View, endpoint
from app.ui.pages.chat.composer.attachments import show_attachment
from app.ui.pages.chat.library import Library
from app.ui.replies import LiveReplies
from app.ui.rounds import view
from app.ui.rounds.reply_calls import show_calls
from app.ui.words.names import target_title
from engine.errors import InvalidRequest


class ChatsBackend:
    """The chats of one running app. ``turns`` is held while the messages of one change. ``here`` returns
    the titles of the models that can be loaded without a download."""

    def __init__(
        self,
        store: Store,
        live_replies: LiveReplies,
        library: Library,
        here: Callable[[], Collection[str]],
    ) -> None:
        self._store, self._live_replies, self._library = store, live_replies, library
        self._here = here
        self.turns = threading.Lock()

    def shown(self, chat: int | None) -> View | None:
        """Return one chat with its messages and the reply being written in it."""
        if chat is None:
            return None
        chat = int(chat)
        writing = self._live_replies.of_chat(chat)
        messages = [show_message(message) for message in self.messages(chat)]
        self._mark_absent(messages)
        running = None
        # A reply may outlive its message: one that does not stop is deleted with the rest of the chat.
        if writing and any(message["id"] == writing.message for message in messages):
            running = {"run": writing.run, "message": writing.message}
        system = self._store.system_of(chat)
        return {
            "id": chat,
            "messages": messages,
            "running": running,
            "system": system and {"name": system.name, "text": system.text},
        }

    def _mark_absent(self, messages: Sequence[View]) -> None:
        """Mark replies by models of other programs that are not here: nothing offers to load those."""
        foreign = [each for each in messages if each["model"] and not each["pair"]]
        here = self._here() if foreign else ()
        for each in foreign:
            each["absent"] = target_title(each["model"]) not in here

    def messages(self, chat: int) -> tuple[StoredMessage, ...]:
        return tuple(map(self._live_replies.now, self._store.messages(chat)))

    @endpoint
    def open_chat(self, data: View) -> View:
        chat = int(data["chat"])
        found = self.shown(chat) if self._store.has_chat(chat) else None
        return {**self._library.listing(), "chat": found}

    def import_chats(self, path: Path, name: str) -> View:
        """Store the chats of an uploaded file. Return the list of chats, the first imported ``chat`` (if
        all were here already, the first of these), and the sentences of ``summary``. Raises
        InvalidRequest."""
        found = import_file(self._store, path, name)
        chat = self.shown((found.chats or found.known)[0])
        return {**self._library.listing(), "chat": chat, "summary": words.imported(found)}

    @endpoint
    def use_system(self, data: View) -> View | None:
        """Set the system prompt of one chat by name; none means that of the settings."""
        chat = int(data["chat"])
        self._store.use_system(chat, self._library.system_named(data.get("name")))
        return self.shown(chat)

    # ---- forks and edits

    @endpoint
    def fork_chat(self, data: View) -> View:
        """Make a new chat of a chat as far as ``message``; return it with the list of chats."""
        forked = self._store.fork(int(data["chat"]), int(data["message"]), " (fork)")
        if forked is None:
            raise InvalidRequest("messages", words.GONE)
        return {**self._library.listing(), "chat": self.shown(forked)}

    @endpoint
    def edit_reply(self, data: View) -> View:
        """Replace the answer of a reply by ``text``, in a version beside it, and show that.

        Return the ``chat`` and the id of the new ``message``, which ``act`` can continue. Thoughts stay.
        """
        chat, message, text = int(data["chat"]), int(data["message"]), str(data["text"] or "")
        with self.turns:
            self.refuse_running(chat)
            found = next((each for each in self._store.messages(chat) if each.id == message), None)
            if found is None or found.role != "assistant":
                raise InvalidRequest("messages", words.GONE)
            if found.calls is not None:
                raise InvalidRequest(
                    "messages",
                    "A reply that calls tools cannot be edited. Retry it, or edit your message.",
                )
            if not text.strip():
                raise InvalidRequest("messages", words.EMPTY)
            edited = self._store.edit_reply(message, found.text[: found.parts.start] + text)
        return {"chat": self.shown(chat), "message": edited}

    # ---- branches, and what is deleted or left out

    @endpoint
    def show_branch(self, data: View) -> View:
        """Show another version of a message; return the chat, and the list in which its title is."""
        chat, message = int(data["chat"]), int(data["message"])
        with self.turns:
            self.refuse_running(chat)
            if not any(message in each.siblings for each in self._store.messages(chat)):
                raise InvalidRequest("messages", words.GONE)
            self._store.show_branch(message)
        return self.open_chat(data)

    @endpoint
    def leave_out(self, data: View) -> View | None:
        """Leave messages out of what the model gets, or give them again."""
        chat, wanted = int(data["chat"]), {int(each) for each in data["messages"]}
        here = [each.id for each in self._store.messages(chat) if each.id in wanted]
        self._store.leave_out(here, bool(data["out"]))
        return self.shown(chat)

    @endpoint
    def delete_message(self, data: View) -> View:
        """Delete a message with all that follows; ``deleted`` restores it."""
        chat, message = int(data["chat"]), int(data["message"])
        with self.turns:
            self.refuse_running(chat)
            if not any(each.id == message for each in self._store.messages(chat)):
                raise InvalidRequest("messages", words.GONE)
            deleted = self._store.delete_message(message)
        return {"deleted": deleted, "chat": self.shown(chat)}

    @endpoint
    def delete_chat(self, data: View) -> View:
        chat = int(data["chat"])
        with self.turns:
            self._stop_chat(chat)
            deleted = self._store.delete(chat)
        return {"deleted": deleted, **self._library.listing()}

    @endpoint
    def clear_chat(self, data: View) -> View:
        chat = int(data["chat"])
        with self.turns:
            self._stop_chat(chat)
            deleted = self._store.clear(chat)
        return {"deleted": deleted, "chat": self.shown(chat)}

    @endpoint
    def restore(self, data: View) -> View:
        """Undo a deletion. Raises InvalidRequest if it is too late."""
        with self.turns:
            chat = self._store.restore(float(data["deleted"]))
        if chat is None or not self._store.has_chat(chat):
            raise InvalidRequest("chat", "Nothing to undo.")
        return {**self._library.listing(), "chat": self.shown(chat)}

    def refuse_running(self, chat: int) -> None:
        if self._live_replies.of_chat(chat) is not None:
            raise InvalidRequest(
                "messages", "A reply is still being written in this chat. Stop it first, or wait."
            )

    def _stop_chat(self, chat: int) -> None:
        for writing in self._live_replies.stop_chat(chat):
            writing.done.wait(timeout=5)


AS_STORED = ("id", "role", "text", "marks", "status", "error", "left_out", "edited", "model")


def show_message(message: StoredMessage) -> View:
    """Return a stored message as the page reads it."""
    figures = message.statistics or {}
    return {
        **{name: getattr(message, name) for name in AS_STORED},
        "calls": show_calls(message.calls, message.text),
        "stats": view.stored_totals(figures) if figures.keys() - {"thought"} else None,
        "thought": view.thought(message.text, message.parts, **_measured(figures.get("thought"))),
        "beside": message.siblings,
        "files": list(map(show_attachment, message.files)),
        "writer": " · ".join(filter(None, (message.model, message.method))),
        "pair": figures.get("pair"),
    }


def _measured(thought: Any) -> View:
    """Return how long a reply's thought took, and how many tokens it has, as far as that is stored."""
    stored = thought if isinstance(thought, dict) else {}
    seconds, tokens = stored.get("seconds"), stored.get("tokens")
    return {
        "seconds": seconds if isinstance(seconds, int | float) else None,
        "tokens": tokens if type(tokens) is int else None,
    }
