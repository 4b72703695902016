"""``foretoken models disk`` and ``delete``: what downloads take, and freeing it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app import paths
from app.cli import options
from app.cli.text.output import table
from engine.errors import InvalidRequest


def disk(as_json: options.JsonOption = False, data_dir: options.DataDirOption = None) -> None:
    """List what the downloads take on the disk, big ones first."""
    from app.inventory import open_inventory
    from engine.values.units import format_bytes

    inventory = open_inventory(paths.data_folder(data_dir))
    downloads = inventory.downloaded()
    rows = [
        (one.name, format_bytes(one.bytes), "unfinished" if one.unfinished else "", str(one.path))
        for one in downloads
    ]
    print(table(("model", "size", "", "path"), rows, frozenset({1})))
    total = sum(one.bytes for one in downloads)
    print(
        f"{format_bytes(total)} in {inventory.models}; {format_bytes(inventory.free_disk())} are free."
    )
    if as_json:
        listed = [
            {"name": one.name, "path": str(one.path), "bytes": one.bytes} for one in downloads
        ]
        print(json.dumps({"folder": str(inventory.models), "kept": listed}, ensure_ascii=False))


def delete(
    model: Annotated[str, typer.Argument(help="A name or path that `models disk` lists.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Delete a download, after asking. An app that has it loaded must be ended first: it is not asked."""
    from app.inventory import open_inventory
    from engine.values.units import format_bytes

    inventory = open_inventory(paths.data_folder(data_dir))
    downloads = inventory.downloaded()
    named = [one for one in downloads if model in (one.name, str(one.path))]
    if len(named) != 1:
        listed = ", ".join(one.name for one in downloads) or "none"
        what = "names several downloads" if named else "is no download"
        raise InvalidRequest("model", f"{model} {what} in {inventory.models}. There are: {listed}.")
    one = named[0]
    if not yes and not typer.confirm(f"Delete {one.name}, {format_bytes(one.bytes)}?"):
        return
    print(f"Freed {format_bytes(inventory.delete(one.path, ()))}.")
