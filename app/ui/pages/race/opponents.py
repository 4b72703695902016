"""Opponents of the loaded pair in a race: a pair on this machine, or a server."""

from __future__ import annotations

from contextlib import closing

from app import servers
from app.runtime import Runtime
from app.ui.controls.panel import rules_of
from app.ui.endpoints import View
from app.ui.pages.race.session import USUAL
from app.ui.words.names import titles
from engine.api import Capabilities, Loaded, LoadRequest
from engine.bench.reports import race as race_report
from engine.errors import ModelError
from engine.loading.inventory import Pairing
from engine.request import PLAIN
from engine.values.address import Address
from engine.values.method_titles import method_title
from engine.values.sampling import AcceptanceRule

_USUAL = {"name": USUAL}


def opponents(runtime: Runtime, loaded: Loaded) -> list[View]:
    """Return the pairs on this machine, and the servers of the catalog."""
    catalog, shown = runtime.catalog, (loaded.target_id, loaded.draft_id)
    found = [
        (each.id, each.name)
        for each in catalog.pairs
        if (each.target.id, each.draft and each.draft.id) != shown
        and all(spec is None or runtime.locate(spec) for spec in (each.target, each.draft))
    ]
    found += [(each.id, each.name) for each in catalog.servers if each.id != loaded.target_id]
    _, *names = titles(loaded.name, *(name for _, name in found))
    return [{"id": id, "name": name} for (id, _), name in zip(found, names, strict=True)]


def look(runtime: Runtime, request: LoadRequest) -> View:
    """Return what an opponent can do in a race, without loading it. Raises ForetokenError.

    ``told``: what the user should know before, or "".
    """
    pairing = runtime.inventory.resolve(request)
    if pairing.target.address:
        return _server(runtime, request, pairing)
    methods = [_USUAL, *({"name": name, "title": method_title(name)} for name in pairing.proposers)]
    return {
        "methods": methods,
        "rules": list(map(str, AcceptanceRule)),
        "told": _memory(runtime, request),
    }


def methods_of(capabilities: Capabilities) -> list[View]:
    """Return the proposers, plain decoding first."""
    names = sorted(capabilities.names, key=lambda name: name != PLAIN)
    return [{"name": name, "title": method_title(name)} for name in names]


def _server(runtime: Runtime, request: LoadRequest, pairing: Pairing) -> View:
    """Return what a server can do. It is not made to load a model for that, as others may use the one
    that it has loaded."""
    address = Address.parse(pairing.target.address)
    if address.model and (out := servers.puts_out(address)) is not None:
        told = f"{address.model} is not loaded on {address.place}. The race will load it"
        told += f" and unload {out}, which others may be using." if out else "."
        return {"methods": [_USUAL], "rules": [str(AcceptanceRule.AUTO)], "told": told}
    with closing(runtime.another_engine()) as engine:
        found = engine.load(request)
    methods = methods_of(found.capabilities)
    return {
        "methods": [_USUAL, *methods] if len(methods) > 1 else methods,
        "rules": rules_of(found.capabilities),
        "told": " ".join(race_report.unknown(found)),
    }


def _memory(runtime: Runtime, request: LoadRequest) -> str:
    """Return why the opponent does not fit into memory beside the loaded pair; "" if it does."""
    try:
        memory_fit = runtime.inventory.forecast(request, beside=True).memory_fit
    except ModelError as error:  # its files are not here
        return str(error)
    return "" if memory_fit.fits else memory_fit.sentence
