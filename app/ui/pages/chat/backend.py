"""The chat page's backend. Plain values: no Gradio, no HTML.

Every answer is JSON. Mistakes of users raise ``ForetokenError``, whose text the page shows.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from app.loading import STAGES, LoadState
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.settings.settings_file import SettingsFile
from app.storage import chat_files
from app.storage.rows import StoredMessage, SystemPrompt
from app.storage.store import Store
from app.ui import replay_file
from app.ui.controls.panel import settings_of
from app.ui.controls.settings import Settings
from app.ui.controls.stored_settings import FILE, StoredSettings, key_of
from app.ui.endpoints import endpoint
from app.ui.pages.chat.library import Library
from app.ui.pages.chat.pair import pair_of
from app.ui.pages.chat.turn import turn_of, turns
from app.ui.replies import LiveReplies
from app.ui.rounds import view
from app.ui.rounds.feed import since
from app.ui.rounds.speeds import Speeds
from app.ui.rounds.view import View
from app.ui.words import Words
from app.ui.words import pair as pair_words
from app.ui.words.names import model_title, title
from engine import trace
from engine.api import NO_TEMPLATE, DownloadProgress, Loaded, LoadProgress
from engine.errors import ContextExceeded, InvalidRequest, NotLoaded
from engine.events import Event, Failed, Finished, Started
from engine.loading.inventory import EMBEDDED
from engine.reply import ReplyState
from engine.values.units import format_bytes


class ChatBackend:
    """Chats and replies of one running app."""

    def __init__(self, runtime: Runtime, store: Store) -> None:
        self.runtime = runtime
        self.store = store
        self.defaults = Defaults(runtime.data_dir)
        file = SettingsFile(runtime.data_dir / FILE)
        self.stored = StoredSettings(file, self.defaults, runtime.engine)
        self.live_replies = LiveReplies(store)
        self.speeds = Speeds()
        self.library = Library(store, file)
        self._turns = threading.Lock()

    # ---- questions with one answer

    @endpoint
    def boot(self, data: View) -> View:
        """Return what a page that was just opened needs; ``chat`` is the one it showed last."""
        chat = data.get("chat")
        if chat is not None and not self.store.has_chat(int(chat)):
            chat = None
        notice = self.store.notice or self.runtime.loader.status.note
        kept = {"chat": self.chat(chat), "notice": notice}
        prompts = {"prompts": self.library.prompts()}
        return {**self.status(), **self.library.listing(), **prompts, **kept}

    def speed(self) -> float | None:
        """Return the loaded pair's tokens/s by its fastest proposer; None before the first reply."""
        loaded = self.runtime.engine.loaded
        return None if loaded is None else self.speeds.fastest(key_of(loaded))

    @endpoint
    def status(self, data: View | None = None) -> View:
        """Return what is loaded and what is being loaded."""
        status = self.runtime.loader.status
        working = status.state is LoadState.WORKING
        failed = status.state is LoadState.FAILED
        looking = self.runtime.found.working  # asked first: the last version is told with its end
        return {
            "loaded": self._loaded(),
            "opening": Words.opening(title(status.name), status.message) if working else None,
            "waits": self.waits,
            "settings": self.stored.version,
            "written": self.store.written(),
            "progress": show_progress(status.progress) if working else None,
            "cancelling": status.cancelling,
            "failed": status.message if failed else status.note or None,
            "found": self.runtime.found.version,
            "looking": looking,
        }

    @property
    def waits(self) -> bool:
        """True while a message waits for a load. During a download the loaded pair still answers."""
        status, loaded = self.runtime.loader.status, self.runtime.engine.loaded
        downloading = isinstance(status.progress, DownloadProgress)
        return status.state is LoadState.WORKING and not (downloading and loaded is not None)

    @endpoint
    def cancel_loading(self, data: View | None = None) -> bool:
        """Cancel the load; keep what is loaded."""
        self.runtime.loader.cancel()
        return self.runtime.loader.working

    def _loaded(self) -> View | None:
        loaded = self.runtime.engine.loaded
        found, measured = describe(loaded), self.defaults.of(loaded)
        if found and measured:
            found["detail"] += f"\n{pair_words.measured_default(str(measured))}"
        return found

    def chat(self, chat: int | None) -> View | None:
        """Return one chat with its messages and the reply being written in it."""
        if chat is None:
            return None
        chat = int(chat)
        writing = self.live_replies.of_chat(chat)
        messages = [show_message(message) for message in self._messages(chat)]
        running = None
        # A reply may outlive its message: one that does not stop is deleted with the rest of the chat.
        if writing and any(message["id"] == writing.message for message in messages):
            running = {"run": writing.run, "message": writing.message}
        system = self.store.system_of(chat)
        return {
            "id": chat,
            "messages": messages,
            "running": running,
            "system": system and {"name": system.name, "text": system.text},
        }

    def _messages(self, chat: int) -> tuple[StoredMessage, ...]:
        return tuple(map(self.live_replies.now, self.store.messages(chat)))

    @endpoint
    def open_chat(self, data: View) -> View:
        chat = int(data["chat"])
        found = self.chat(chat) if self.store.has_chat(chat) else None
        return {**self.library.listing(), "chat": found}

    @endpoint
    def import_chat(self, data: View) -> View:
        """Make a chat of an exported one. Raises InvalidRequest for another kind of file."""
        chat = chat_files.read(self.store, str(data["text"]))
        return {**self.library.listing(), "chat": self.chat(chat)}

    @endpoint
    def use_system(self, data: View) -> View | None:
        """Set the system prompt of one chat by name; none means that of the settings."""
        chat = int(data["chat"])
        self.store.use_system(chat, self.library.system_named(data.get("name")))
        return self.chat(chat)

    # ---- branches, and what is deleted or left out

    @endpoint
    def show_branch(self, data: View) -> View | None:
        """Show another version of a message."""
        chat, message = int(data["chat"]), int(data["message"])
        with self._turns:
            self._refuse_running(chat)
            if not any(message in each.siblings for each in self.store.messages(chat)):
                raise InvalidRequest("messages", Words.GONE)
            self.store.show_branch(message)
        return self.chat(chat)

    @endpoint
    def leave_out(self, data: View) -> View | None:
        """Leave messages out of what the model gets, or give them again."""
        chat, wanted = int(data["chat"]), {int(each) for each in data["messages"]}
        here = [each.id for each in self.store.messages(chat) if each.id in wanted]
        self.store.leave_out(here, bool(data["out"]))
        return self.chat(chat)

    @endpoint
    def delete_message(self, data: View) -> View:
        """Delete a message with all that follows; ``deleted`` restores it."""
        chat, message = int(data["chat"]), int(data["message"])
        with self._turns:
            self._refuse_running(chat)
            if not any(each.id == message for each in self.store.messages(chat)):
                raise InvalidRequest("messages", Words.GONE)
            deleted = self.store.delete_message(message)
        return {"deleted": deleted, "chat": self.chat(chat)}

    @endpoint
    def delete_chat(self, data: View) -> View:
        chat = int(data["chat"])
        with self._turns:
            self._stop_chat(chat)
            deleted = self.store.delete(chat)
        return {"deleted": deleted, **self.library.listing()}

    @endpoint
    def clear_chat(self, data: View) -> View | None:
        if data.get("chat") is None:
            return None
        chat = int(data["chat"])
        with self._turns:
            self._stop_chat(chat)
            deleted = self.store.clear(chat)
        return {"deleted": deleted, "chat": self.chat(chat)}

    @endpoint
    def restore(self, data: View) -> View:
        """Undo a deletion. Raises InvalidRequest if it is too late."""
        with self._turns:
            chat = self.store.restore(float(data["deleted"]))
        if chat is None or not self.store.has_chat(chat):
            raise InvalidRequest("chat", Words.TOO_LATE)
        return {**self.library.listing(), "chat": self.chat(chat)}

    def _refuse_running(self, chat: int) -> None:
        if self.live_replies.of_chat(chat) is not None:
            raise InvalidRequest("messages", Words.BUSY)

    @endpoint
    def stop(self, data: View) -> bool:
        writing = self.live_replies.find(int(data["run"]))
        if writing is not None:
            writing.stop()
        return writing is not None

    @endpoint
    async def follow(self, data: View) -> View | None:
        """Return the reply's events since the page asked last; None if the reply is no longer known."""
        writing = self.live_replies.find(int(data["run"]))
        return await since(writing.feed, int(data["from"])) if writing else None

    @endpoint
    def rounds(self, data: View) -> View:
        """Return the rounds and totals of a finished reply."""
        lines = self.store.trace(int(data["message"]))
        shown, totals = view.rounds(lines)
        return {"rounds": shown, "stats": totals if shown else None}

    @endpoint
    def export_reply(self, data: View) -> View:
        """Return a finished reply as a file; ``form`` is html or jsonl."""
        message = int(data["message"])
        lines = self.store.trace(message)
        if data["form"] == "jsonl":
            return {"name": f"reply-{message}.jsonl", "text": "".join(f"{x}\n" for x in lines)}
        return {"name": f"reply-{message}.html", "text": replay_file.page(lines)}

    def _stop_chat(self, chat: int) -> None:
        writing = self.live_replies.of_chat(chat)
        if writing is not None:
            writing.stop()
            writing.done.wait(timeout=5)

    # ---- replies

    @endpoint
    def act(self, data: View) -> View:
        """Send, retry, edit or continue, with the settings that came with it.

        ``changed`` says what the loaded pair cannot do. ``waits``: the page sends it again once the model
        is loaded.
        """
        if self.waits:
            return {"waits": True}
        pair, sent = self.stored.pair(), data.get("settings")
        if sent is None:  # the page did not know any settings yet
            served = self.stored.now()
        else:
            settings = settings_of(sent, pair.capabilities if pair else None)
            served = self.stored.resolve_for_page(settings, data.get("pair"))
        return {"changed": list(served.changes), **self.reply(data, served.settings)}

    def reply(self, data: View, settings: Settings) -> View:
        """Begin a reply; tell the page the run to follow and what changed in the chat.

        ``full``: nothing was sent, because the chat is longer than the context. The page asks again with
        ``drop`` "oldest", or once something was left out.
        """
        with self._turns:
            return self._reply(data, settings)

    def _reply(self, data: View, settings: Settings) -> View:
        chat = int(data["chat"]) if data.get("chat") else None
        if chat is not None and not self.store.has_chat(chat):
            chat = None
        if chat is not None:
            self._refuse_running(chat)
        kept, turn = turn_of(data, self._messages(chat) if chat else ())
        loaded = self.runtime.engine.loaded
        if loaded is None:
            opening = self.runtime.loader.status.state is LoadState.WORKING
            raise NotLoaded(Words.STILL_LOADING if opening else Words.NOT_LOADED)
        before = self._written(data, loaded)
        if before:
            turn = replace(turn, begun=ReplyState.of(before))
        system = self._system(data, chat)
        asked = settings if system is None else replace(settings, system=system.text)
        try:
            generation, left_out = turn.generate(
                self.runtime.engine,
                loaded.context,
                asked,
                kept,
                oldest=data.get("drop") == "oldest",
            )
        except ContextExceeded as error:
            if not turns(kept[:-1] if turn.text is None else kept):
                raise  # the message alone is too long
            return {"full": str(error)}
        request = generation.request
        try:
            if chat is None:
                chat = self.store.new_chat(system=system)
            self.store.leave_out(left_out)
            if turn.text is None:  # a question that is answered anew is given again
                self.store.leave_out([kept[-1].id], False)
            if before:
                user, reply = None, int(data["message"])
                self.store.go_on(chat, reply)
            else:
                user, reply = self.store.begin_turn(
                    chat,
                    turn.text,
                    keep=kept[-1].id if kept else 0,
                    files=turn.files,
                    model=title(loaded.name),
                    method=pair_words.method(settings, False),
                )
            pair = pair_of(loaded)
            writing = self.live_replies.start(generation, chat, reply, pair, before)
            self.speeds.add(key_of(loaded), request.speculation.proposer, writing)
        except BaseException:  # nobody would read it, and others would wait behind it
            generation.cancel()
            raise
        shown = {each.id: show_message(each) for each in self.store.messages(chat)[-2:]}
        return {
            "run": writing.run,
            "chat": chat,
            **self.library.listing(),
            "kept": [*(message.id for message in kept), *([reply] if before else [])],
            "left_out": left_out,
            "user": shown.get(user or 0),
            "reply": {**shown[reply], "text": "", "status": "running", "stats": None, "pair": pair},
        }

    def _written(self, data: View, loaded: Loaded) -> list[Event]:
        """Return the events of the reply to continue, without its end; none for a new reply.

        Raises InvalidRequest if the loaded pair cannot continue it.
        """
        if data["action"] != "continue":
            return []
        events = [*trace.read(self.store.trace(int(data["message"])))]
        begun: list[Event] = [e for e in events if not isinstance(e, Finished | Failed)]
        started = next((e for e in begun if isinstance(e, Started)), None)
        if started is None or started.model != loaded.target or not ReplyState.of(begun).tokens:
            raise InvalidRequest("messages", Words.CANNOT_GO_ON)
        return begun

    def _system(self, data: View, chat: int | None) -> SystemPrompt | None:
        if chat is None:
            return self.library.system_named(data.get("preset"))
        return self.store.system_of(chat)


def show_message(message: StoredMessage) -> View:
    """Return a stored message as the page reads it."""
    return {
        "id": message.id,
        "role": message.role,
        "text": message.text,
        "marks": message.marks,
        "status": message.status,
        "error": message.error,
        "stats": view.stored_totals(message.statistics) if message.statistics else None,
        "thought": view.thought(message.text, message.parts, *_measured_thought(message)),
        "beside": message.siblings,
        "left_out": message.left_out,
        "files": [{"name": file.name, "text": file.text} for file in message.files],
        "writer": Words.writer(message.model, message.method),
        "model": message.model,
        "pair": (message.statistics or {}).get("pair"),
    }


def _measured_thought(message: StoredMessage) -> tuple[float | None, int | None]:
    """Return how long a reply's thought took, and how many tokens it has, as far as that is stored."""
    known = (message.statistics or {}).get("thought")
    stored = known if isinstance(known, dict) else {}
    seconds, tokens = stored.get("seconds"), stored.get("tokens")
    return (
        seconds if isinstance(seconds, int | float) else None,
        tokens if type(tokens) is int else None,
    )


def show_progress(progress: DownloadProgress | LoadProgress | None) -> View | None:
    """Return how far a download or load is; ``share`` is None if that is unknown."""
    if progress is None:
        return None
    if isinstance(progress, LoadProgress):
        return {
            "doing": STAGES[progress.stage],
            "done": format_bytes(progress.bytes),
            "total": format_bytes(progress.total),
            "share": progress.fraction,
            "speed": None,
            "eta": None,
        }
    return {
        "doing": None,
        "done": format_bytes(progress.bytes),
        "total": format_bytes(progress.total),
        "share": progress.fraction,
        "speed": f"{format_bytes(int(progress.bytes_per_s))}/s",
        "eta": None if progress.eta_s is None else Words.duration(progress.eta_s),
    }


def describe(loaded: Loaded | None) -> View | None:
    """Return what the page shows of the loaded pair."""
    if loaded is None:
        return None
    return {
        "name": loaded.name,
        "id": loaded.id,
        "title": title(loaded.name),
        "greeting": model_title(loaded.target_name),
        "pip": loaded.target_id == EMBEDDED,
        "base": NO_TEMPLATE in loaded.notes,
        "target": loaded.target_id,
        "draft": loaded.draft_id,
        "label": pair_words.label(title(loaded.name), loaded),
        "detail": pair_words.loaded_detail(loaded),
        "context": loaded.context,
        "proposers": list(loaded.capabilities.names),
    }
