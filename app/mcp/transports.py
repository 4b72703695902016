"""Transports for the ``mcp`` package's client that bound what a server may send.

Its own keep a line without an end, or an answer in JSON of any size, in memory.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
import httpx2
from anyio import to_thread
from mcp.client.sse import sse_client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from app.mcp import limits
from app.mcp.config import ServerConfig
from engine.files import TooMany, check_counts

if TYPE_CHECKING:
    from anyio.abc import Process

Streams = tuple[Any, Any]
_GONE = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What is raised where a program's pipes are closed."""
_MARK = b'"jsonrpc"'
"""A line with it is meant as a message."""
_LAST_WORDS = 2000
"""Characters of a program's error output that are kept, to say why it ended."""
_LAST_WORDS_S = 0.5
"""Seconds to hear them after the program's end; its children may hold the pipe longer."""


class ServerEnd:
    """Why a server ended, for people. ``happened`` is set as soon as nothing more comes from it."""

    def __init__(self) -> None:
        self.happened = anyio.Event()
        self.why = ""
        self._words: deque[str] = deque()

    def end(self, why: str) -> None:
        """Keep the first reason."""
        self.why = self.why or why
        self.happened.set()

    def heard(self, text: str) -> None:
        """Keep the end of what a program says on its error output. From any thread."""
        self._words.append(text)
        while sum(map(len, self._words)) > _LAST_WORDS and len(self._words) > 1:
            self._words.popleft()

    @property
    def last_words(self) -> str:
        return "".join(self._words)[-_LAST_WORDS:].strip()


class _Unusable(Exception):
    """A server sent more than it may, or what is no message."""


class _Reader:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = self._garbage = self.bytes = 0

    def read(self, chunk: bytes) -> list[SessionMessage]:
        """Return the messages that ``chunk`` completes. Raises _Unusable."""
        self.bytes += len(chunk)
        if self.bytes > limits.MOST_BYTES:
            raise _Unusable(f"It sent more than {limits.MOST_BYTES >> 20} MB for one request.")
        self._buffer += chunk
        found = []
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end]).strip()
            del self._buffer[: end + 1]
            self._searched = 0
            if line:
                found += self._message(line)
        self._searched = len(self._buffer)
        if self._searched > limits.LONGEST_LINE:
            raise _Unusable(f"It sent a message of more than {limits.LONGEST_LINE >> 20} MB.")
        return found

    def _message(self, line: bytes) -> list[SessionMessage]:
        try:
            check_counts(line, limits.MOST_CONTAINERS, limits.MOST_VALUES)
            return [SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))]
        except TooMany as error:
            raise _Unusable(f"It sent a message of {error}.") from None
        except ValidationError as error:  # some servers write a greeting there
            if _MARK in line:  # whoever waits for this message would wait until the end of its time
                wrong = error.errors(include_url=False, include_input=False, include_context=False)
                why = str(wrong[0]["msg"])[:200]
                raise _Unusable(f"It sent an invalid message: {why}.") from None
            self._garbage += 1
            if self._garbage > limits.MOST_GARBAGE:
                shown = line[:80].decode("utf-8", "replace")
                raise _Unusable(f"It prints text instead of messages: {shown!r}") from None
            return []


@contextlib.asynccontextmanager
async def program(config: ServerConfig, ending: ServerEnd) -> AsyncIterator[Streams]:
    """Start a server's program and talk over its input and output; stop it in the end.

    Raises OSError if it cannot be started.
    """
    process, hearing = await _start(config, ending)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reader, stopping = _Reader(), False

    async def listen() -> None:
        assert process.stdout is not None
        async with incoming:
            try:
                while True:
                    for message in reader.read(await process.stdout.receive()):
                        await incoming.send(message)
            except _Unusable as error:
                ending.end(str(error))
            except (anyio.EndOfStream, *_GONE):
                if not stopping:
                    await _wait(process, limits.STOP_S)
                    code = process.returncode
                    ending.end("It ended." if code is None else f"It ended with status {code}.")

    async def speak() -> None:
        assert process.stdin is not None
        with contextlib.suppress(*_GONE):
            async with outgoing:
                async for each in outgoing:
                    if isinstance(each.message, JSONRPCRequest):
                        reader.bytes = 0
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(f"{text}\n".encode())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        tasks.start_soon(speak)
        try:
            yield read, write
        finally:
            stopping = True
            with anyio.CancelScope(shield=True):
                for stream in (read, write, incoming, outgoing):
                    stream.close()
                await _stop(process)
                await to_thread.run_sync(hearing.join, _LAST_WORDS_S)
            tasks.cancel_scope.cancel()


async def _start(config: ServerConfig, ending: ServerEnd) -> tuple[Process, threading.Thread]:
    """Return the program and the thread that hears its errors."""
    reading, writing = os.pipe()
    environment = {**get_default_environment(), **config.env}
    try:
        with os.fdopen(writing, "wb") as errors:
            if sys.platform == "win32":
                from mcp.os.win32.utilities import (
                    create_windows_process,
                    get_windows_executable_command,
                )

                command = get_windows_executable_command(config.command)
                process: Any = await create_windows_process(
                    command, list(config.args), environment, errors, config.cwd or None
                )
            else:
                process = await anyio.open_process(
                    [config.command, *config.args],
                    env=environment,
                    stderr=errors,
                    cwd=config.cwd or None,
                    start_new_session=True,  # so that all that it starts ends with it
                )
    except BaseException:
        os.close(reading)
        raise
    hearing = threading.Thread(
        target=_hear, args=(reading, ending), name="tool server's errors", daemon=True
    )
    hearing.start()
    return process, hearing


def _hear(reading: int, ending: ServerEnd) -> None:
    with os.fdopen(reading, "rb", buffering=0) as errors, contextlib.suppress(OSError):
        while chunk := errors.read(4096):
            ending.heard(chunk.decode("utf-8", "replace"))


async def _stop(process: Process) -> None:
    """Close the program's input, then ask it and all that it started to end, then kill them."""
    with contextlib.suppress(*_GONE):
        if process.stdin is not None:
            await process.stdin.aclose()
    await _wait(process, limits.STOP_S)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import close_process_job, terminate_windows_process_tree

        await terminate_windows_process_tree(process)
        close_process_job(process)
    else:
        from mcp.os.posix.utilities import terminate_posix_process_tree

        await terminate_posix_process_tree(process, limits.STOP_S)
    await _wait(process, limits.STOP_S)
    with contextlib.suppress(*_GONE):
        if process.stdout is not None:
            await process.stdout.aclose()
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:  # what left the group may still hold a pipe
        transport.close()


async def _wait(process: Process, seconds: float) -> None:
    """Wait for the program's end, not for that of its pipes, which its children may hold."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(0.01)


@contextlib.asynccontextmanager
async def http(config: ServerConfig, ending: ServerEnd, *, sse: bool) -> AsyncIterator[Streams]:
    """Talk to a server by streamable HTTP, or by ``sse``, its predecessor."""
    timeout = httpx2.Timeout(limits.CONNECT_S, read=config.timeout_s + limits.LIST_S)

    async def bound(response: httpx2.Response) -> None:
        """Bound an answer's bytes. Raises DecodingError for a compressed one, which could grow.

        A stream of events that no request of ours ends has no limit: the package bounds each event.
        """
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("It compressed its answer, which was not requested.")
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if events and response.request.method == "GET":
            return
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        most = limits.MOST_BYTES if events else limits.LONGEST_LINE
        response.stream = _Bounded(response.stream, most, ending)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        headers = {**config.headers, "Accept-Encoding": "identity"}
        return httpx2.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [bound]}
        )

    if sse:
        async with sse_client(
            config.url,
            timeout=limits.LIST_S,
            sse_read_timeout=config.timeout_s + limits.LIST_S,
            httpx_client_factory=client,
        ) as streams:
            yield streams
    else:
        async with (
            client(timeout=timeout) as open_client,
            streamable_http_client(
                config.url, http_client=open_client, max_sse_event_size=limits.LONGEST_LINE
            ) as streams,
        ):
            yield streams


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int, ending: ServerEnd) -> None:
        self._stream, self._most, self._ending = stream, most, ending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = containers = 0
        async for chunk in self._stream:
            count += len(chunk)
            containers += chunk.count(b"[") + chunk.count(b"{")
            if count > self._most:
                self._end(f"It sent more than {self._most >> 20} MB for one request.")
            if containers > limits.MOST_BRACKETS:
                self._end(f"It sent more than {limits.MOST_BRACKETS} lists and objects.")
            yield chunk

    def _end(self, why: str) -> NoReturn:
        self._ending.end(why)
        raise httpx2.ReadError(why)

    async def aclose(self) -> None:
        await self._stream.aclose()
