"""A served model's description and capabilities, as its server states them or its kind implies."""

from __future__ import annotations

from engine.api import Capabilities, Loaded, LoadRequest, ProposerInfo
from engine.errors import MALFORMED, ModelError, what_failed
from engine.loading.specs import ModelSpec
from engine.remote.errors import request_loop
from engine.remote.kinds import TRAITS, Kind
from engine.remote.reading import CALLS
from engine.remote.server import ServedModel, Server
from engine.request import SERVER, Control
from engine.wire import INSTANCE, capabilities_from_json, instances_in

_ABOUT = "as configured on the server"


def capabilities_of(server: Server, model: ServedModel) -> Capabilities:
    """Return what ``model`` can do. Raise ModelError if a Foretoken's answer cannot be read."""
    if server.kind is Kind.FORETOKEN:
        try:
            return capabilities_from_json(model.entry["capabilities"])
        except MALFORMED as error:
            raise ModelError(
                f"{server.address.place} ({server.name}) describes itself in a way this version "
                f"cannot read: {what_failed(error)}. Update both to the same version of Foretoken."
            ) from error
    traits = TRAITS[server.kind]
    return Capabilities(
        proposers=(ProposerInfo(SERVER, about=_ABOUT),),
        preferred=SERVER,
        rules=(),
        sampling=frozenset(traits.sampling),
        controllers=(Control.AUTO,),
        rounds=False,
        probabilities=False,
        tokens=False,
        logit_bias=traits.logit_bias,
        top_logprobs=False,
        grammars=bool(traits.grammars),
        calls=CALLS if traits.tools else None,
        images=True,  # only the server knows, and refuses what its model cannot see
    )


def loaded_of(
    request: LoadRequest, spec: ModelSpec, server: Server, model: ServedModel, key: bool
) -> Loaded:
    """Return what pages, API and command line show of the model. ``key``: a key is sent.

    Raise as ``capabilities_of``, and ServerError for a server that is connected to this process.
    """
    via = instances_in(model.entry.get("via"))
    if INSTANCE in via:
        raise request_loop(server.address)
    entry = (
        model.entry if server.kind is Kind.FORETOKEN else {}
    )  # others mean other things by these
    draft = None if entry.get("draft") is None else str(entry["draft"])
    heads = entry.get("heads")
    return Loaded(
        request=request,
        name=f"{entry.get('name') or model.id} on {server.address.place}",
        target=model.id,
        draft=draft,
        target_id=spec.id,
        draft_id=None,
        target_name=str(entry.get("target") or model.id),
        draft_name=draft,
        heads=tuple(map(str, heads)) if isinstance(heads, list) else (),
        context=model.context,
        vocabulary=model.vocabulary,
        parameters=model.parameters,
        quantization=model.quantization,
        kv_cache_dtype=str(entry.get("kv_cache_dtype") or ""),
        device=str(entry.get("device") or ""),
        capabilities=capabilities_of(server, model),
        notes=_notes(server, key),
        compiled=bool(entry.get("compiled")),
        server=f"{server.name} at {server.address.root}",
        via=via,
    )


def _notes(server: Server, key: bool) -> tuple[str, ...]:
    notes = []
    if server.address.is_open:
        what = "The key and all messages are" if key else "All messages are"
        notes.append(
            f"{what} sent to {server.address.place} unencrypted; others on the network can "
            "read them."
        )
    if server.kind is Kind.OTHER:
        notes.append("Unknown kind of server, so its drafting and acceptance are unknown.")
    return tuple(notes)
