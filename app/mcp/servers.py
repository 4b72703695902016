"""The servers of one running app or command: one event loop in a thread of its own for all of them.

The ``mcp`` package is imported with the first server that is used: it takes half a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.mcp import limits
from app.mcp.config import GivenServers, McpFile, ServerConfig
from app.mcp.tools import CallResult, OfferedTool, ServerTool, offered
from engine.machine.event_loop import Loop

if TYPE_CHECKING:
    from app.mcp.connection import Connection


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server as it is now. ``phase``: stopped, starting, ready or failed, then ``why``."""

    config: ServerConfig
    phase: str = "stopped"
    why: str = ""
    tools: tuple[ServerTool, ...] = ()
    left_out: tuple[str, ...] = ()


class McpServers:
    """All servers. Thread-safe."""

    def __init__(
        self, file: McpFile | GivenServers, on_change: Callable[[], None] = lambda: None
    ) -> None:
        """``on_change`` is called from the loop's thread whenever a server changes its phase."""
        self.file = file
        self.on_change = on_change
        self._loop = Loop("tool servers")
        self._connections: dict[str, Connection] = {}
        self._starts: dict[str, Future[bool]] = {}
        self._retried: set[str] = set()  # that failed, and are started once more

    def states(self) -> tuple[ServerState, ...]:
        """Return all servers, in the order in which they were added."""
        return tuple(map(self._state, self.file.servers()))

    def start(self, names: Iterable[str], *, again: bool = False) -> None:
        """Start those of the servers that do not run; do not wait for them.

        One that failed a short while ago is left alone, unless ``again``. Nobody waits for one that
        never ran with this configuration: ``starting`` leaves it out.
        """
        for config in self._named(names):
            state = self._state(config)
            if state.phase == "ready":
                continue
            found = self._connections.get(config.name)
            recent = found is not None and time.monotonic() - found.failed_at < limits.RETRY_S
            if again or state.phase != "failed" or not recent:
                never = state.phase == "failed" and not state.tools
                if never and not again:
                    self._retried.add(config.name)
                elif again or state.phase != "starting":
                    self._retried.discard(config.name)
                self._starts[config.name] = self._loop.start(self._ready(config))

    def starting(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the servers that are being started, and may soon be ready."""
        return tuple(each for each in self._in(names, "starting") if each not in self._retried)

    def unavailable(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the servers that failed, with those that are being started once more."""
        names = tuple(names)
        again = (each for each in self._in(names, "starting") if each in self._retried)
        return (*self._in(names, "failed"), *again)

    def _in(self, names: Iterable[str], phase: str) -> tuple[str, ...]:
        states = map(self._state, self._named(names))
        return tuple(each.config.name for each in states if each.phase == phase)

    def wait(self, names: Iterable[str]) -> None:
        """Start the servers and wait until each is ready or failed."""
        waiting = [self._loop.start(self._ready(config)) for config in self._named(names)]
        for each in waiting:
            each.result()

    def offered(self, names: Iterable[str]) -> tuple[OfferedTool, ...]:
        """Return the tools of the servers that are ready, as a model is told of them."""
        wanted = [self._state(config) for config in self._named(names)]
        return offered(
            (state.config.name, tool)
            for state in wanted
            if state.phase == "ready"
            for tool in state.tools
            if tool.name not in state.config.tools_off
        )

    def call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> Future[CallResult]:
        """Call a tool, and start its server first if needed. Cancelling the future ends the call."""
        config = next(iter(self._named([server])), None)
        if config is None:
            gone: Future[CallResult] = Future()
            gone.set_result(CallResult(f"The server {server} was removed.", True))
            return gone
        return self._loop.start(self._call(config, tool, arguments))

    def stop(self, name: str) -> None:
        """Stop a server and wait until it is stopped."""
        if name in self._connections:
            self._loop.start(self._stopped(name)).result()

    def close(self) -> None:
        """Stop all servers, because the app ends."""

        async def end() -> None:
            await asyncio.gather(*(each.close() for each in self._connections.values()))

        self._loop.close(end)

    # ---- on any thread

    def _named(self, names: Iterable[str]) -> tuple[ServerConfig, ...]:
        wanted = set(names)
        return tuple(each for each in self.file.servers() if each.name in wanted)

    def _state(self, config: ServerConfig) -> ServerState:
        found, start = self._connections.get(config.name), self._starts.get(config.name)
        if start is not None and not start.done():
            return ServerState(config, "starting")
        if found is None or found.config.mark != config.mark:
            return ServerState(config)
        return ServerState(config, found.phase, found.why, found.tools, found.left_out)

    # ---- on the loop's thread

    async def _connection(self, config: ServerConfig) -> Connection:
        """Return the connection to a server as it is configured now."""
        from app.mcp.connection import Connection

        found = self._connections.get(config.name)
        if found is None or found.config.mark != config.mark:
            old, found = found, Connection(config, self.on_change)
            self._connections[config.name] = found  # at once: calls run side by side
            if old is not None:
                await old.close()
        found.config = config  # its time limit may have changed
        return found

    async def _ready(self, config: ServerConfig) -> bool:
        return await (await self._connection(config)).ready()

    async def _call(
        self, config: ServerConfig, tool: str, arguments: Mapping[str, Any]
    ) -> CallResult:
        return await (await self._connection(config)).call(tool, arguments)

    async def _stopped(self, name: str) -> None:
        found = self._connections.pop(name, None)
        if found is not None:
            await found.close()
