"""Identify a server: its kind, version and models.

Kinds differ by ``owned_by`` in ``/v1/models`` and by endpoints that only one of them has:

    Foretoken      "foretoken"
    vLLM           "vllm"; its version is at /version
    SGLang         "sglang"; /server_info, which was /get_server_info
    TensorRT-LLM   "tensorrt_llm"; /version
    llama-server   "llamacpp"; /props has build_info
    Dynamo         "nvidia", or whatever a worker registers; /health has instances and endpoints
    LM Studio      "organization_owner"; /api/v0/models
    Ollama         "library", or a user's name; /api/version, and "Ollama is running" at the root

Several implement other protocols too (Foretoken and SGLang speak Ollama's), so ``owned_by`` is checked
before endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ModelError
from engine.files import parse_json
from engine.remote.connection import QUERY_S, Client
from engine.remote.errors import protocol_error
from engine.remote.kinds import SGLANG_INFO, Kind
from engine.remote.reading import object_in
from engine.remote.statistics import whole
from engine.values.address import Address

Json = Mapping[str, Any]

_SHOWN = 20
"""Maximum models that a message lists."""
_OWNERS = {
    "foretoken": Kind.FORETOKEN,
    "vllm": Kind.VLLM,
    "sglang": Kind.SGLANG,
    "tensorrt_llm": Kind.TENSORRT_LLM,
    "llamacpp": Kind.LLAMA_SERVER,
}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One of a server's models. What the server does not state is 0 or "".

    ``loaded``: it is in memory; None if the server does not state it. ``entry``: its entry in the list.
    """

    id: str
    entry: Json
    context: int = 0
    parameters: int = 0
    vocabulary: int = 0
    quantization: str = ""
    loaded: bool | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """The server at an address. ``models`` are in its own order, loaded ones first."""

    address: Address
    kind: Kind
    version: str
    models: tuple[ServedModel, ...]

    @property
    def name(self) -> str:
        """The display name."""
        return "".join(filter(str.isprintable, f"{self.kind} {self.version}".strip()))

    def model(self, wanted: str) -> ServedModel:
        """Return the model of that id, with or without a tag; the first for "". Raise ModelError."""
        if not self.models:
            raise ModelError(
                f"{self.address.place} ({self.name}) has no models. Load one there first."
            )
        if not wanted:
            return self.models[0]
        names = (wanted, f"{wanted}:latest")
        for each in self.models:
            if each.id in names or wanted in (each.entry.get("name"), each.entry.get("target")):
                return each
        known = ", ".join(each.id for each in self.models[:_SHOWN])
        raise ModelError(
            f"{self.address.place} ({self.name}) has no model {wanted!r}. It has: {known}."
        )

    def loads(self, model: ServedModel) -> bool:
        """Return True if the server must load ``model`` first: a Foretoken states capabilities only of a
        model in memory."""
        return self.kind is Kind.FORETOKEN and model.loaded is False


async def look(client: Client) -> Server:
    """Identify the server. Raise what httpx2 and openai raise, and ServerError for what is no API."""
    listed = await _listed(client)
    kind, version = await _identify(client, listed)
    if kind is Kind.LM_STUDIO:
        listed = await _of_lm_studio(client) or listed
    models = [_model(kind, entry) for entry in listed if entry["id"].isprintable()]
    if kind is Kind.LLAMA_SERVER and len(models) == 1:
        models = [await _of_props(client, models[0])]
    models.sort(key=lambda each: each.loaded is False)
    return Server(client.address, kind, version, tuple(models))


async def ensure_loaded(client: Client, server: Server, wanted: str) -> tuple[Server, ServedModel]:
    """Return the model ``wanted``, loaded by the server if it ``loads`` it.

    Raise as ``look`` and ``Server.model``.
    """
    model = server.model(wanted)
    if not server.loads(model):
        return server, model
    place = server.address.place
    if not wanted:
        known = ", ".join(each.id for each in server.models[:_SHOWN])
        raise ModelError(
            f"{place} ({server.name}) has no model loaded. Choose one with "
            f"{server.address.root}#MODEL. It has: {known}."
        )
    # Ollama's way to load: a request without a prompt.
    body = {"model": model.id, "stream": False}
    await client.speaking(server.address.root).post("/api/generate", body=body, cast_to=object)
    server = await look(client)
    target = model.entry.get("target")
    for each in server.models:
        if each.loaded and each.entry.get("target") == target:
            # This id loads it again if another model replaces it.
            return server, replace(each, id=model.id)
    raise ModelError(
        f"{place} ({server.name}) loaded {model.id!r}, but now has another model "
        "loaded: others use it too. Try again."
    )


async def _listed(client: Client) -> list[Json]:
    """Return the entries of ``/v1/models``."""
    page = await client.openai.models.with_raw_response.list(timeout=QUERY_S)
    answer = page.http_response
    try:
        page_json = parse_json(answer.content)
        entries = [each for each in page_json.get("data") or () if isinstance(each["id"], str)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        kind = answer.headers.get("content-type", "no content type")
        raise protocol_error(client.address, kind) from error
    return entries


async def _identify(client: Client, listed: list[Json]) -> tuple[Kind, str]:
    owners = {str(each.get("owned_by", "")) for each in listed}
    for owner, kind in _OWNERS.items():
        if owner in owners:
            return kind, await _version(client, kind)
    health = await client.find_json("/health")
    if isinstance(health, dict) and "instances" in health and "endpoints" in health:
        return Kind.DYNAMO, ""
    if await _of_lm_studio(client):
        return Kind.LM_STUDIO, ""
    root = await client.find("/")
    if root is not None and root.text[:64].startswith("Ollama is running"):
        return Kind.OLLAMA, await _version(client, Kind.OLLAMA)
    props = await client.find_json("/props")
    if isinstance(props, dict) and "build_info" in props:
        return Kind.LLAMA_SERVER, str(props["build_info"])
    return Kind.OTHER, ""


_VERSIONS = {
    Kind.VLLM: ("version", "/version"),
    Kind.TENSORRT_LLM: ("version", "/version"),
    Kind.SGLANG: ("version", *SGLANG_INFO),
    Kind.OLLAMA: ("version", "/api/version"),
    Kind.FORETOKEN: ("foretoken", "/api/version"),
    Kind.LLAMA_SERVER: ("build_info", "/props"),
}
"""The field and the paths of each kind's version."""


async def _version(client: Client, kind: Kind) -> str:
    name, *paths = _VERSIONS[kind]
    info = await client.find_json(*paths)
    return str(info.get(name) or "") if isinstance(info, dict) else ""


async def _of_lm_studio(client: Client) -> list[Json]:
    """Return the chat models in LM Studio's own API."""
    answer = await client.find_json("/api/v0/models")
    entries = answer.get("data") if isinstance(answer, dict) else None
    return [
        each
        for each in entries or ()
        if isinstance(each, dict)
        and isinstance(each.get("id"), str)
        and "state" in each
        and each.get("type") != "embeddings"
    ]


async def _of_props(client: Client, model: ServedModel) -> ServedModel:
    """Add llama-server's context of one slot, which its list may lack."""
    props = await client.find_json("/props")
    if not isinstance(props, dict):
        return model
    context = whole(object_in(props, "default_generation_settings").get("n_ctx"))
    return replace(
        model,
        context=context or model.context,
        quantization=str(props.get("model_ftype") or model.quantization),
    )


def _model(kind: Kind, entry: Json) -> ServedModel:
    meta = object_in(entry, "meta")
    loaded: bool | None = entry["loaded"] if isinstance(entry.get("loaded"), bool) else None
    if kind is Kind.LM_STUDIO:
        loaded = entry.get("state") == "loaded"
    context = (
        entry.get("max_model_len")
        or meta.get("n_ctx")
        or entry.get("loaded_context_length")
        or entry.get("max_context_length")
        or entry.get("context_window")
    )
    return ServedModel(
        entry["id"],
        entry,
        whole(context) or 0,
        whole(entry.get("parameters") or meta.get("n_params")) or 0,
        whole(entry.get("vocabulary") or meta.get("n_vocab")) or 0,
        str(entry.get("quantization") or ""),
        loaded,
    )
