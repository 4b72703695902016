"""An engine on a server: requests go over the network, several at once, and events come back.

One thread does the network (``engine.remote.connection``). Each reply has a thread that publishes its
events, so a slow listener delays no other reply.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from engine.api import (
    Generation,
    Loaded,
    LoadRequest,
    TopToken,
    Watcher,
    check_drafting,
    check_supported,
    has,
    having,
)
from engine.errors import InvalidRequest, LoadCancelled, ModelError, NotLoaded
from engine.loading.catalog import Catalog
from engine.loading.progress import LoadProgress, Stage
from engine.machine.event_loop import Loop
from engine.machine.secrets import server_key
from engine.remote.body import check
from engine.remote.capabilities import loaded_of
from engine.remote.connection import Client
from engine.remote.dialects import Completions, Events, ForetokenEvents, with_retries
from engine.remote.errors import explain
from engine.remote.kinds import Kind
from engine.remote.ollama import OllamaChat
from engine.remote.reply import Reply
from engine.remote.server import ServedModel, Server, ensure_loaded, look
from engine.request import Request
from engine.values.address import Address

log = logging.getLogger(__name__)

_POLL_S = 0.05
"""Interval of checking whether the watcher has cancelled."""
_CLOSING_S = 10.0

KeyOf = Callable[[Address], str | None]


@dataclass(frozen=True, slots=True)
class _Connected:
    """One model of one server."""

    server: Server
    loaded: Loaded
    client: Client
    events: Events


class RemoteEngine:
    """An ``engine.api.Engine`` whose models run on a server; loading connects to it."""

    def __init__(
        self,
        catalog: Callable[[], Catalog] = lambda: Catalog((), ()),
        key_of: KeyOf = lambda address: server_key(address).get()[0],
    ) -> None:
        """``catalog`` names servers; addresses need none. ``key_of`` returns a server's key."""
        self.catalog, self._key_of = catalog, key_of
        self._loop = Loop("servers")
        self._changed = threading.Condition()
        self._connected: _Connected | None = None
        self._replies: set[Reply] = set()
        self._loading = self._pins = 0
        self._closed = False

    @property
    def loaded(self) -> Loaded | None:
        connected = self._connected
        return None if connected is None else connected.loaded

    @property
    def resident(self) -> tuple[Loaded, ...]:
        return () if self.loaded is None else (self.loaded,)

    @property
    def busy(self) -> bool:
        """True while a reply is written or a server is being connected."""
        with self._changed:
            return bool(self._loading) or any(not reply.ending for reply in self._replies)

    def load(self, request: LoadRequest, watcher: Watcher | None = None) -> Loaded:
        """Connect to the server that is named. Raise as ``Engine.load``, and ServerError."""
        spec = self.catalog().named(request).target
        if not spec.address:
            raise ModelError(f"{spec.name} is not a server address.")
        with self._changed:
            self._check_open()
            self._loading += 1
        try:
            if watcher is not None:
                watcher.on_loading(LoadProgress(Stage.CONNECTING))
            address = Address.parse(spec.address)
            key = self._key_of(address)
            client, server, model = self._ask(address, key, watcher)
            try:
                loaded = loaded_of(request, spec, server, model, key is not None)
            except BaseException:
                self._loop.start(client.close(), to_its_end=True)
                raise
            events = _events(client, server.kind, model.id)
            self._replace(_Connected(server, loaded, client, events), watcher)
            return loaded
        finally:
            with self._changed:
                self._loading -= 1
                self._changed.notify_all()

    def unload(self, pair: Loaded | None = None) -> None:
        """Disconnect from the server after its running replies."""
        if pair is None or has(self, pair):
            self._replace(None, None)

    def generate(self, request: Request) -> Generation:
        """Send the request at once; the server schedules it. Raise NotLoaded, InvalidRequest, and
        ContextExceeded for a prompt in tokens; a text's length is checked by the server."""
        with self._changed:
            self._check_open()
            connected = self._connected
            if connected is None:
                raise NotLoaded(
                    "No model is loaded. Choose one on the Models page, or start with --pair."
                )
            loaded = connected.loaded
            check_supported(request, loaded.capabilities)
            check_drafting(request.speculation, loaded.capabilities)
            check(request, connected.server.kind, loaded.context)
            reply = Reply(request, connected.events, self._loop, connected.client, self._ended)
            self._replies.add(reply)
        return reply.start()

    @property
    def tokenizer(self) -> None:
        """None: a server's tokenizer is not known here."""

    def tokenize(self, texts: Sequence[str]) -> None:
        """Return None: a server's tokenizer is not known here. Raise NotLoaded."""
        if self._connected is None:
            raise NotLoaded("No model is loaded, so tokens cannot be counted.")

    def top_tokens(
        self, request: Request, reply: Sequence[int], count: int
    ) -> tuple[TopToken, ...]:
        """Raise NotLoaded or InvalidRequest: servers do not support this."""
        if self._connected is None:
            raise NotLoaded("No model is loaded.")
        raise InvalidRequest(
            "reply", "A server cannot tell what else its model might have written there."
        )

    def of(self, pair: Loaded) -> RemoteEngine:
        return having(self, pair)

    @contextmanager
    def pin(self, pair: Loaded) -> Iterator[None]:
        with self._changed:
            having(self, pair)
            self._pins += 1
        try:
            yield
        finally:
            with self._changed:
                self._pins -= 1
                self._changed.notify_all()

    @property
    def idle_s(self) -> float:
        return 0.0

    def embed(self, tokens: Sequence[int]) -> tuple[float, ...]:
        """Raise NotLoaded or InvalidRequest: servers are asked for replies alone."""
        raise self._only_replies()

    def next_logits(self, tokens: Sequence[int], choices: Sequence[int]) -> tuple[float, ...]:
        """Raise as ``embed``."""
        raise self._only_replies()

    def _only_replies(self) -> NotLoaded | InvalidRequest:
        if self._connected is None:
            return NotLoaded("No model is loaded.")
        return InvalidRequest(
            "model", "The loaded model runs on a server. Ask that server for embeddings and ranks."
        )

    def close(self) -> None:
        """Cancel everything and disconnect from the server."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            running = tuple(self._replies)
            connected, self._connected = self._connected, None
        for reply in running:
            reply.generation.cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._replies, _CLOSING_S)
        self._loop.close(None if connected is None else connected.client.close)

    # ---- connecting

    def _ask(
        self, address: Address, key: str | None, watcher: Watcher | None
    ) -> tuple[Client, Server, ServedModel]:
        """Return a client. Raise ServerError, ModelError for an unknown model, or LoadCancelled."""
        asking = self._loop.start(_connect(address, key))
        while True:
            try:
                return asking.result(_POLL_S)
            except NotYet:
                if asking.done():
                    continue  # it ended just now
                if watcher is not None and watcher.cancelled:
                    asking.cancel()
                    raise LoadCancelled("Connecting was cancelled.") from None
            except CancelledError as error:
                raise NotLoaded("The engine was shut down. Restart Foretoken.") from error

    def _replace(self, connected: _Connected | None, watcher: Watcher | None) -> None:
        """Replace the connection after its running replies."""
        with self._changed:
            if watcher is not None and self._replies:
                watcher.on_loading(LoadProgress(Stage.WAITING))
            while (self._replies or self._pins) and not self._closed:
                self._changed.wait(_POLL_S)
                if watcher is not None and watcher.cancelled:
                    break
            given_up = watcher is not None and watcher.cancelled
            if self._closed or given_up:
                if connected is not None:
                    self._close_client(connected)
                self._check_open()
                raise LoadCancelled("Connecting was cancelled.")
            before, self._connected = self._connected, connected
        if before is not None:
            self._close_client(before)

    def _close_client(self, connected: _Connected) -> None:
        closing: Future[None] = self._loop.start(connected.client.close(), to_its_end=True)
        closing.add_done_callback(_logged)

    def _ended(self, reply: Reply) -> None:
        with self._changed:
            self._replies.discard(reply)
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise NotLoaded("The engine was shut down. Restart Foretoken.")


def look_at(address: Address, key: str | None) -> Server:
    """Identify the server at an address. Block until it answers. Raise ServerError."""
    loop = Loop("servers")

    async def looked() -> Server:
        async with _asking(address, key) as client:
            server = await with_retries(lambda: look(client))
        await client.close()
        return server

    try:
        return loop.start(looked()).result()
    finally:
        loop.close()


async def _connect(address: Address, key: str | None) -> tuple[Client, Server, ServedModel]:
    async with _asking(address, key) as client:
        server = await with_retries(lambda: look(client))
        return client, *await ensure_loaded(client, server, address.model)


@asynccontextmanager
async def _asking(address: Address, key: str | None) -> AsyncIterator[Client]:
    """Yield a client that stays open; on an error close it and raise the error explained."""
    if key is not None and not key.isascii():
        raise server_key(address).malformed
    client = Client(address, key)
    try:
        yield client
    except Exception as error:
        await client.close()
        raise explain(error, address, key=key is not None, begun=False) from error
    except BaseException:
        await client.close()
        raise


def _events(client: Client, kind: Kind, model: str) -> Events:
    match kind:
        case Kind.FORETOKEN:
            return ForetokenEvents(client, model).events
        case Kind.OLLAMA:
            return OllamaChat(client, model).events
        case _:
            return Completions(client, kind, model).events


def _logged(closing: Future[None]) -> None:
    if not closing.cancelled() and (error := closing.exception()) is not None:
        log.debug("closing a connection failed: %r", error)
