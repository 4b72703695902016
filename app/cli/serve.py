"""``foretoken ui`` and ``foretoken serve``: the app in the browser, or its API alone."""

from __future__ import annotations

from typing import Annotated

import typer

from app import main
from app.cli import options
from app.web.switch import Serving
from engine.api import LoadRequest
from engine.errors import InvalidRequest


@options.with_load
def ui(
    command: typer.Context,
    port: options.PortOption = main.DEFAULT_PORT,
    host: options.HostOption = main.DEFAULT_HOST,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    data_dir: options.DataDirOption = None,
    api: Annotated[
        bool, typer.Option("--api", help="Switch the OpenAI-compatible endpoint on.")
    ] = False,
    load: LoadRequest = main.DEFAULT_LOAD,
    api_key: options.ApiKeyOption = None,
    api_key_file: options.ApiKeyFileOption = None,
    allow_origin: options.OriginOption = None,
    load_on_demand: Annotated[
        bool,
        typer.Option(
            "--load-on-demand/--no-load-on-demand",
            help="Let API requests load the model that they name, in place of the one in the pages.",
        ),
    ] = False,
) -> None:
    """Open the app in the browser."""
    main.serve(
        main.Settings(
            host=host,
            port=port,
            load=load,
            fixed=options.stated(command),
            data_dir=data_dir,
            api=api,
            api_key=options.key_of(command, api_key, api_key_file),
            origins=tuple(allow_origin or ()),
            browser=browser,
            serving=Serving(load_on_demand),
        )
    )


@options.with_load
def serve(
    command: typer.Context,
    port: options.PortOption = main.DEFAULT_PORT,
    host: options.HostOption = main.DEFAULT_HOST,
    load: LoadRequest = main.DEFAULT_LOAD,
    data_dir: options.DataDirOption = None,
    api_key: options.ApiKeyOption = None,
    api_key_file: options.ApiKeyFileOption = None,
    allow_origin: options.OriginOption = None,
    load_on_demand: Annotated[
        bool,
        typer.Option(
            "--load-on-demand/--no-load-on-demand",
            help="Load the model that a request names, if it is on this machine's disk.",
        ),
    ] = True,
    idle_unload: options.IdleUnloadOption = None,
) -> None:
    """Serve the OpenAI-compatible API, without the pages."""
    if idle_unload is not None and not load_on_demand:
        raise InvalidRequest(
            "idle_unload", "--idle-unload needs --load-on-demand, or nothing would load them again."
        )
    main.serve(
        main.Settings(
            host=host,
            port=port,
            load=load,
            fixed=options.stated(command),
            data_dir=data_dir,
            api=True,
            api_key=options.key_of(command, api_key, api_key_file),
            origins=tuple(allow_origin or ()),
            browser=False,
            pages=False,
            serving=Serving(load_on_demand, idle_unload),
        )
    )
