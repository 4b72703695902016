"""``foretoken models fit``: what a pair takes of memory, part by part."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from app import paths
from app.cli import options
from app.cli.text.output import table


def fit_command(
    pair: Annotated[
        str, typer.Argument(help="A pair or model of the catalog, or TARGET[::DRAFT].")
    ],
    context: Annotated[
        int | None, typer.Option(help="Context in tokens. Default: as many as fit.")
    ] = None,
    quantization: options.QuantizationOption = "auto",
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Calculate the memory of a pair (weights, KV caches, heads) without loading it."""
    from app.inventory import open_inventory
    from engine.api import AS_STORED, LoadRequest
    from engine.values.units import format_bytes

    request = LoadRequest.parse(pair, quantization=quantization)
    forecast = open_inventory(paths.data_folder(data_dir)).forecast(request, context)
    memory_fit = forecast.memory_fit
    rows = [
        (role, model.name, format_bytes(model.weights), format_bytes(model.kv))
        for role, model in zip(forecast.roles, memory_fit.models, strict=True)
    ]
    rows.append(("overhead", "", format_bytes(memory_fit.work), ""))
    print(table(("", "model", "weights", "KV cache"), rows, frozenset({2, 3})))
    needed = format_bytes(memory_fit.needed)
    stored = forecast.quantization == AS_STORED
    held = "weights as in the file" if stored else f"in {forecast.quantization}"
    print(f"With {forecast.context:,} tokens of context, {held}: {needed} needed.")
    print(memory_fit.sentence)
    if as_json:
        facts = {
            "context": forecast.context,
            "longest": forecast.longest,
            "held": forecast.quantization,
        }
        print(
            json.dumps({**asdict(memory_fit), **facts, "roles": forecast.roles}, ensure_ascii=False)
        )
