"""``foretoken models``: the hub's repositories, whether the catalog is as they are, servers, and secrets
for both."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from app import paths
from app.cli import options
from app.cli.models.found import inventory_in
from app.cli.text.output import harmless, table
from engine.errors import DownloadError, InvalidRequest, ModelError

if TYPE_CHECKING:
    from engine.loading.inventory import Inventory, ModelSpec
    from engine.machine.secrets import Secret


def search(
    words: list[str] = Argument(..., help="Words of the repository's name."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Search Hugging Face for GGUF repositories, most downloaded first."""

    hits = inventory_in(data_dir).search(" ".join(words))
    if hits:
        rows = [
            (one.name, f"{one.downloads:,}", f"{one.likes:,}", "gated" if one.gated else "")
            for one in hits
        ]
        print(table(("repository", "downloads", "likes", ""), rows, frozenset({1, 2})))
        print(f"Files and what fits: foretoken models look-up {hits[0].name}")
    else:
        print("No GGUF repository found. Try fewer words.")
    if as_json:
        print(json.dumps({"repositories": list(map(asdict, hits))}, ensure_ascii=False))


def check_catalog(data_dir: options.DataDirOption = None) -> None:
    """Compare the catalog with Hugging Face; exit status 1 if anything differs."""
    from app.cli.loading import Status
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
        models = inventory_in(data_dir).catalog.models
        problems = list(
            compare_catalog(models, planned, lambda name: status.say(f"Asking for {name}"))
        )
    print("\n".join(problems) or "The catalog matches Hugging Face.")
    if problems:
        raise typer.Exit(1)


def look_up(
    repository: str = Argument(..., help="owner/name, or its web address."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show a repository's models, sizes and licence."""
    from engine.loading.inventory import room_for_weights
    from engine.values.units import format_bytes

    listing = inventory_in(data_dir).look_up(repository)
    gated = ", gated" if listing.gated else ""
    print(harmless(f"{listing.name} ({listing.licence}{gated})"))
    room, _ = room_for_weights()
    rows = [
        (one.file or "-", one.format, format_bytes(one.bytes), "yes" if one.bytes < room else "no")
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


def in_repository(text: str, file: str, inventory: Inventory) -> ModelSpec:
    """Return the repository's only model, or the one in ``file``. Raises DownloadError."""
    listing = inventory.look_up(text)
    spec = next((one for one in listing.choices if one.file == file), None)
    if spec is None and not file and len(listing.choices) == 1:
        spec = listing.choices[0]
    if spec is None:
        listed = ", ".join(one.file or "the whole (without --file)" for one in listing.choices)
        problem = f"holds no {file}" if file else "has several models"
        which = f"{listing.name} {problem}. Choose one with --file: {listed}."
        raise DownloadError(listing.reason or which)
    return spec


def token(forget: bool = Option(False, "--forget", help="Delete the stored token.")) -> None:
    """Store an access token for gated models, in the system keyring or else in a private file.

    The token is asked for, or read from standard input. It is not an argument, so other programs do not
    see it.
    """
    from engine.machine.secrets import hub_token

    secret = hub_token()
    if forget:
        print("Token deleted." if secret.delete() else "No token is stored.")
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
        print(f"The {name} is stored in the system keyring.")
    else:
        print(
            f"This system has no keyring, so the {name} is stored in {secret.file}, "
            "readable only by you."
        )


def connect(
    address: str = Argument(..., help="http://HOST:PORT[/v1][#MODEL]"),
    key: bool = Option(
        False,
        "--key",
        help="Ask for the server's key, or read it from standard input, and store it.",
    ),
    keep: bool = Option(True, "--keep/--no-keep", help="Add its model to your catalog."),
    as_json: options.JsonOption = False,
    data_dir: options.DataDirOption = None,
) -> None:
    """Show which server is at an address and its models; save the named model, or the only one.

    The key is asked for. It is not an argument, so other programs do not see it.
    """
    from app import servers
    from app.cli.loading import Status
    from engine.machine.secrets import server_key
    from engine.values.address import Address

    place = Address.parse(address)
    secret = read_secret("Key") if key else ""
    server = servers.look(place, secret)
    print(harmless(f"{server.name} answers at {place.root}"))
    if not server.models:
        raise ModelError("No models found there. Load one there first, then try again.")
    rows = [
        (
            each.id,
            f"{each.context:,}" if each.context else "?",
            {True: "yes", False: "no", None: "?"}[each.loaded],
        )
        for each in server.models
    ]
    print(harmless(table(("model", "context", "in memory"), rows, frozenset({1}))))
    one = place.model or len(server.models) == 1
    model = server.model(place.model) if one else None
    if keep and model is not None:
        with Status() as status:
            servers.try_out(replace(place, model=model.id), secret, status)
    if secret:
        store_secret("key", server_key(place), secret)
    kept = None
    if keep and model is not None:
        kept = servers.keep(paths.data_folder(data_dir), place, model.id)
        print(f"Saved as {kept}: foretoken ui --pair {kept}")
    elif keep:
        print(f"To save one: foretoken models connect '{place.root}#MODEL'")
    if as_json:
        models = [{"id": each.id, "context": each.context or None} for each in server.models]
        facts = {"kind": server.kind, "version": server.version, "models": models, "kept": kept}
        print(json.dumps(facts, ensure_ascii=False))


def forget_server(
    name: str = Argument(..., help="Its id in `foretoken models`."),
    data_dir: options.DataDirOption = None,
) -> None:
    """Remove a server from your catalog, and its key."""
    from app import servers

    folder = paths.data_folder(data_dir)
    known = {each.id: each for each in inventory_in(folder).catalog.servers}
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InvalidRequest("server", f"There is no server {name!r}. Servers: {listed}.")
    servers.forget(folder, known[name])
    print(f"Forgot {known[name].name}.")
