"""``foretoken models``: the hub's repositories, whether the catalog is as they are, and the token."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import paths
from app.cli import options
from app.cli.text.output import table
from engine.errors import DownloadError

if TYPE_CHECKING:
    from engine.loading.inventory import Inventory, Repository
    from engine.machine.secrets import Secret


def search(
    words: Annotated[list[str], typer.Argument(help="Words of a repository's name.")],
    as_json: options.JsonOption = False,
) -> None:
    """Search the hub for repositories of GGUF files, the most downloaded first."""
    from engine.loading.inventory import Catalog, Inventory

    hits = Inventory(Catalog((), ()), Path()).search(" ".join(words))
    rows = [(one.name, one.downloads, one.likes, "gated" if one.gated else "") for one in hits]
    if rows:
        shown = [(name, f"{down:,}", f"{likes:,}", gated) for name, down, likes, gated in rows]
        print(table(("repository", "downloads", "likes", ""), shown, frozenset({1, 2})))
        print(f"Its files and what fits: foretoken models look-up {hits[0].name}")
    else:
        print("The hub has no GGUF repository of that name. Try fewer words.")
    if as_json:
        keys = ("name", "downloads", "likes", "gated")
        found = [dict(zip(keys, (*row[:3], bool(row[3])), strict=True)) for row in rows]
        print(json.dumps({"repositories": found}, ensure_ascii=False))


def check_catalog(data_dir: options.DataDirOption = None) -> None:
    """Compare the catalog's names, files, sizes and gates with the hub; end with 1 if any differs."""
    from app.cli.loading import Status
    from app.inventory import open_inventory
    from engine.loading.inventory import compare_catalog, read_catalog_file

    entries = read_catalog_file(paths.catalog_file()).models
    texts = (
        name
        for entry in entries
        for key in ("checkpoints", "drafters")
        for name in entry.values.get(key, {}).values()
    )
    planned = [name for name in texts if name.count("/") == 1]
    planned += [one.values["repository"] for one in entries if one.values.get("plan_only")]
    with Status() as status:
        models = open_inventory(paths.data_folder(data_dir)).catalog.models
        problems = list(
            compare_catalog(models, planned, lambda name: status.say(f"Asking for {name}"))
        )
    print("\n".join(problems) or "The catalog is as the hub has it.")
    if problems:
        raise typer.Exit(1)


def look_up(
    repository: Annotated[str, typer.Argument(help="owner/name, or the address of its page.")],
    as_json: options.JsonOption = False,
) -> None:
    """Say what of a repository can be downloaded: its models, their sizes, its licence."""
    from engine.loading.inventory import Catalog, Inventory
    from engine.machine import memory
    from engine.values.units import format_bytes

    listing = Inventory(Catalog((), ()), Path()).look_up(repository)
    gated = ", gated" if listing.gated else ""
    print(f"{listing.name} ({listing.licence}{gated})")
    free = memory.free_bytes()
    rows = [
        (one.file or "-", one.format, format_bytes(one.bytes), "yes" if one.bytes < free else "no")
        for one in listing.choices
    ]
    if rows:
        print(table(("file", "type", "size", "fits"), rows, frozenset({2})))
    else:
        print(listing.reason)
    if as_json:
        models = [{"file": one.file, "bytes": one.bytes} for one in listing.choices]
        facts = {"name": listing.name, "licence": listing.licence, "gated": listing.gated}
        print(json.dumps({**facts, "reason": listing.reason, "models": models}, ensure_ascii=False))


def download_repository(text: str, file: str, inventory: Inventory) -> None:
    """Download the repository's only model, or the one in ``file``. Raises DownloadError."""
    from app.cli.loading import Status

    listing = inventory.look_up(text)
    spec = next((one for one in listing.choices if one.file == file), None)
    if spec is None and not file and len(listing.choices) == 1:
        spec = listing.choices[0]
    if spec is None:
        raise DownloadError(_which(listing, file))
    for one in (spec, *spec.companions):
        with Status() as status:
            place = inventory.download(one, status.on_progress)
        print(f"{one.name} is in {place}")


def _which(listing: Repository, file: str) -> str:
    if listing.reason:
        return listing.reason
    listed = ", ".join(one.file or "the whole (without --file)" for one in listing.choices)
    problem = f"holds no {file}" if file else "holds several models"
    return f"{listing.name} {problem}. Choose one with --file: {listed}."


def token(
    forget: Annotated[bool, typer.Option("--forget", help="Delete the kept one.")] = False,
) -> None:
    """Keep an access token for gated models, in the system's keyring or else in a file of your own.

    It is asked for, or read from standard input; never an argument, which other programs could see.
    """
    from engine.machine.secrets import hub_token

    secret = hub_token()
    if forget:
        print("Forgot the token." if secret.delete() else "No token was kept.")
        return
    store_secret("token", secret, read_secret("Access token"))


def read_secret(prompt: str) -> str:
    """Ask for a secret without showing it, or read it from standard input if that is no terminal."""
    terminal = sys.stdin.isatty()
    return str(typer.prompt(prompt, hide_input=True) if terminal else sys.stdin.readline()).strip()


def store_secret(name: str, secret: Secret, text: str) -> None:
    """Store a secret and print where. Raises InvalidRequest for a malformed one, DiskError."""
    from engine.machine.secrets import SecretSource

    if secret.store(text) is SecretSource.KEYRING:
        print(f"The {name} is kept in this system's keyring.")
    else:
        print(
            f"This system has no keyring, so the {name} is kept in {secret.file}, which you alone "
            "can read."
        )
