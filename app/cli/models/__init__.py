"""``foretoken models``: what there is, what is on disk, what fits, and why a draft does not."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from app import paths
from app.cli import options
from app.cli.group import group
from app.cli.models import found, hub
from app.cli.text.output import harmless, table
from app.settings.defaults import Default, Defaults
from engine.api import LoadRequest
from engine.errors import InvalidRequest, ModelError
from engine.files import expanded
from engine.values import require
from engine.values.units import counted

if TYPE_CHECKING:
    from engine.loading.inventory import Inventory, ModelSpec

cli = group(help="List, check, download and export models. Without a command: list.")
for each in (
    found.export_gguf, found.drafts, found.add_folder, found.remove_folder, hub.search, hub.look_up,
    hub.check_catalog, hub.token, hub.connect, hub.forget_server, found.fit, found.disk, found.delete,
):  # fmt: skip
    cli.command()(each)


@cli.callback(invoke_without_command=True)
def models(
    context: typer.Context,
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """List the models if there is no subcommand."""
    command = context.invoked_subcommand
    if command is None:
        list_models(as_json, data_dir)
    elif as_json or data_dir:
        raise InvalidRequest(
            "data_dir", f"Give options after the command: foretoken models {command} --data-dir ..."
        )


@cli.command("list")
def list_models(
    as_json: options.JsonOption = False, data_dir: options.DataDirOption = None
) -> None:
    """List the catalog and the models of other programs: what is on disk, and what fits in memory."""
    inventory = found.inventory_in(data_dir)
    catalog = inventory.catalog
    entries = [describe(spec, inventory) for spec in catalog.models]
    rows = [
        (
            entry["id"],
            f"{entry['parameters'] / 1e6:,.0f} M" if entry["parameters"] else "?",
            entry["size"],
            entry["licence"] + (", gated" if entry["gated"] else ""),
            "yes" if entry["on_disk"] else "no",
            f"in {entry['held']}" if entry["fits"] else "?" if entry["fits"] is None else "no",
            entry["source"],
        )
        for entry in entries
    ]
    head = ("model", "parameters", "size", "licence", "on disk", "fits", "from")
    print(table(head, rows, frozenset({1, 2})))
    pairs = [
        (pair.id, pair.target.id, pair.draft.id if pair.draft else "-", pair.note)
        for pair in catalog.pairs
    ]
    print("\n" + table(("pair", "target", "draft", ""), pairs, frozenset()))
    servers = [(one.id, one.name, one.address) for one in catalog.servers]
    if servers:
        print("\n" + table(("server", "name", "address"), servers, frozenset()))
    others = list(inventory.scan())
    found.print_found(others)
    stored = Defaults(paths.data_folder(data_dir)).all().values()
    if stored:
        print()
        print_defaults(stored)
    if as_json:
        named = [
            {"id": p[0], "target": p[1], "draft": p[2] if p[2] != "-" else None} for p in pairs
        ]
        measured = [asdict(default) for default in stored]
        listed = {
            "models": entries,
            "pairs": named,
            "servers": [{"id": s[0], "name": s[1], "address": s[2]} for s in servers],
            "found": [found.facts(one) for one in others],
            "defaults": measured,
        }
        print(json.dumps(listed, ensure_ascii=False))


@cli.command()
def defaults(
    pair: str | None = Argument(None, help="With --clear: only this pair. Default: all."),
    clear: bool = Option(False, "--clear", help="Delete measured defaults."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show or delete the measured defaults of pairs."""
    stored = Defaults(paths.data_folder(data_dir))
    if clear:
        count = stored.clear(pair)
        none = f"{pair!r} has no measured default. To list them: foretoken models defaults"
        if pair is not None and not count:
            raise InvalidRequest("pair", none)
        print(f"Deleted {counted(count, 'measured default')}.")
        return
    chosen = [one for one in stored.all().values() if pair in (None, one.pair)]
    if not chosen:
        print("No measured defaults. `foretoken bench sweep --apply` makes one.")
    print_defaults(chosen, kinds=True)
    if as_json:
        print(json.dumps({"defaults": [asdict(default) for default in chosen]}, ensure_ascii=False))


def print_defaults(defaults: Collection[Default], kinds: bool = False) -> None:
    """Print one line per pair; with ``kinds``, the winner for each kind of prompt below it."""
    for default in defaults:
        print(f"Default of {default.pair} in {default.quantization}: {default}.")
        for kind, winner in default.kinds.items() if kinds else ():
            print(f"  {kind}: {winner}")


@cli.command()
def check(
    model: str = Argument(..., help="A folder, a GGUF file, or a model that is here."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show what a model's files hold, and whether it can run."""
    from engine.loading.inventory import estimate
    from engine.models.checkpoints.checkpoint import inspect
    from engine.values.units import format_bytes

    inventory = found.inventory_in(data_dir)
    spec = found.listed_as(model, inventory)
    place = inventory.locate(spec)
    if place is None:
        get = f" Get them: foretoken models download {model}" if spec.repository else ""
        raise ModelError(f"The files of {spec.name} are not on this machine.{get}")
    checkpoint, forecast = inspect(place), estimate([replace(spec, path=place)])
    architecture = harmless(checkpoint.architecture)
    print(
        f"{checkpoint.path}: {architecture}, {checkpoint.parameters:,} parameters "
        f"({checkpoint.dtype})\n{checkpoint.layers} layers, vocabulary {checkpoint.vocabulary:,}, "
        f"context {checkpoint.context:,} tokens, {format_bytes(checkpoint.bytes)} of weights"
    )
    print("It has a chat template." if checkpoint.has_chat_template else "It has no chat template.")
    print(forecast.sentence)
    if as_json:
        names = "architecture parameters layers vocabulary context bytes dtype".split()
        facts: dict[str, Any] = {name: getattr(checkpoint, name) for name in names}
        facts |= {"folder": str(checkpoint.path), "fits": forecast.memory_fit.fits}
        facts["chat_template"] = checkpoint.has_chat_template
        print(json.dumps(facts, ensure_ascii=False))


@cli.command()
def download(
    model: str = Argument(
        ..., help="A model or pair of the catalog, or a repository (owner/name)."
    ),
    file: str = Option("", help="The GGUF file to download, if the repository has several."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Download a model or a pair. Interrupted downloads resume."""
    from app.cli.loading import Status
    from engine.loading.inventory import names_repository

    inventory = found.inventory_in(data_dir)
    if names_repository(model):
        target, draft = hub.in_repository(model, file, inventory), None
    else:
        pairing = inventory.resolve(LoadRequest.parse(model))
        instead = "Leave it out, or give the model's repository, which `foretoken models` lists."
        require(not file, "file", f"chooses in a repository, which {model} is not. {instead}")
        target, draft = pairing.target, pairing.draft
    for spec in (target, *(target.companions if draft is None else (draft,))):
        with Status() as status:
            folder = inventory.download(spec, status.on_progress)
        print(f"{spec.name} is in {folder}")


@cli.command()
def why(
    target: str = Argument(
        ..., help="A model of the catalog or on this machine, a folder or a GGUF file."
    ),
    draft: str = Argument(..., help="The draft model or a head, named likewise."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Show whether a draft or head fits a target, as a load decides it, or why not."""
    inventory = found.inventory_in(data_dir)
    big = found.listed_as(target, inventory)
    if heads := LoadRequest.parse(f"{big.id}::{draft}").heads:
        head = inventory.judge_head(big, expanded(heads[0]))
        name, refused, how = head.title, head.reason, "."
    else:
        small = found.listed_as(draft, inventory)
        choice = inventory.judge_draft(big, small)
        name, refused = small.name, inventory.why_not(big, small)
        how = ": same vocabulary, smaller."
        if across := choice.cross_vocabulary:
            how = f", {across}."
        if choice.reason:
            how = f", but it is not worth it. {choice.reason}"
    if refused:
        print(f"{name} cannot draft for {big.name}. {refused}")
        raise typer.Exit(1)
    print(f"{name} can draft for {big.name}{how}")


def describe(spec: ModelSpec, inventory: Inventory) -> dict[str, Any]:
    """Return one model as facts. ``fits`` is None while its size is unknown."""
    from engine.loading.inventory import estimate
    from engine.values.units import format_bytes

    forecast = None
    with suppress(ModelError, InvalidRequest):  # unknown sizes, or a format it cannot have
        forecast = estimate([spec])
    return {
        "id": spec.id,
        "name": spec.name,
        "parameters": spec.parameters,
        "bytes": spec.bytes,
        "size": format_bytes(spec.bytes) if spec.bytes else "?",
        "licence": spec.licence,
        "gated": spec.gated,
        "on_disk": inventory.locate(spec) is not None,
        "fits": forecast and forecast.memory_fit.context > 0,
        "held": spec.gguf_type or (forecast and forecast.quantization),
        "source": spec.repository or str(spec.path),
    }
