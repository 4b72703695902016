"""``foretoken models``: what lies on this machine and which of it can draft, the disk and memory that it
takes, and GGUF files for llama.cpp."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from app import paths
from app.cli import options
from app.cli.text.output import harmless, table
from app.inventory import model_folders
from engine.errors import CatalogError, InvalidRequest
from engine.values.method_titles import METHOD_TITLES

if TYPE_CHECKING:
    from engine.loading.inventory import FoundModel, Inventory, ModelSpec

Folder = Annotated[Path, typer.Argument(help="A folder with models; subfolders are included.")]


def inventory_in(data_dir: Path | None) -> Inventory:
    """Return the models of this machine and of a data folder."""
    from app.inventory import open_inventory

    return open_inventory(paths.data_folder(data_dir))


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
        print(harmless(f"{one.name} ({one.place}): {one.reason}"))


def facts(model: FoundModel) -> dict[str, Any]:
    """Return a model as JSON values; sizes are 0 if it cannot run."""
    spec = model.spec
    names = "name place architecture type bytes reason".split()
    return {name: getattr(model, name) for name in names} | {
        "path": str(model.path),
        "head": model.head or None,
        "parameters": spec.parameters if spec else 0,
        "context": spec.context if spec else 0,
        "images": bool(spec and spec.sees),
    }


def listed_as(text: str, inventory: Inventory) -> ModelSpec:
    """Return the model of an id, a path or a pair, or of a name of those that ``models`` finds on this
    machine. Raises as ``Inventory.named``."""
    from engine.api import LoadRequest

    try:
        return inventory.named(LoadRequest.parse(text)).target
    except CatalogError:
        named = [one.spec for one in inventory.scan() if one.spec and one.name == text]
        if len(named) == 1:
            return named[0]
        if not named:
            raise
        paths_of = ", ".join(str(spec.path) for spec in named)
        raise CatalogError(
            f"Several models here are named {text}. Give a path: {paths_of}."
        ) from None


def drafts(
    target: str = Argument(
        ..., help="A model of the catalog or on this machine, a folder or a GGUF file."
    ),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """List the models and heads on this machine that can draft for a model, and why not to use others."""
    inventory = inventory_in(data_dir)
    drafts, heads = inventory.drafts_here(listed_as(target, inventory))
    listed = [
        *({"name": one.spec.name, "path": str(one.spec.path), "head": None, "reason": one.reason,
           "cross_vocabulary": one.cross_vocabulary} for one in drafts),
        *({"name": one.title, "path": str(one.folder), "head": one.kind, "reason": one.reason,
           "cross_vocabulary": None} for one in heads),
    ]  # fmt: skip
    for one in listed:
        way = (
            "made for it" if one["head"] else one["cross_vocabulary"] or "same vocabulary, smaller"
        )
        print(harmless(f"{one['name']} ({one['path']})"))
        print(
            harmless(f"  {'not suitable' if one['reason'] else 'suitable'}: {one['reason'] or way}")
        )
    if not listed:
        print("No other model found. Add a folder with: foretoken models add-folder")
    if as_json:
        print(json.dumps({"target": target, "drafts": listed}, ensure_ascii=False))


def add_folder(folder: Folder, data_dir: options.DataDirOption = None) -> None:
    """Add a models folder."""
    print(
        f"Models in {model_folders.add_folder(paths.data_folder(data_dir), folder)} are now listed."
    )


def remove_folder(folder: Folder, data_dir: options.DataDirOption = None) -> None:
    """Remove a models folder from the list; its files stay."""
    model_folders.remove_folder(paths.data_folder(data_dir), folder)
    print(f"Models in {folder} are no longer listed.")


def disk(as_json: options.JsonOption = False, data_dir: options.DataDirOption = None) -> None:
    """List the disk space of downloads, largest first."""
    from engine.values.units import format_bytes

    inventory = inventory_in(data_dir)
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
    model: str = Argument(..., help="A name or path from `models disk`."),
    yes: bool = Option(False, "--yes", help="Delete without asking."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Delete a download, after asking. Quit apps that have it loaded first."""
    from engine.values.units import format_bytes

    inventory = inventory_in(data_dir)
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


def export_gguf(
    model: str = Argument(..., help="A model folder, or a model or pair of the catalog."),
    output: Path = Option(..., "-o", "--output", help="File to write."),
    draft: bool = Option(False, "--draft", help="Export the pair's draft instead of its target."),
    kind: str = Option("f16", "--type", help="f32, f16, bf16, q8_0 or q4_0."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Export a Llama model with its tokenizer as a GGUF file, for llama.cpp."""
    from app.cli.loading import Status
    from engine.api import LoadRequest
    from engine.errors import InvalidRequest
    from engine.models.checkpoints.gguf.write import export
    from engine.values.units import format_bytes

    inventory = inventory_in(data_dir)
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


def fit(
    pair: str = Argument(..., help="A pair or model of the catalog, or TARGET[::DRAFT]."),
    context: int | None = Option(
        None, help="Context in tokens. Default: what a load would choose."
    ),
    quantization: options.QuantizationOption = "auto",
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Calculate the memory of a pair (weights, KV caches, heads) without loading it."""
    from engine.api import AS_STORED, LoadRequest
    from engine.values.units import format_bytes

    request = LoadRequest.parse(pair, quantization=quantization, context=context)
    forecast = inventory_in(data_dir).forecast(request, context)
    memory_fit = forecast.memory_fit
    rows = [
        (
            "head" if model.name == METHOD_TITLES.get(role) else role,
            model.name,
            format_bytes(model.weights),
            format_bytes(model.kv),
        )
        for role, model in zip(forecast.roles, memory_fit.models, strict=True)
    ]
    rows.append(("overhead", "", format_bytes(memory_fit.work), ""))
    print(table(("", "model", "weights", "KV cache"), rows, frozenset({2, 3})))
    needed = format_bytes(memory_fit.needed)
    stored = forecast.quantization == AS_STORED
    held = "weights as in the file" if stored else f"in {forecast.quantization}"
    where = f" {forecast.where}" if forecast.where else ""
    print(f"With {forecast.context:,} tokens of context, {held}{where}: {needed} needed.")
    print(forecast.sentence)
    if context and context > forecast.longest:
        print(request.no_more(forecast.context))
    if as_json:
        facts = {
            "where": forecast.where,
            "notes": forecast.notes,
            "context": forecast.context,
            "longest": forecast.longest,
            "held": forecast.quantization,
        }
        print(
            json.dumps({**asdict(memory_fit), **facts, "roles": forecast.roles}, ensure_ascii=False)
        )
