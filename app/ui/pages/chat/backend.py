"""What the chat page asks for, in plain values: no Gradio, no HTML.

Every answer is JSON. Mistakes of users raise ``ForetokenError``, whose text the page shows.
"""

from __future__ import annotations

import threading

from app import chat_files
from app.defaults import Defaults
from app.history import history
from app.loading import STAGES, LoadState
from app.runtime import Runtime
from app.store import Store, StoredMessage
from app.ui import replay_file, view
from app.ui.feed import since
from app.ui.kept import KeptSettings, key_of
from app.ui.names import model_title, title
from app.ui.pages.chat.speeds import Speeds
from app.ui.replies import Writings
from app.ui.settings import Settings
from app.ui.view import View
from app.ui.words import Words
from engine.api import Loaded
from engine.errors import InvalidRequest, NotLoaded
from engine.loading.catalog import EMBEDDED
from engine.loading.fit import human
from engine.loading.hub import Progress
from engine.loading.watching import LoadProgress


class ChatBackend:
    """Chats and replies of one running app."""

    def __init__(self, runtime: Runtime, store: Store) -> None:
        self.runtime = runtime
        self.store = store
        self.defaults = Defaults(runtime.data_dir)
        self.kept = KeptSettings(store, self.defaults, runtime.engine)
        self.writings = Writings(store)
        self.speeds = Speeds()
        self._turns = threading.Lock()

    # ---- questions with one answer

    def boot(self, data: View) -> View:
        """What a page that was just opened needs: ``chat`` is the one it showed last."""
        chat = data.get("chat")
        if chat is not None and not self.store.has_chat(int(chat)):
            chat = None
        kept = {"chats": self.chats(), "chat": self.chat(chat), "notice": self.store.notice}
        return {**self.status(), **kept}

    def speed(self) -> float | None:
        """Tokens/s of what is loaded, as replies here were at their fastest; None before the first."""
        loaded = self.runtime.engine.loaded
        return None if loaded is None else self.speeds.fastest(key_of(loaded))

    def status(self, data: View | None = None) -> View:
        """Which model answers, and whether one is being opened."""
        status = self.runtime.loader.status
        working = status.state is LoadState.WORKING
        failed = status.state is LoadState.FAILED
        looking = self.runtime.found.working  # asked first: the last version is told with its end
        return {
            "loaded": self._loaded(),
            "opening": Words.opening(title(status.name), status.message) if working else None,
            "waits": self.waits,
            "settings": self.kept.version,
            "progress": show_progress(status.progress) if working else None,
            "cancelling": status.cancelling,
            "failed": status.message if failed else None,
            "found": self.runtime.found.version,
            "looking": looking,
        }

    @property
    def waits(self) -> bool:
        """Whether a message waits for what is being opened. While that is downloaded, what is loaded
        answers."""
        status, loaded = self.runtime.loader.status, self.runtime.engine.loaded
        downloading = isinstance(status.progress, Progress)
        return status.state is LoadState.WORKING and not (downloading and loaded is not None)

    def cancel_loading(self, data: View | None = None) -> bool:
        """End what is being opened; what is loaded stays."""
        self.runtime.loader.cancel()
        return self.runtime.loader.working

    def _loaded(self) -> View | None:
        loaded = self.runtime.engine.loaded
        found, measured = describe(loaded), self.defaults.of(loaded)
        if found and measured:
            found["detail"] += f"\n{Words.measured_default(str(measured))}"
        return found

    def chats(self, data: View | None = None) -> list[View]:
        return [{"id": chat.id, "title": chat.title} for chat in self.store.chats()]

    def chat(self, chat: int | None) -> View | None:
        """One chat with its messages, and the reply being written in it."""
        if chat is None:
            return None
        chat = int(chat)
        writing = self.writings.of_chat(chat)
        messages = [show_message(message) for message in self.store.messages(chat)]
        running = None
        # A reply may outlive its message: one that does not stop is deleted with the rest of the chat.
        if writing and any(message["id"] == writing.message for message in messages):
            running = {"run": writing.run, "message": writing.message}
        return {"id": chat, "messages": messages, "running": running}

    def open_chat(self, data: View) -> View:
        chat = int(data["chat"])
        found = self.chat(chat) if self.store.has_chat(chat) else None
        return {"chats": self.chats(), "chat": found}

    def search_chats(self, data: View) -> list[int]:
        """The chats whose title or messages hold all the words."""
        return list(self.store.search(str(data["text"])))

    def export_chat(self, data: View) -> View:
        """A chat as a file: its name and text. ``form``: markdown or json."""
        return chat_files.written(self.store, int(data["chat"]), str(data["form"]))

    def import_chat(self, data: View) -> View:
        """A new chat of an exported one. Raises InvalidRequest for a file that is none."""
        chat = chat_files.read(self.store, str(data["text"]))
        return {"chats": self.chats(), "chat": self.chat(chat)}

    def rename_chat(self, data: View) -> list[View]:
        self.store.rename(int(data["chat"]), str(data["title"]))
        return self.chats()

    def delete_chat(self, data: View) -> list[View]:
        chat = int(data["chat"])
        with self._turns:
            self._stop_chat(chat)
            self.store.delete(chat)
        return self.chats()

    def clear_chat(self, data: View) -> View | None:
        if data.get("chat") is None:
            return None
        chat = int(data["chat"])
        with self._turns:
            self._stop_chat(chat)
            self.store.clear(chat)
        return self.chat(chat)

    def stop(self, data: View) -> bool:
        writing = self.writings.find(int(data["run"]))
        if writing is not None:
            writing.stop()
        return writing is not None

    async def follow(self, data: View) -> View | None:
        """What came of a reply since the page asked last; None when it is known no more."""
        writing = self.writings.find(int(data["run"]))
        return await since(writing.feed, int(data["from"])) if writing else None

    def rounds(self, data: View) -> View:
        """The lanes and totals of a finished reply."""
        lines = self.store.trace(int(data["message"]))
        shown, totals = view.rounds(lines)
        return {"rounds": shown, "stats": totals if shown else None}

    def export_reply(self, data: View) -> View:
        """A finished reply as a file: ``form`` html or jsonl."""
        message = int(data["message"])
        lines = self.store.trace(message)
        if data["form"] == "jsonl":
            return {"name": f"reply-{message}.jsonl", "text": "".join(f"{x}\n" for x in lines)}
        return {"name": f"reply-{message}.html", "text": replay_file.page(lines)}

    def _stop_chat(self, chat: int) -> None:
        writing = self.writings.of_chat(chat)
        if writing is not None:
            writing.stop()
            writing.done.wait(timeout=5)

    # ---- replies

    def act(self, data: View, settings: Settings) -> View:
        """Send, retry or edit; tells the page the run to follow and what changed in the chat."""
        with self._turns:
            return self._act(data, settings)

    def _act(self, data: View, settings: Settings) -> View:
        chat = int(data["chat"]) if data.get("chat") else None
        if chat is not None and not self.store.has_chat(chat):
            chat = None
        if chat is not None and self.writings.of_chat(chat) is not None:
            raise InvalidRequest("messages", Words.BUSY)
        kept, text = self._kept(data, self.store.messages(chat) if chat else ())
        loaded = self.runtime.engine.loaded
        if loaded is None:
            opening = self.runtime.loader.status.state is LoadState.WORKING
            raise NotLoaded(Words.STILL_LOADING if opening else Words.NOT_LOADED)
        pairs = [(message.role, message.text) for message in kept]
        if text is not None:
            pairs.append(("user", text))
        request = settings.request(history(pairs, settings.system))
        generation = self.runtime.engine.generate(request)
        try:
            if chat is None:
                chat = self.store.new_chat()
            keep = kept[-1].id if kept else 0
            user, reply = self.store.begin_turn(chat, text, keep=keep)
            writing = self.writings.start(generation, chat, reply)
            self.speeds.add(key_of(loaded), request.speculation.proposer, writing)
        except BaseException:  # nobody would read it, and others would wait behind it
            generation.cancel()
            raise
        return {
            "run": writing.run,
            "chat": chat,
            "chats": self.chats(),
            "kept": [message.id for message in kept],
            "user": {"id": user, "role": "user", "text": text} if user else None,
            "reply": {"id": reply, "role": "assistant", "text": "", "status": "running"},
        }

    @staticmethod
    def _kept(
        data: View, messages: tuple[StoredMessage, ...]
    ) -> tuple[tuple[StoredMessage, ...], str | None]:
        """The messages that stay, and the user's new text if any.

        Raises InvalidRequest where the message was replaced meanwhile, from another page perhaps: what
        stands in its place is not what is to go.
        """
        action = data["action"]
        if action == "send":
            return messages, _text(data)
        edited, wanted = action == "edit", int(data["message"])
        role = "user" if edited else "assistant"
        here = (index for index, m in enumerate(messages) if (m.id, m.role) == (wanted, role))
        place = next(here, None)
        before = messages[:place]
        if place is None or not (edited or (before and before[-1].role == "user")):
            raise InvalidRequest("messages", Words.GONE)
        return before, _text(data) if edited else None


def _text(data: View) -> str:
    text = str(data.get("text") or "")
    if not text.strip():
        raise InvalidRequest("messages", Words.EMPTY)
    return text


def show_message(message: StoredMessage) -> View:
    """A stored message as the page reads it."""
    return {
        "id": message.id,
        "role": message.role,
        "text": message.text,
        "marks": message.marks,
        "status": message.status,
        "error": message.error,
        "stats": view.kept_totals(message.statistics) if message.statistics else None,
    }


def show_progress(progress: Progress | LoadProgress | None) -> View | None:
    """How far a download or a load is, as the pages read it: ``share`` None where nobody knows."""
    if progress is None:
        return None
    if isinstance(progress, LoadProgress):
        return {
            "doing": STAGES[progress.stage],
            "done": human(progress.bytes),
            "total": human(progress.total),
            "share": progress.fraction,
            "speed": None,
            "eta": None,
        }
    return {
        "doing": None,
        "done": human(progress.bytes),
        "total": human(progress.total),
        "share": progress.fraction,
        "speed": f"{human(int(progress.bytes_per_s))}/s",
        "eta": None if progress.eta_s is None else Words.duration(progress.eta_s),
    }


def describe(loaded: Loaded | None) -> View | None:
    """The loaded pair in a few words."""
    if loaded is None:
        return None
    return {
        "name": loaded.name,
        "id": loaded.id,
        "title": title(loaded.name),
        "greeting": model_title(loaded.target_name),
        "pip": loaded.target_id == EMBEDDED,
        "target": loaded.target_id,
        "draft": loaded.draft_id,
        "label": Words.loaded(loaded.name, loaded.draft),
        "detail": Words.loaded_detail(loaded),
        "context": loaded.context,
        "proposers": list(loaded.capabilities.names),
    }
