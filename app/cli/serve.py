"""``foretoken serve``: the OpenAI-compatible API without the pages."""

from __future__ import annotations

from app import main
from app.cli import options
from engine.loading.request import LoadRequest


def serve(
    port: options.PortOption = main.DEFAULT_PORT,
    host: options.HostOption = main.DEFAULT_HOST,
    pair: options.PairOption = main.DEFAULT_PAIR,
    head: options.HeadOption = None,
    data_dir: options.DataDirOption = None,
    quantization: options.QuantizationOption = "auto",
    kv_cache_dtype: options.KVCacheOption = "auto",
    threads: options.ThreadsOption = None,
    native: options.NativeOption = True,
    device: options.DeviceOption = "auto",
    cuda_graphs: options.GraphsOption = True,
    api_key: options.ApiKeyOption = None,
    allow_origin: options.OriginOption = None,
) -> None:
    """Serve the OpenAI-compatible API, without the pages."""
    main.serve(
        main.Settings(
            host=host,
            port=port,
            load=LoadRequest.parse(
                pair,
                head or (),
                quantization=quantization,
                kv_cache_dtype=kv_cache_dtype,
                device=device,
                native=native,
                cuda_graphs=cuda_graphs,
                threads=threads,
            ),
            data_dir=data_dir,
            api=True,
            api_key=api_key,
            origins=tuple(allow_origin or ()),
            browser=False,
            pages=False,
        )
    )
