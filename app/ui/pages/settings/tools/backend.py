"""The servers of tools, as the settings page shows and changes them. Plain values: no Gradio, no HTML.

Only a browser on this machine may add or change one: that starts programs here. Values of environment
variables and headers, which hold keys, never leave this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.mcp.config import CALL_S, MOST_ROUNDS, McpFile, ServerConfig, read_servers
from app.mcp.servers import McpServers, ServerState
from app.ui.controls.settings import decimal, whole
from app.ui.endpoints import View, endpoint, local_endpoint, waits
from app.ui.words import tools as tool_words
from engine.errors import InvalidRequest

MASK = "••••••••"
"""Stands for a value that is kept."""


class ToolServersBackend:
    """The servers of one running app."""

    def __init__(self, servers: McpServers, file: McpFile) -> None:
        self._servers, self._file = servers, file

    @endpoint
    def tool_servers(self, data: View | None = None) -> View:
        """Return all servers, and the limit of a turn's rounds of calls."""
        return {
            "servers": list(map(_show, self._servers.states())),
            "rounds": self._file.rounds,
            "most_rounds": MOST_ROUNDS,
            "file": str(self._file.path),
        }

    @waits
    @local_endpoint(tool_words.ELSEWHERE)
    def import_servers(self, data: View) -> View:
        """Add the servers of a configuration of another app; tools that are off stay off. ``ignored``:
        what has no effect here."""
        found = read_servers(str(data["text"]))
        off = {each.name: each.tools_off for each in self._file.servers()}
        self._file.add(
            tuple(
                replace(each, tools_off=each.tools_off | off.get(each.name, frozenset()))
                for each in found.servers
            )
        )
        self._stop(*(each.name for each in found.servers))
        ignored = (
            f"These settings have no effect here: {', '.join(found.ignored[:10])}."
            if found.ignored
            else None
        )
        return {
            **self.tool_servers(),
            "added": [each.name for each in found.servers],
            "ignored": ignored,
        }

    @waits
    @local_endpoint(tool_words.ELSEWHERE)
    def keep_server(self, data: View) -> View:
        """Add a server, or change the one that ``was`` so called, by the fields of the form."""
        was = self._known(str(data["was"])) if data.get("was") else None
        name = str(data["name"]).strip()
        if (was is None or was.name != name) and self._find(name):
            raise InvalidRequest("name", f"There is already a server {name}. Choose another name.")
        seconds = decimal("seconds", data.get("seconds") or CALL_S)
        config = ServerConfig(
            name,
            command=str(data.get("command") or "").strip(),
            args=_args(str(data.get("args") or ""), was.args if was else ()),
            env=_lines(data.get("env"), "=", was.env if was else {}),
            cwd=str(data.get("cwd") or "").strip(),
            url=str(data.get("url") or "").strip(),
            headers=_lines(data.get("headers"), ":", was.headers if was else {}),
            on=was.on if was else True,
            timeout_s=seconds,
            tools_off=was.tools_off if was else frozenset(),
        )
        old = was.name if was is not None and was.name != name else ""
        self._file.add((config,), instead_of=old)
        self._stop(name, old)
        return self.tool_servers()

    @waits
    @local_endpoint(tool_words.ELSEWHERE)
    def turn_server(self, data: View) -> View:
        """Let chats use a server by default, or not."""
        on = bool(data["on"])
        self._file.change(str(data["name"]), on=on)
        if not on:
            self._servers.stop(str(data["name"]))
        return self.tool_servers()

    @local_endpoint(tool_words.ELSEWHERE)
    def turn_tool(self, data: View) -> View:
        """Tell models of a tool, or not."""
        server, tool = self._known(str(data["name"])), str(data["tool"])
        off = server.tools_off - {tool} if data["on"] else server.tools_off | {tool}
        self._file.change(server.name, tools_off=off)
        return self.tool_servers()

    @waits
    @local_endpoint(tool_words.ELSEWHERE)
    def remove_server(self, data: View) -> View:
        self._file.remove(str(data["name"]))
        self._servers.stop(str(data["name"]))
        return self.tool_servers()

    @endpoint
    def test_server(self, data: View) -> View:
        """Start a server, also one that failed, to see its tools."""
        name = self._known(str(data["name"])).name
        self._servers.start([name], again=True)
        return self.tool_servers()

    @endpoint
    def limit_rounds(self, data: View) -> View:
        """Set how many replies of a turn may call tools before the user is asked to continue."""
        self._file.rounds = whole("rounds", data["value"]) or 0
        return self.tool_servers()

    def _stop(self, *names: str) -> None:
        """Stop servers that were changed: what runs is perhaps another program than is configured now."""
        for name in names:
            self._servers.stop(name)

    def _find(self, name: str) -> ServerConfig | None:
        return next((each for each in self._file.servers() if each.name == name), None)

    def _known(self, name: str) -> ServerConfig:
        found = self._find(name)
        if found is None:
            raise InvalidRequest("name", tool_words.gone(name))
        return found


def _args(text: str, kept: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of a text; if nobody edited it, the arguments as they are: one may have lines."""
    if text == "\n".join(kept):
        return kept
    return tuple(text.removesuffix("\n").split("\n")) if text else ()


def _lines(text: object, sign: str, kept: Mapping[str, str]) -> dict[str, str]:
    """Return the names and values of lines ``NAME=value``; a masked value is the one that is kept."""
    found = {}
    for line in str(text or "").splitlines():
        if not line.strip():
            continue
        name, there, value = line.partition(sign)
        name, value = name.strip(), value.strip()
        if not there or not name:
            example = "NAME=value" if sign == "=" else "Name: value"
            raise InvalidRequest(
                "env", f"Write one {example} per line; this line does not match: {line[:80]}"
            )
        if value == MASK and name not in kept:
            raise InvalidRequest(
                "env",
                f"The value of {name} is not known: hidden values are kept by name, and none has this "
                "one. Enter the value again.",
            )
        found[name] = kept[name] if value == MASK else value
    return found


def _show(state: ServerState) -> View:
    config = state.config
    return {
        "name": config.name,
        "line": config.line,
        "command": config.command,
        "args": "\n".join(config.args),
        "env": "\n".join(f"{name}={MASK}" for name in config.env),
        "cwd": config.cwd,
        "url": config.url,
        "headers": "\n".join(f"{name}: {MASK}" for name in config.headers),
        "seconds": config.timeout_s,
        "on": config.on,
        "phase": state.phase,
        "why": state.why,
        "left_out": list(state.left_out),
        "tools": [
            {"name": each.name, "about": each.description, "on": each.name not in config.tools_off}
            for each in state.tools
        ],
    }
