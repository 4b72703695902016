"""``foretoken serve``: the OpenAI-compatible API without the pages."""

from __future__ import annotations

from app import main
from app.cli import options
from engine.loading.request import LoadRequest


@options.with_load
def serve(
    port: options.PortOption = main.DEFAULT_PORT,
    host: options.HostOption = main.DEFAULT_HOST,
    load: LoadRequest = main.DEFAULT_LOAD,
    data_dir: options.DataDirOption = None,
    api_key: options.ApiKeyOption = None,
    allow_origin: options.OriginOption = None,
) -> None:
    """Serve the OpenAI-compatible API, without the pages."""
    main.serve(
        main.Settings(
            host=host,
            port=port,
            load=load,
            data_dir=data_dir,
            api=True,
            api_key=api_key,
            origins=tuple(allow_origin or ()),
            browser=False,
            pages=False,
        )
    )
