"""The running app: the pages and the OpenAI-compatible API behind one guarded address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from app import paths
from app.desktop import instance
from app.settings.preferences import (
    EndpointSettings,
    LoadOptionsFile,
    PreferencesFile,
    StartWith,
    change_endpoint,
    read_endpoint,
)
from app.web.listen import Certificate, Listener, holder, is_loopback, listen
from app.web.switch import ApiSwitch, Serving
from engine.api import LoadRequest
from engine.errors import ForetokenError
from engine.machine.device_memory import uncollected_imports

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.runtime import Runtime


DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7860
DEFAULT_PAIR = "pip"
DEFAULT_LOAD = LoadRequest(target=DEFAULT_PAIR)
SWITCH_S = 0.001
"""Seconds that a thread may hold the interpreter. Python's default is 5 ms; a round of a small model
takes less, so the engine waited for the pages longer than it computed. Below 1 ms nothing is gained."""

TICK_S = 0.5
"""Seconds between two looks of an idle server, which also renew the ``Date`` header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the app is started. ``load`` is the first pair, ``note`` the reason if it is not the stored
    one; ``instead`` is loaded if a stored pair fails. ``fixed``: names of the command line's options that
    were given; the others follow stored settings. ``pages`` False serves the API alone. ``window``: see
    ``app.desktop``. ``certificate``: see ``Listener``."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    load: LoadRequest = DEFAULT_LOAD
    note: str = ""
    instead: LoadRequest | None = None
    fixed: frozenset[str] = frozenset()
    data_dir: Path | None = None
    api: bool = False
    api_key: str | None = None
    origins: tuple[str, ...] = ()
    certificate: Certificate | None = None
    browser: bool = True
    window: bool = False
    pages: bool = True
    serving: Serving = field(default_factory=Serving)


def serve(settings: Settings) -> NoReturn:
    """Run until Ctrl-C, then end the process. Raises ``ForetokenError`` for what cannot start.

    The page shall be there quickly: take the port, import, serve, and load the models while the page is
    already shown.
    """
    # Before Gradio and the hub are imported: switch off telemetry.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    sys.setswitchinterval(SWITCH_S)
    data_dir = paths.data_folder(settings.data_dir)
    with using(data_dir, settings) as alone:
        if settings.window and not alone:
            from app.desktop.session import show_running

            show_running(data_dir)
            leave()
        switch, made_up = switch_of(settings, data_dir)
        settings = first_load(data_dir, replace(settings, api=switch.on))
        exact = "port" in settings.fixed
        listener = listen(
            settings.host, settings.port, exact=exact, certificate=settings.certificate
        )
        announce_start(listener)
        with contextlib.closing(listener.socket):
            with uncollected_imports():
                runtime, app = prepare(data_dir, switch, settings, alone)
            runtime.complaints.listen()

            def up() -> None:
                if settings.pages:
                    here = instance.announced if alone else instance.waiting
                    runtime.ending.enter_context(here(data_dir, listener.url))
                when_up(runtime, listener, settings, made_up)
                if settings.window:
                    from app.desktop.session import begin

                    begin(runtime, switch, app.state.pages, listener, app.state.stop)

            with contextlib.closing(runtime):
                run_server(app, listener, up)
                runtime.ending.close()  # the engine is not closed: that waits for what is being loaded
                leave()


def switch_of(settings: Settings, data_dir: Path) -> tuple[ApiSwitch, str | None]:
    """Return the API's switch and a newly made key, if one was needed. Options at the start
    override what the Server page stored; without pages the stored switch is ignored, since
    nobody would see it.

    Raises ApiKeyMissing.
    """
    stored = read_endpoint(data_dir) if settings.pages else EndpointSettings()
    exposed = not is_loopback(settings.host)
    made_up = None
    if exposed and settings.pages and not settings.api and not (settings.api_key or stored.key):
        made_up = secrets.token_urlsafe(16)
    switch = ApiSwitch(
        settings.api
        or (stored.on and not exposed),  # what was switched on for this machine stays here
        api_key=settings.api_key or made_up,
        needs_key=exposed,
        pages=settings.pages,
        origins=settings.origins,
        stored=stored,
        store=partial(change_endpoint, data_dir),
    )
    return switch, made_up


def prepare(
    data_dir: Path, switch: ApiSwitch, settings: Settings, alone: bool
) -> tuple[Runtime, FastAPI]:
    """Return the engine without a model, and what will be served. Raises ForetokenError for a
    misspelt pair.

    ``alone``: whether no other app uses the data folder.
    """
    from app.runtime import create_runtime

    runtime = create_runtime(data_dir, settings.load, most=settings.serving.most)
    runtime.alone, runtime.serving = alone, settings.serving
    runtime.others = partial(instance.others, data_dir)
    runtime.fixed = settings.fixed
    if "idle_unload" not in settings.fixed:
        runtime.idle.minutes = runtime.preferences.read().idle_unload
    try:
        runtime.catalog.named(settings.load)  # raises here, not in the page
        return runtime, create_app(runtime, switch, settings)
    except BaseException:
        runtime.close()
        raise


def first_load(data_dir: Path, settings: Settings) -> Settings:
    """Return ``settings`` with the first pair and how to load it: by the command line, else by stored
    preferences. If the stored pair is gone, print that and take the shipped one."""
    from app.inventory import open_inventory

    preferences = PreferencesFile(data_dir).read()
    load = preferences.over(settings.load, settings.fixed)
    stored, target = load.text != settings.load.text, load.target
    instead = replace(preferences, start_with=StartWith.SHIPPED).over(settings.load, settings.fixed)
    if stored or target != DEFAULT_PAIR:  # else the catalog need not be read
        try:
            target = open_inventory(data_dir).named(load).target.id
        except ForetokenError as error:
            if stored:
                note = _in_its_place(load, instead, str(error))
                say(note)
                return replace(settings, load=instead, note=note)
    load = LoadOptionsFile(data_dir).of(target).over(load, settings.fixed)
    return replace(settings, load=load, instead=instead if stored else None)


def _in_its_place(stored: LoadRequest, instead: LoadRequest, reason: str) -> str:
    name = Path(stored.target).name
    return f"{name} could not be loaded, so {instead.target} is used. {reason}"


def when_up(
    runtime: Runtime, listener: Listener, settings: Settings, made_up: str | None = None
) -> None:
    """Announce the address once it answers, load the models and open the browser."""
    announce_ready(listener, settings, made_up)
    loading = runtime.loader.start(settings.load, note=settings.note)

    def follow() -> None:
        from app.loading import LoadState

        loading.join()
        status = runtime.loader.status
        if settings.instead is not None and status.state is LoadState.FAILED:
            note = _in_its_place(settings.load, settings.instead, status.message)
            say(note)
            with contextlib.suppress(ForetokenError):  # the user has loaded another
                runtime.loader.start(settings.instead, note=note).join()
        if settings.pages or settings.serving.on_demand:
            runtime.found.scan_once()  # after the load: both need the interpreter

    threading.Thread(target=follow, name="look for models", daemon=True).start()
    if settings.browser and settings.pages:
        # On a thread: ``open`` waits for some browsers.
        opening = threading.Thread(
            target=webbrowser.open, args=(listener.url,), name="browser", daemon=True
        )
        opening.start()


def create_app(runtime: Runtime, switch: ApiSwitch, settings: Settings) -> FastAPI:
    """Return the ASGI app: API routes first, then the pages, all behind the guard."""
    from fastapi import FastAPI

    from app.server import RequestQueue, create_api
    from app.web.guard import Cors, Guard
    from app.web.open_pages import OpenPages, routes
    from app.web.request_log import Logged

    app = FastAPI(title="Foretoken", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.queue = RequestQueue(runtime.engine, runtime.learning)
    app.include_router(create_api(runtime, switch, app.state.queue))
    app.state.pages = OpenPages()
    app.router.routes.extend(routes(app.state.pages))
    if settings.pages:
        app = mount_pages(app, runtime, switch)
    app.add_middleware(Cors, switch=switch)
    app.add_middleware(Guard, host=settings.host, switch=switch, instance=runtime.instance)
    app.add_middleware(Logged, log=runtime.requests)
    return app


def mount_pages(app: FastAPI, runtime: Runtime, switch: ApiSwitch) -> FastAPI:
    """Put the Gradio pages at the root of ``app``."""
    from app import ui
    from app.web.gradio_stubs import gradio as gr

    pages, uploads = ui.build_ui(runtime, switch)
    # The pages send no events through Gradio's queue, which looks for them 1,000 times a second.
    pages._queue.start = lambda: None  # type: ignore[method-assign]
    app.include_router(uploads)
    presentation: dict[str, Any] = ui.presentation()
    mounted: FastAPI = gr.mount_gradio_app(app, pages, path="/", **presentation)
    mounted.add_middleware(ui.Addresses, head=ui.head(), style=ui.style())
    return mounted


def run_server(app: FastAPI, listener: Listener, ready: Callable[[], None]) -> None:
    """Serve on the listener's socket until Ctrl-C or SIGTERM; ``ready`` once it answers."""
    import uvicorn

    from app.web.connections import Connection

    class Server(uvicorn.Server):
        async def main_loop(self) -> None:
            """Look twice a second whether to stop; uvicorn's own loop wakes up ten times."""
            while not await self.on_tick(0):
                await asyncio.sleep(TICK_S)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: Any = None) -> None:
            # Requests cut off after the grace period are no errors to report.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            app.state.queue.end()
            await super().shutdown(sockets)

    certificate, key = listener.certificate or (None, None)
    config = uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        http=Connection,
        ws="none",
        # Open streams (a page's own) must not hold up Ctrl-C.
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    # uvicorn shuts down and then raises the signal again. Make SIGTERM an exception too, or it would end
    # the process before everything else is closed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = Server(config)
    app.state.stop = lambda: setattr(server, "should_exit", True)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener.socket])
    say("Stopped.")


def leave(status: int = 0) -> NoReturn:
    """End the process at once, after everything that must be closed is closed.

    All user data is on disk by now. The interpreter's own exit would wait for a model that is still being
    loaded, and take seconds to free the objects of torch and Gradio.
    """
    for stream in (sys.stdout, sys.stderr):
        # A pipe whose reader left; or None, where there is no console.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


@contextlib.contextmanager
def using(data_dir: Path, settings: Settings) -> Iterator[bool]:
    """Lock the data folder and yield True, or yield False if another app has locked it. The API alone
    needs no lock."""
    with instance.lock(data_dir) if settings.pages else contextlib.nullcontext(True) as alone:
        if not alone and not settings.window:
            say(
                f"Another Foretoken is using {data_dir}; the two share their chats. To keep them apart, "
                "start with another --data-dir."
            )
        yield alone


def announce_start(listener: Listener) -> None:
    """Print the address that the app will have."""
    if listener.moved:
        say(f"Port {listener.wanted} is used by {holder(listener.wanted)}; using {listener.port}.")
    say("Starting Foretoken ...")


def announce_ready(listener: Listener, settings: Settings, made_up: str | None = None) -> None:
    """Print the address, who can reach it and how to stop the app. ``made_up``: a newly made
    key."""
    say(f"Foretoken is at {listener.url} - press Ctrl-C to stop.")
    if settings.api:
        say(f"The API (OpenAI's, Anthropic's and Ollama's) is on at {listener.url}/v1 and /api")
    if elsewhere := listener.urls_elsewhere:
        say(f"On other devices of your network: {' or '.join(elsewhere)}")
    if not listener.loopback:
        plain = "" if listener.certificate else ", and nothing is encrypted"
        say(
            f"Listening on {settings.host}: everyone on the network who has the key can "
            f"read your chats and use the models{plain}. Use --host 127.0.0.1 for this "
            "machine only."
        )
        if made_up is not None:
            say(f"The key for this run is {made_up}; set your own with --api-key-file.")


def say(line: str) -> None:
    print(line, flush=True)
