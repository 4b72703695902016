"""Servers: ask one, connect to try it, and store or remove its entry in the user's own catalog."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app import paths
from app.inventory import open_inventory, own_catalog
from engine.api import LoadRequest, slug
from engine.errors import DiskError, InvalidRequest
from engine.machine.secrets import server_key
from engine.values.address import Address

if TYPE_CHECKING:
    from engine.api import Watcher
    from engine.loading.inventory import ModelSpec
    from engine.remote.server import Server

SECTION = "servers"


def look(address: Address, key: str = "") -> Server:
    """Ask a server what it is and which models it has, with ``key`` or else the stored key. Blocks.

    Raises ServerError if nothing answers, or something that is no such server.
    """
    from engine.remote.engine import look_at

    return look_at(address, key.strip() or server_key(address).get()[0])


def try_out(address: Address, key: str = "", watcher: Watcher | None = None) -> None:
    """Connect to a model as a load does, with ``key`` or else the stored key, and disconnect. Blocks.
    Raises ServerError, ModelError."""
    from engine.remote.engine import RemoteEngine

    engine = RemoteEngine(key_of=lambda place: key.strip() or server_key(place).get()[0])
    with closing(engine):
        engine.load(LoadRequest(target=address.text), watcher)


def puts_out(address: Address) -> str | None:
    """Return the model that a server would unload to load the address's model: "" if it has none loaded,
    None if the address's model is loaded already. Raises as ``look``, and ModelError."""
    server = look(address)
    if not server.loads(server.model(address.model)):
        return None
    return next((each.id for each in server.models if each.loaded), "")


def keep(data_dir: Path, address: Address, model: str) -> str:
    """Add a model of a server to the user's own catalog, unless it is there, and return its id.

    Raises CatalogError for a broken file, and DiskError.
    """
    named = replace(address, model=model)
    name = f"{model} on {address.place}"
    entry = {"id": slug(name), "name": name, "address": address.root, "model": model}
    file, shipped = paths.own_catalog(data_dir), paths.catalog_file()
    while not own_catalog.is_free(file, shipped, SECTION, entry):
        if _address_of(data_dir, entry["id"]) == named:  # which the user renamed
            return entry["id"]
        entry["id"] += "-2"
    try:
        own_catalog.add(file, shipped, SECTION, entry)
    except OSError as error:
        raise DiskError.at(file.parent, error) from error
    return entry["id"]


def forget(data_dir: Path, spec: ModelSpec) -> None:
    """Remove a server from the user's own catalog, and its key unless another entry has the same
    server. Raises CatalogError, DiskError, and InvalidRequest for another's entry."""
    file, shipped = paths.own_catalog(data_dir), paths.catalog_file()
    try:
        if not own_catalog.remove(file, shipped, SECTION, spec.id):
            raise InvalidRequest(
                "server", f"{spec.name} is not in {file}, so it cannot be removed."
            )
    except OSError as error:
        raise DiskError.at(file.parent, error) from error
    address = Address.parse(spec.address)
    others = (Address.parse(each.address) for each in open_inventory(data_dir).catalog.servers)
    if all(other.root != address.root for other in others):
        server_key(address).delete()


def _address_of(data_dir: Path, identity: str) -> Address | None:
    found = (each for each in open_inventory(data_dir).catalog.servers if each.id == identity)
    return next((Address.parse(each.address) for each in found), None)
