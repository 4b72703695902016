"""``foretoken models``: what lies on this machine already, and which of it can draft for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import paths
from app.cli import options
from app.cli.text.output import table
from app.inventory.model_folders import add_folder, remove_folder

if TYPE_CHECKING:
    from engine.loading.inventory import FoundModel

Folder = Annotated[Path, typer.Argument(help="A folder with models; subfolders are included.")]


def print_found(models: list[FoundModel]) -> None:
    """Print a table of models that can run, and one line for each of the others."""
    from engine.values.units import format_bytes

    rows = [
        (
            one.name,
            one.head or one.architecture + (", images" if one.spec and one.spec.sees else ""),
            one.type,
            format_bytes(one.bytes),
            one.place,
            str(one.path),
        )
        for one in models
        if one.reason is None
    ]
    if rows:
        head = ("on this machine", "architecture", "type", "size", "from", "path")
        print("\n" + table(head, rows, frozenset({3})))
    unusable = [one for one in models if one.reason is not None]
    if unusable:
        print("\nUnsupported files:")
    for one in unusable:
        print(f"{one.name} ({one.place}): {one.reason}")


def facts(model: FoundModel) -> dict[str, Any]:
    """Return a model as JSON values; sizes are 0 if it cannot run."""
    spec = model.spec
    return {
        "name": model.name,
        "path": str(model.path),
        "place": model.place,
        "architecture": model.architecture,
        "type": model.type,
        "head": model.head or None,
        "bytes": model.bytes,
        "parameters": spec.parameters if spec else 0,
        "context": spec.context if spec else 0,
        "images": bool(spec and spec.sees),
        "reason": model.reason,
    }


def drafts(
    target: Annotated[str, typer.Argument(help="A model of the catalog, a folder or a GGUF file.")],
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """List the models on this machine that can draft for a model, and why others cannot."""

    from app.inventory import open_inventory
    from engine.api import LoadRequest

    inventory = open_inventory(paths.data_folder(data_dir))
    choices = inventory.drafts_here(inventory.resolve(LoadRequest.parse(target)).target)
    for choice in choices:
        way = choice.cross_vocabulary or "same vocabulary, smaller"
        print(f"{choice.spec.name} ({choice.spec.path})")
        print(
            f"  {'compatible: ' + way if choice.fits else 'not compatible: ' + str(choice.reason)}"
        )
    if not choices:
        print("No other model found. Add a folder with: foretoken models add-folder")
    if as_json:
        listed = [
            {
                "name": choice.spec.name,
                "path": str(choice.spec.path),
                "reason": choice.reason,
                "cross_vocabulary": choice.cross_vocabulary,
            }
            for choice in choices
        ]
        print(json.dumps({"target": target, "drafts": listed}, ensure_ascii=False))


def add_model_folder(folder: Folder, data_dir: options.DataDirOption = None) -> None:
    """Add a models folder."""
    print(f"Models in {add_folder(paths.data_folder(data_dir), folder)} are now listed.")


def remove_model_folder(folder: Folder, data_dir: options.DataDirOption = None) -> None:
    """Remove a models folder from the list; its files stay."""
    remove_folder(paths.data_folder(data_dir), folder)
    print(f"Models in {folder} are no longer listed.")
