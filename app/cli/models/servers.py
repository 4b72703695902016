"""``foretoken models``: servers, which models they have, and the keys for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from app import paths
from app.cli import options
from app.cli.models.hub import read_secret, store_secret
from app.cli.text.output import table
from engine.errors import InvalidRequest, ModelError


def connect(
    address: Annotated[str, typer.Argument(help="http://HOST:PORT[/v1][#MODEL]")],
    key: Annotated[
        bool,
        typer.Option(
            "--key", help="Ask for the server's key, or read it from standard input, and store it."
        ),
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Add its model to your catalog.")
    ] = True,
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
    print(f"{server.name} answers at {place.root}")
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
    print(table(("model", "context", "in memory"), rows, frozenset({1})))
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
    name: Annotated[str, typer.Argument(help="Its id in `foretoken models`.")],
    data_dir: options.DataDirOption = None,
) -> None:
    """Remove a server from your catalog, and its key."""
    from app import servers
    from app.inventory import open_inventory

    folder = paths.data_folder(data_dir)
    known = {each.id: each for each in open_inventory(folder).catalog.servers}
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InvalidRequest("server", f"There is no server {name!r}. Servers: {listed}.")
    servers.forget(folder, known[name])
    print(f"Forgot {known[name].name}.")
