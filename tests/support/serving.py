"""The app on a real socket over any engine, as ``app.main`` serves it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.main import Settings, create_app, switch_of
from app.paths import catalog_file
from app.runtime import Runtime
from app.web.connections import Connection
from app.web.listen import listen
from app.web.switch import ApiSwitch
from engine.loading.catalog import open_catalog
from engine.loading.discovery.system import System
from tests.support.fake_engine import FakeEngine


@dataclass(frozen=True)
class Served:
    """A running app: its address and what stands behind it."""

    url: str
    port: int
    app: Any
    runtime: Runtime
    switch: ApiSwitch

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)


def fake_runtime(data_dir: Path, engine: FakeEngine) -> Runtime:
    """A runtime that finds no models of this machine."""
    home = data_dir / "home"
    system = System("linux", home, {}, root=home / "root")
    runtime = Runtime(
        engine, open_catalog(catalog_file()), data_dir, data_dir / "models", system=system
    )
    engine.catalog = lambda: runtime.inventory.catalog
    return runtime


@contextlib.contextmanager
def served(
    runtime: Runtime,
    *,
    key: str | None = None,
    pages: bool = False,
    api: bool = True,
    origins: tuple[str, ...] = (),
    port: int = 0,
    itself: bool = False,
) -> Iterator[Served]:
    """The API over ``runtime``, which is closed in the end, and the pages if asked for. ``origins``: of
    websites that may use the API. Port 0: any. ``itself``: whether engines of this process are known to
    be the server's own; others are those of another Foretoken."""
    import uvicorn

    if not itself:
        runtime.instance = f"foretoken-{secrets.token_hex(8)}"
    settings = Settings(pages=pages, api=api, api_key=key, origins=origins)
    switch, _ = switch_of(settings, runtime.data_dir)

    async def build() -> Any:
        return create_app(runtime, switch, settings)

    # Where no event loop runs, Gradio makes one for its locks and never closes it.
    with ThreadPoolExecutor(1) as pool:
        app = pool.submit(asyncio.run, build()).result()
    listener = listen("127.0.0.1", port)
    config = uvicorn.Config(
        app, log_level="warning", http=Connection, ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener.socket]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Served(listener.url, listener.port, app, runtime, switch)
    finally:
        server.should_exit = True
        thread.join(30)
        runtime.close()
