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
    """List the disk space of downloads, largest first."""
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
        f"{format_bytes(total)} used in {inventory.models}, "
        f"{format_bytes(inventory.free_disk())} free."
    )
    if as_json:
        listed = [
            {"name": one.name, "path": str(one.path), "bytes": one.bytes} for one in downloads
        ]
        print(json.dumps({"folder": str(inventory.models), "kept": listed}, ensure_ascii=False))


def delete(
    model: Annotated[str, typer.Argument(help="A name or path from `models disk`.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Delete a download, after asking. Quit apps that have it loaded first."""
    from app.inventory import open_inventory
    from engine.values.units import format_bytes

    inventory = open_inventory(paths.data_folder(data_dir))
    downloads = inventory.downloaded()
    named = [one for one in downloads if model in (one.name, str(one.path))]
    if len(named) != 1:
        listed = ", ".join(one.name for one in downloads) or "none"
        what = "names several downloads" if named else "is not a download"
        raise InvalidRequest("model", f"{model} {what} in {inventory.models}. Downloads: {listed}.")
    one = named[0]
    if not yes and not typer.confirm(f"Delete {one.name}, {format_bytes(one.bytes)}?"):
        return
    print(f"Freed {format_bytes(inventory.delete(one.path, ()))}.")
