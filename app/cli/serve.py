"""``foretoken ui`` and ``foretoken serve``: the app in the browser, or its API alone."""

from __future__ import annotations

from typing import Annotated

import typer

from app import main
from app.cli import options
from app.web.switch import Serving
from engine.api import LoadRequest


@options.with_load
def ui(
    command: typer.Context,
    port: options.PortOption = main.DEFAULT_PORT,
    host: options.HostOption = main.DEFAULT_HOST,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    data_dir: options.DataDirOption = None,
    api: Annotated[bool, typer.Option("--api", help="Turn the API on.")] = False,
    load: LoadRequest = main.DEFAULT_LOAD,
    api_key: options.ApiKeyOption = None,
    api_key_file: options.ApiKeyFileOption = None,
    allow_origin: options.OriginOption = None,
    tls_cert: options.TlsCertOption = None,
    tls_key: options.TlsKeyOption = None,
    load_on_demand: Annotated[
        bool,
        typer.Option(
            "--load-on-demand/--no-load-on-demand",
            help="API requests may load another model, in place of the one in the pages.",
        ),
    ] = False,
    idle_unload: options.IdleUnloadOption = None,
    models_max: options.ModelsMaxOption = 1,
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
            certificate=options.certificate_of(tls_cert, tls_key),
            browser=browser,
            serving=Serving(load_on_demand, idle_unload, models_max),
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
    tls_cert: options.TlsCertOption = None,
    tls_key: options.TlsKeyOption = None,
    load_on_demand: Annotated[
        bool,
        typer.Option(
            "--load-on-demand/--no-load-on-demand",
            help="Load the model that a request names, if it is on this machine.",
        ),
    ] = True,
    idle_unload: options.IdleUnloadOption = None,
    models_max: options.ModelsMaxOption = 1,
) -> None:
    """Serve OpenAI's, Anthropic's and Ollama's API, without the pages."""
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
            certificate=options.certificate_of(tls_cert, tls_key),
            browser=False,
            pages=False,
            serving=Serving(load_on_demand, idle_unload, models_max),
        )
    )
