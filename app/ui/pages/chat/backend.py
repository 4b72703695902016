"""The replies of the chat page, and its other backends. Plain values: no Gradio, no HTML.

Every answer is JSON. Mistakes of users raise ``ForetokenError``, whose text the page shows.
"""

from __future__ import annotations

import functools
import operator
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.loading import LoadState
from app.runtime import Runtime
from app.settings.defaults import Defaults
from app.settings.settings_file import SettingsFile
from app.storage.rows import ChatTools, StoredMessage, SystemPrompt
from app.storage.store import Store
from app.ui import words
from app.ui.controls.panel import settings_of
from app.ui.controls.pickers import Pickers
from app.ui.controls.settings import Settings
from app.ui.controls.stored_settings import FILE, StoredSettings, key_of
from app.ui.endpoints import View, endpoint
from app.ui.pages.chat.chats import ChatsBackend, show_message
from app.ui.pages.chat.composer.attachments import Attachments
from app.ui.pages.chat.library import Library
from app.ui.pages.chat.pair import pair_of
from app.ui.pages.chat.status import StatusBackend
from app.ui.pages.chat.titles import Titles
from app.ui.pages.chat.tools.backend import ChatToolsBackend, with_tools
from app.ui.pages.chat.turn import edited_events, last_turn, turn_of, turns
from app.ui.replies import LiveReplies
from app.ui.rounds import replay_file, view
from app.ui.rounds.feed import since
from app.ui.rounds.speeds import Speeds
from app.ui.words import pair as pair_words
from app.ui.words.names import title
from engine import trace
from engine.api import Generation, Loaded
from engine.errors import ContextExceeded, ForetokenError, InvalidRequest, NotLoaded
from engine.events import Event, Failed, Finished, Started
from engine.reply import ReplyState
from engine.stats import Statistics
from engine.values.tools import Tool


class ChatBackend:
    """The replies of one running app. ``chats``, ``library``, ``attachments``, ``tools`` and ``loading``
    have the endpoints of the other parts."""

    def __init__(self, runtime: Runtime, store: Store) -> None:
        self.runtime = runtime
        self.store = store
        defaults, file = Defaults(runtime.data_dir), SettingsFile(runtime.data_dir / FILE)
        self.stored = StoredSettings(file, defaults, runtime.engine)
        self.loading = StatusBackend(runtime, store, self.stored, defaults)
        self.live_replies = LiveReplies(store, runtime.others)
        self.speeds = Speeds()
        self.library = Library(store, file)
        self.chats = ChatsBackend(
            store, self.live_replies, self.library, lambda: Pickers(runtime).titles_here()
        )
        self.attachments = Attachments(store, runtime.engine)
        self.tools = ChatToolsBackend(
            runtime.tools, store, self.live_replies, lambda: runtime.engine.loaded
        )
        self.titles = Titles(runtime, store, lambda: self.stored.now().settings)
        self._begun: deque[tuple[str, int]] = deque(maxlen=64)
        """The last requests for replies, by the tickets that pages gave them, and their chats."""

    @endpoint
    def boot(self, data: View) -> View:
        """Return what a page that was just opened needs; ``chat`` is the one it showed last, ``ticket``
        that of the request that it was reloaded during, ``begun`` the chat of its reply."""
        begun = None
        if ticket := data.get("ticket"):
            with self.chats.turns:  # its reply may be about to begin
                begun = dict(self._begun).get(ticket)
        chat = data.get("chat") or begun
        if chat is not None and not self.store.has_chat(int(chat)):
            chat = None
        notice = self.store.notice or self.runtime.loader.status.note
        kept = {"chat": self.chats.shown(chat), "notice": notice, "begun": begun}
        prompts = {"prompts": self.library.prompts()}
        return {**self.loading.status(), **self.library.listing(), **prompts, **kept}

    def speed(self) -> float | None:
        """Return the loaded pair's tokens/s by its fastest proposer; None before the first reply."""
        loaded = self.runtime.engine.loaded
        return None if loaded is None else self.speeds.fastest(key_of(loaded))

    @endpoint
    def stop(self, data: View) -> bool:
        writing = self.live_replies.find(int(data["run"]))
        if writing is not None:
            self.live_replies.stop_chat(writing.chat)
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

    # ---- replies

    @endpoint
    def act(self, data: View) -> View:
        """Send, retry, edit or continue, with the settings that came with it.

        ``changed`` says what the loaded pair cannot do. ``waits``: the page sends it again once the model
        is loaded, and servers of tools are ready, which ``starting`` names. ``off``: servers that a new
        chat does not use.
        """
        self.runtime.idle.touch()
        if self.loading.waits or self.runtime.loader.load_again():
            return {"waits": True}
        chat, off = data.get("chat"), data.get("off") or ()
        if starting := self.tools.prepare(chat, off):
            return {"waits": True, "starting": starting}
        pair, sent = self.stored.pair(), data.get("settings")
        if sent is None:  # the page did not know any settings yet
            served = self.stored.now()
        else:
            settings = settings_of(sent, pair.capabilities if pair else None)
            served = self.stored.resolve_for_page(settings, data.get("pair"))
        changed = [*served.changes, *self.tools.missing(chat, off)]
        begun = self.reply(data, served.settings)
        return {**begun, "changed": [*changed, *begun.pop("notes", ())]}

    def reply(self, data: View, settings: Settings) -> View:
        """Begin a reply; tell the page the run to follow and what changed in the chat.

        ``full``: nothing was sent, because the chat is longer than the context. The page asks again with
        ``drop`` "oldest", or once something was left out. Of a request that was sent before the page was
        reloaded, only the chat is returned.
        """
        ticket = data.get("ticket") or ""
        with self.chats.turns:
            if begun := dict(self._begun).get(ticket):
                return {"chat": begun, **self.library.listing()}
            if data.get("chat"):
                self.chats.refuse_running(int(data["chat"]))
            answer = self._reply(data, settings)
            if ticket and "chat" in answer:
                self._begun.append((ticket, answer["chat"]))
            return answer

    def _proceed(
        self, chat: int, settings: Settings, number: int, message: int, stopped: Callable[[], bool]
    ) -> View:
        """Begin the reply to the results of the calls of ``message``, the ``number``-th of its turn.

        What goes wrong becomes a failed reply, since nobody waits for this method's answer.
        """
        self.runtime.idle.touch()
        self.runtime.loader.load_again()  # a question may have waited until nobody needed the model
        while self.loading.waits or not self.chats.turns.acquire(timeout=0.1):
            if stopped():  # perhaps by who holds the lock
                return {}
            time.sleep(0.05)
        try:
            if stopped():
                return {}
            data = {"action": "continue", "chat": chat, "message": message}
            try:
                begun = self._reply(data, settings, number)
                why = begun.get("full")
            except ForetokenError as error:
                why = str(error)
            if why is None:
                return {"run": begun["run"], "message": begun["reply"]["id"]}
            _, reply = self.store.begin_turn(chat, None, keep=message)
            self.store.save_reply(reply, text="", marks="", status="failed", error=why)
            return {"run": None, "message": reply}
        finally:
            self.chats.turns.release()

    def _reply(self, data: View, settings: Settings, number: int = 1) -> View:
        chat = int(data["chat"]) if data.get("chat") else None
        if chat is not None and not self.store.has_chat(chat):
            chat = None
        files = self.attachments.given(data.get("files"))
        earlier = self.store.with_pictures(self.chats.messages(chat)) if chat else ()
        kept, turn = turn_of(data, earlier, files)
        loaded = self.runtime.engine.loaded
        if loaded is None:
            opening = self.runtime.loader.status.state is LoadState.WORKING
            raise NotLoaded(
                "The model is still loading. Send again when it is ready."
                if opening
                else words.NOT_LOADED
            )
        before = self._written(data, kept, loaded)
        if before:
            turn = replace(turn, begun=ReplyState.of(before))
        system = self._system(data, chat)
        asked = settings if system is None else replace(settings, system=system.text)
        off = data.get("off") or ()

        def proceed(message: int, stopped: Callable[[], bool]) -> View:
            return self._proceed(int(chat or 0), settings, number + 1, message, stopped)

        def generate(tools: Sequence[Tool]) -> tuple[Generation, list[int]]:
            oldest = data.get("drop") == "oldest"
            engine = self.runtime.engine
            made = turn.generate(engine, loaded.context, asked, kept, oldest=oldest, tools=tools)
            self.runtime.learning.follow(made[0], loaded)
            return made

        tools = self.tools.turn(chat, off, number, proceed)
        try:
            (generation, left_out), tools, notes = with_tools(generate, tools)
        except ContextExceeded as error:
            if not turns(kept[:-1] if turn.text is None else kept):
                if before:
                    raise InvalidRequest(
                        "messages",
                        "This reply cannot go on: the context is full. Load a model with a longer "
                        "context, or start a new chat.",
                    ) from None
                raise  # the message alone is too long
            return {"full": str(error)}
        request = generation.request
        try:
            if chat is None:
                chat = self.store.new_chat(system=system)
                self.store.use_tools(chat, ChatTools(off=frozenset(off)))
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
                    method=pair_words.method(settings),
                )
            pair = pair_of(loaded)
            writing = self.live_replies.start(
                generation,
                chat,
                reply,
                pair,
                before,
                tools,
                earlier_in(kept if turn.text is None else ()),
            )
            self.titles.note(chat, anew=not kept)
            self.speeds.add(key_of(loaded), request.speculation.proposer, writing)
        except BaseException:  # nobody would read it, and others would wait behind it
            generation.cancel()
            raise
        shown = {each.id: show_message(each) for each in self.store.messages(chat)[-2:]}
        return {
            "run": writing.run,
            "notes": notes,
            "chat": chat,
            **self.library.listing(),
            "kept": [*(message.id for message in kept), *([reply] if before else [])],
            "left_out": left_out,
            "user": shown.get(user or 0),
            "reply": {**shown[reply], "text": "", "status": "running", "stats": None, "pair": pair},
        }

    def _written(self, data: View, kept: Sequence[StoredMessage], loaded: Loaded) -> list[Event]:
        """Return the events of the reply to continue, without its end; none for a new reply, also one
        to results of tools.

        Raises InvalidRequest if the loaded pair cannot continue it.
        """
        if data["action"] != "continue" or (kept and kept[-1].calls is not None):
            return []
        events = self._events(int(data["chat"]), int(data["message"]), loaded)
        begun: list[Event] = [e for e in events if not isinstance(e, Finished | Failed)]
        started = next((e for e in begun if isinstance(e, Started)), None)
        if started is None or started.model != loaded.target or not ReplyState.of(begun).tokens:
            raise InvalidRequest(
                "messages",
                "The loaded model cannot continue this reply: another model wrote it, or its "
                "tokens were not stored. Load the model named below the reply, or press Retry.",
            )
        return begun

    def _events(self, chat: int, message: int, loaded: Loaded) -> list[Event]:
        """Return the events of a reply; of an edited one such as its text might have come of."""
        events = [*trace.read(self.store.trace(message))]
        found = next((each for each in self.store.messages(chat) if each.id == message), None)
        if events or found is None or not found.edited:
            return events
        tokens = self.runtime.engine.tokenize([found.text])
        return [*edited_events(found, loaded.target, tokens[0])] if tokens and tokens[0] else []

    def _system(self, data: View, chat: int | None) -> SystemPrompt | None:
        if chat is None:
            return self.library.system_named(data.get("preset"))
        return self.store.system_of(chat)


def earlier_in(kept: Sequence[StoredMessage]) -> Statistics | None:
    """Return the sum over the replies before one that answers results of tools; None for another."""
    if not kept or kept[-1].role == "user":
        return None
    replies = [each for each in last_turn(kept) if each.role == "assistant"]
    figures = [view.statistics_of(each.statistics or {}) for each in replies]
    return functools.reduce(operator.add, figures)
