"""One server while the app uses it: started when needed, asked for its tools, called, stopped.

Everything here runs on the event loop of ``app.mcp.servers``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import BeforeValidator, ValidationError

from app.mcp import limits, transports
from app.mcp.config import ServerConfig
from app.mcp.tools import CallResult, ServerTool, bounded, text_of


def _first_parts(content: Any) -> Any:
    """Return the first parts of a result, and a note of how many follow: to check each takes time."""
    more = len(content) - limits.MOST_PARTS if isinstance(content, list) else 0
    if more <= 0:
        return content
    note = {"type": "text", "text": f"[{more:,} more parts left out]"}
    return [*content[: limits.MOST_PARTS], note]


class BoundedResult(types.CallToolResult):
    """What a call returned, with its first parts."""

    content: Annotated[list[types.ContentBlock], BeforeValidator(_first_parts)]


for _name in ("mcp", "client"):  # they log what servers send
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

_CLIENT = types.Implementation(name="foretoken", version="1")


class Phase(StrEnum):
    """What a server does now."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class Connection:
    """One server. What is public may be read from any thread.

    ``why``: the reason of a failure, with what a program printed, which no model gets. ``left_out``:
    what of its tools cannot be offered, and why.
    """

    def __init__(self, config: ServerConfig, on_change: Callable[[], None]) -> None:
        self.config = config
        self.phase = Phase.STOPPED
        self.why = ""
        self.tools: tuple[ServerTool, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.failed_at = 0.0
        self._on_change = on_change
        self._ending = transports.ServerEnd()
        self._closing = False
        self._scope: anyio.CancelScope | None = None  # of its start
        self._settled = asyncio.Event()  # it is ready, or it failed
        self._task: asyncio.Task[None] | None = None
        self._session: Any = None

    async def ready(self) -> bool:
        """Start the server unless it is there or was closed; return whether it is there."""
        if self._closing:
            return False
        if self._task is not None and self._ending.happened.is_set():
            await asyncio.wait([self._task])  # it is being cleared away
        if self._task is None or self._task.done():
            self._ending, self._settled = transports.ServerEnd(), asyncio.Event()
            self._tell(Phase.STARTING)
            self._task = asyncio.create_task(self._live())
        await self._settled.wait()
        return self.phase is Phase.READY

    async def close(self) -> None:
        """Stop the server, also one that is being started."""
        self._closing = True
        self._ending.end("It was stopped.")
        if not self._settled.is_set() and self._scope is not None:
            self._scope.cancel()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=limits.CLOSE_S)
            if late:  # a server by HTTP may never answer the goodbye
                self._task.cancel()
                await asyncio.wait(late)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """Return what a tool returns. Whatever goes wrong is a failed result that says so."""
        if not await self.ready():
            why = self._ending.why  # without its output, which may tell of other chats
            return CallResult(f"The server {self.config.name} is not available. {why}", True)
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        seconds = self.config.timeout_s
        try:
            with anyio.fail_after(seconds):
                # Not call_tool, which matches results with the server's patterns: that may never end.
                found = await self._session.send_request(
                    types.CallToolRequest(params=params), BoundedResult
                )
        except TimeoutError:
            self._look_after()
            return CallResult(
                f"No result within {seconds:.0f} seconds, so the call was cancelled.", True
            )
        except asyncio.CancelledError:
            self._look_after()
            raise
        except ValidationError:
            return CallResult("The server's answer is not a valid result.", True)
        except Exception as error:
            return CallResult(self._what_failed(error), True)
        return text_of(found.content, found.structured_content, bool(found.is_error))

    def _look_after(self) -> None:
        """Stop the server if it gives no sign of life after a call that was given up."""

        async def look() -> None:
            try:
                with anyio.fail_after(limits.PING_S):
                    await self._session.send_request(types.PingRequest(), types.EmptyResult)
            except MCPError:
                pass  # it answers, though it knows no ping
            except Exception:
                self._ending.end("It stopped answering after a call was cancelled.")

        self._looking = asyncio.create_task(look())

    def _what_failed(self, error: BaseException) -> str:
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            self._ending.end("The connection was closed.")
        if self._ending.happened.is_set():
            return f"The server {self.config.name} stopped during the call. {self._ending.why}"
        text = " ".join(str(error).split())[:500] or type(error).__name__
        return f"The call failed: {text}"

    # ---- its life

    async def _live(self) -> None:
        try:
            await self._connected()
        except BaseException as error:
            self._ending.end(_cause(error))
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._session = None
            if self._closing:
                self._tell(Phase.STOPPED)
            else:
                self.failed_at = time.monotonic()
                said = f" It said: {words}" if (words := self._ending.last_words) else ""
                self._tell(Phase.FAILED, f"{self._ending.why}{said}")
            self._settled.set()

    async def _connected(self) -> None:
        """Connect, list the tools, and stay until the server ends or is stopped."""
        if not self.config.url:
            return await self._stay(transports.program(self.config, self._ending))
        first = self.config.url.rstrip("/").endswith("/sse")
        for sse in (first, not first):
            try:
                return await self._stay(transports.http(self.config, self._ending, sse=sse))
            except Exception as error:
                if self._settled.is_set() or sse is not first or not _may_be_older(error):
                    raise
                failed = error
        raise failed

    async def _stay(self, transport: Any) -> None:
        with anyio.CancelScope(deadline=anyio.current_time() + limits.CONNECT_S) as self._scope:
            async with Client(transport, client_info=_CLIENT, cache=None) as client:
                self._scope.deadline = anyio.current_time() + limits.LIST_S
                self.tools, self.left_out = bounded([each async for each in _listed(client)])
                self._scope.deadline = float("inf")
                self._session = client.session
                self._tell(Phase.READY)
                self._settled.set()
                await self._ending.happened.wait()
        if self._scope.cancelled_caught:
            self._ending.end("It did not answer in time.")

    def _tell(self, phase: Phase, why: str = "") -> None:
        self.phase, self.why = phase, why
        self._on_change()


async def _listed(client: Client) -> AsyncIterator[types.Tool]:
    """Yield the server's tools, page by page, as far as they may be offered."""
    capabilities = client.session.server_capabilities
    if capabilities is not None and not capabilities.tools:
        return
    cursor, count = None, 0
    for _ in range(limits.MOST_PAGES):
        params = types.PaginatedRequestParams(cursor=cursor)
        page = await client.session.list_tools(params=params)
        for each in page.tools:
            yield each
        count += len(page.tools)
        cursor = page.next_cursor
        if not cursor or count > limits.MOST_TOOLS:
            return


def _leaf(error: BaseException) -> BaseException:
    """Return the first error in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _may_be_older(error: Exception) -> bool:
    """Return whether a server may speak the other form of HTTP: it answered, but not as it should."""
    leaf = _leaf(error)
    return isinstance(leaf, MCPError | httpx2.HTTPStatusError | httpx2.SSEError) and not _refused(
        leaf
    )


def _refused(error: BaseException) -> bool:
    response = getattr(error, "response", None)
    return response is not None and response.status_code in (401, 403)


def _cause(error: BaseException) -> str:
    """Return why a server could not be used, and what to do."""
    leaf = _leaf(error)
    match leaf:
        case FileNotFoundError() | NotADirectoryError():
            return f"{leaf.filename} was not found. Install it, or give its full path."
        case PermissionError():
            return f"{leaf.filename} is not executable. Check its permissions."
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "Nothing answers at this address. Is the server running?"
        case httpx2.HTTPStatusError() if not _refused(leaf):
            status = leaf.response.status_code
            return f"It answered with HTTP status {status}. Check the address."
        case _ if _refused(leaf):
            return (
                "It refused the request. If it needs a token, add an Authorization header; "
                "sign-in in a browser (OAuth) is not supported."
            )
        case ValidationError():
            return "Its answer does not follow the protocol."
        case asyncio.CancelledError():
            return "It was stopped."
        case _:
            text = " ".join(str(leaf).split())[:500]
            return f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__
