"""The tools of a chat. Plain values: no Gradio, no HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from app.mcp.config import ServerConfig
from app.mcp.limits import result_length
from app.mcp.runner import Answer, Toolbox
from app.mcp.servers import McpServers, ServerState
from app.mcp.tools import fitting
from app.storage.rows import ChatTools
from app.storage.store import Store
from app.ui import words
from app.ui.endpoints import View, endpoint
from app.ui.replies import LiveReplies
from app.ui.rounds.reply_calls import ToolTurn
from app.ui.words import tools as tool_words
from app.ui.words.names import model_title
from engine.api import Loaded
from engine.errors import InvalidRequest
from engine.values.tools import Tool

T = TypeVar("T")


class ChatToolsBackend:
    """Which servers the chats use, and what users say to calls."""

    def __init__(
        self,
        servers: McpServers,
        store: Store,
        live_replies: LiveReplies,
        loaded: Callable[[], Loaded | None],
    ) -> None:
        self.servers, self.file = servers, servers.file
        self._store, self._live_replies, self._loaded = store, live_replies, loaded

    # ---- for the page

    @endpoint
    def chat_tools(self, data: View) -> View:
        """Return the servers as a chat uses them. ``chat`` None: a new chat; ``off``: names of servers
        that it is not to use."""
        used = self._tools(data.get("chat"), data.get("off") or ())
        return {
            "refusal": self._refusal(),
            "servers": [self._show(state, used) for state in self.servers.states()],
        }

    @endpoint
    def use_server(self, data: View) -> View:
        """Turn a server on or off in a chat, or trust it there."""
        if data["chat"] is None or not self._store.has_chat(int(data["chat"])):
            raise InvalidRequest("chat", words.GONE)
        chat, name = int(data["chat"]), str(data["name"])
        config = self._config(name)
        tools = self._store.tools_of(chat)
        if data.get("on") is not None:
            tools = replace(tools, off=_with(tools.off, name, not data["on"]))
        if data.get("trusted") is not None:
            tools = replace(tools, trusted=_with(tools.trusted, config.mark, bool(data["trusted"])))
        self._store.use_tools(chat, tools)
        return self.chat_tools(data)

    @endpoint
    def answer_call(self, data: View) -> bool:
        """Answer for a call that waits: ``once``, ``trust`` or ``refuse`` with a reason in ``text``.

        Return False if it does not wait any more: another page has answered.
        """
        writing = self._live_replies.find(int(data["run"]))
        if writing is None:
            return False
        if data["answer"] not in set(Answer):
            raise InvalidRequest("answer", words.field_malformed("answer"))
        answer = Answer(data["answer"])
        if answer is Answer.TRUST:
            tools, config = self._store.tools_of(writing.chat), self._config(str(data["name"]))
            trusted = _with(tools.trusted, config.mark, True)
            self._store.use_tools(writing.chat, replace(tools, trusted=trusted))
        return writing.answer_call(str(data["call"]), answer, str(data.get("text") or ""))

    # ---- for replies

    def prepare(self, chat: int | None, off: Iterable[str]) -> tuple[str, ...]:
        """Start the servers of a chat; return those that are not ready yet."""
        names = self._names(chat, off)
        self.servers.start(names)
        return self.servers.starting(names)

    def missing(self, chat: int | None, off: Iterable[str]) -> list[str]:
        """Return a sentence about servers of a chat that could not be started, if there are any."""
        failed = self.servers.unavailable(self._names(chat, off))
        return [tool_words.unavailable(failed)] if failed else []

    def turn(
        self,
        chat: int | None,
        off: Iterable[str],
        number: int,
        proceed: Callable[[int, Callable[[], bool]], View],
    ) -> ToolTurn | None:
        """Return the tools of a reply, the ``number``-th of its turn; None if it has none."""
        loaded = self._loaded()
        if loaded is None or loaded.capabilities.calls is None:
            return None
        tools = fitting(self.servers.offered(self._names(chat, off)), loaded.context)
        if not tools:
            return None
        box = Toolbox(self.servers, tools, self._trusts(chat), result_length(loaded.context))
        return ToolTurn(box, loaded.capabilities.calls, number, self.file.rounds, proceed)

    def _trusts(self, chat: int | None) -> Callable[[str], bool]:
        def trusts(server: str) -> bool:
            marks = {each.mark for each in self.file.servers() if each.name == server}
            return chat is not None and bool(marks & self._store.tools_of(chat).trusted)

        return trusts

    def _refusal(self) -> str | None:
        """Return why the loaded model gets no tools; None if it does, or nothing is loaded."""
        loaded = self._loaded()
        if loaded is None:
            return None
        capable = loaded.capabilities
        if capable.calls is None or not capable.template_tools:
            return tool_words.no_tools(model_title(loaded.target_name))
        return None

    def _tools(self, chat: int | None, off: Iterable[str]) -> ChatTools:
        return ChatTools(frozenset(off)) if chat is None else self._store.tools_of(chat)

    def _names(self, chat: int | None, off: Iterable[str]) -> list[str]:
        """Return the servers whose tools a chat uses; none if the loaded model gets no tools."""
        out = self._tools(chat, off).off
        on = [each.name for each in self.file.servers() if each.on and each.name not in out]
        return [] if self._refusal() else on

    def _config(self, name: str) -> ServerConfig:
        found = next((each for each in self.file.servers() if each.name == name), None)
        if found is None:
            raise InvalidRequest("name", tool_words.gone(name))
        return found

    @staticmethod
    def _show(state: ServerState, used: ChatTools) -> View:
        config = state.config
        return {
            "name": config.name,
            "on": config.on and config.name not in used.off,
            "disabled": not config.on,
            "trusted": config.mark in used.trusted,
            "phase": state.phase,
            "why": tool_words.in_short(state.why),
            "tools": sum(tool.name not in config.tools_off for tool in state.tools),
        }


def with_tools(
    generate: Callable[[Sequence[Tool]], T], tools: ToolTurn | None
) -> tuple[T, ToolTurn | None, list[str]]:
    """Return what ``generate`` returns for the tools, and the tools without those that the engine
    refuses, with sentences about these."""
    notes: list[str] = []
    while True:
        try:
            return generate([each.tool for each in tools.box.tools] if tools else ()), tools, notes
        except InvalidRequest as error:
            refused = re.match(r"tools\[(\d+)\]", error.field)
            if tools is None or refused is None:
                raise
            which = tools.box.tools[int(refused[1])]
            why = str(error).removeprefix(error.field).strip()
            notes.append(
                f"The tool {which.name} from {which.server} was not offered: "
                f"its description of parameters {why}"
            )
            rest = tuple(each for each in tools.box.tools if each is not which)
            tools = replace(tools, box=replace(tools.box, tools=rest)) if rest else None


def _with(names: frozenset[str], name: str, wanted: bool) -> frozenset[str]:
    return names | {name} if wanted else names - {name}
