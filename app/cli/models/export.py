"""``foretoken models export-gguf``: a model for llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.cli import options


def export_gguf(
    model: Annotated[
        str, typer.Argument(help="A model folder, or a model or pair of the catalog.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    draft: Annotated[
        bool, typer.Option("--draft", help="Export the pair's draft instead of its target.")
    ] = False,
    kind: Annotated[str, typer.Option("--type", help="f32, f16, bf16, q8_0 or q4_0.")] = "f16",
    data_dir: options.DataDirOption = None,
) -> None:
    """Export a Llama model with its tokenizer as a GGUF file, for llama.cpp."""
    from app.cli.loading import Status
    from app.inventory import open_inventory
    from engine.api import LoadRequest
    from engine.errors import InvalidRequest
    from engine.models.checkpoints.gguf.write import export
    from engine.values.units import format_bytes

    inventory = open_inventory(paths.data_folder(data_dir))
    pairing = inventory.resolve(LoadRequest.parse(model))
    spec = pairing.draft if draft else pairing.target
    if spec is None:
        raise InvalidRequest("draft", f"{model} has no draft. Leave --draft out.")
    with Status() as status:
        folder = inventory.download(spec, status.on_progress)
        status.say(f"Writing {output} ...")
        done = export(folder, output, kind)
    print(f"{spec.name} is in {done.file} ({format_bytes(done.bytes)}).")
    for note in done.notes:
        print(f"Note: {note}")
