"""Options that several commands share, so that a flag means the same everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from engine.drafting import heads
from engine.errors import InvalidRequest
from engine.kernels.native import build
from engine.machine import devices
from engine.models.checkpoints.checkpoint import KV_CACHE_DTYPES, QUANTIZATIONS
from engine.request import AcceptanceRule, Control, controller_named

PairOption = Annotated[
    str,
    typer.Option(
        "--pair",
        metavar="PAIR",
        help="pip, another pair of the catalog, or TARGET_FOLDER[::DRAFT_FOLDER]. "
        "A head is added as ::HEAD_FOLDER.",
    ),
]
HeadOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--head",
        metavar="FOLDER",
        help="A head trained for the target (Medusa and others), added to the pair. Repeatable.",
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Where chats and settings are kept.")
]
HostOption = Annotated[
    str, typer.Option(help="The address to listen on; 127.0.0.1 is this machine only.")
]
PortOption = Annotated[int, typer.Option(help="The port; if it is taken, the next free one.")]
ApiKeyOption = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="FORETOKEN_API_KEY",
        help="The key that API clients must send; needed beyond this machine.",
    ),
]
OriginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin", help="A website whose pages may use the API, as https://name. Repeatable."
    ),
]
QuantizationOption = Annotated[
    str, typer.Option(help="auto (what suits model and machine), fp32, bf16, int8 or nf4.")
]
KVCacheOption = Annotated[
    str,
    typer.Option(
        "--kv-cache-dtype",
        help="auto (as the model computes), or fp8: half the memory, for the target on a CUDA GPU.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(help="Threads that compute. Default: one for each physical core."),
]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        help="Who decides how far to draft: auto (by measuring), fixed (always --depth) or off. "
        "Default: auto, or fixed where --depth is given."
    ),
]


def _use_native(value: bool) -> bool:
    if not value:
        os.environ[build.OFF] = "0"
    return value


NativeOption = Annotated[
    bool,
    typer.Option(
        "--native/--no-native",
        callback=_use_native,
        help="Whether models on a CPU run in the step that is compiled for this processor.",
    ),
]


def _use_device(value: str) -> str:
    if devices.check(value) != devices.DEVICES[0]:
        os.environ[devices.SETTING] = value
    return value


def _use_graphs(value: bool) -> bool:
    if not value:
        os.environ[devices.GRAPHS] = "0"
    return value


DeviceOption = Annotated[
    str,
    typer.Option(
        callback=_use_device,
        help="auto (a CUDA GPU if there is one that can), cpu or cuda.",
    ),
]
GraphsOption = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs",
        callback=_use_graphs,
        help="Whether rounds on a GPU are captured once and replayed.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


def with_heads(pair: str, folders: list[Path] | None) -> str:
    """``pair`` and the heads in ``folders``, as ``Catalog.resolve`` takes it. Raises ModelError."""
    from engine.loading.catalog import SEPARATOR

    for folder in folders or ():
        heads.check(folder)
    return SEPARATOR.join([pair, *map(str, folders or ())])


def check_quantization(value: str) -> str:
    """``value`` if this version has it; told before anything is fetched or loaded."""
    if value not in QUANTIZATIONS:
        raise InvalidRequest(
            "quantization",
            f"quantization is {value!r}; it must be one of {', '.join(QUANTIZATIONS)}.",
        )
    return value


def check_kv_cache(value: str) -> str:
    """``value`` if a KV cache can be kept so at all; told before anything is fetched or loaded."""
    if value not in KV_CACHE_DTYPES:
        raise InvalidRequest(
            "kv_cache_dtype",
            f"kv_cache_dtype is {value!r}; it must be one of {', '.join(KV_CACHE_DTYPES)}.",
        )
    return value


def control(text: str | None) -> Control | None:
    """The controller of that name, if one is named."""
    return None if text is None else controller_named(text)


def acceptance_rule(text: str) -> AcceptanceRule:
    """The rule of that name."""
    try:
        return AcceptanceRule(text)
    except ValueError as error:
        known = ", ".join(AcceptanceRule)
        raise InvalidRequest(
            "acceptance", f"acceptance is {text!r}; choose one of {known}."
        ) from error
