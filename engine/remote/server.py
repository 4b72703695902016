"""What a server is, found out by asking: its kind, its version, its models.

Told apart by ``owned_by`` in ``/v1/models``, and by what only one of them answers beside that:

    Foretoken      "foretoken"
    vLLM           "vllm"; its version is at /version
    SGLang         "sglang"; /server_info, which was /get_server_info
    TensorRT-LLM   "tensorrt_llm"; /version
    llama-server   "llamacpp"; /props has build_info
    Dynamo         "nvidia", or whatever a worker registers; /health has instances and endpoints
    LM Studio      "organization_owner"; /api/v0/models
    Ollama         "library", or a user's name; /api/version, and "Ollama is running" at the root

Several of them answer what others' clients ask (Foretoken and SGLang speak Ollama's protocol too), so who
says who he is goes before what he answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from engine.errors import ModelError
from engine.files import parse_json
from engine.remote.connection import QUESTION_S, Client
from engine.remote.errors import protocol_error
from engine.remote.kinds import SGLANG_INFO, Kind
from engine.remote.reply_usage import whole
from engine.values.address import Address

Json = Mapping[str, Any]

_SHOWN = 20
"""Most models that a message lists."""
_OWNERS = {
    "foretoken": Kind.FORETOKEN,
    "vllm": Kind.VLLM,
    "sglang": Kind.SGLANG,
    "tensorrt_llm": Kind.TENSORRT_LLM,
    "llamacpp": Kind.LLAMA_SERVER,
}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One of a server's models. What the server does not tell is 0 or "".

    ``loaded``: whether it is in memory; None where the server does not say. ``entry``: all that it says.
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
    """Who answers at an address. ``models`` are in the order in which it lists them, loaded ones
    first."""

    address: Address
    kind: Kind
    version: str
    models: tuple[ServedModel, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind} {self.version}".strip()

    def model(self, wanted: str) -> ServedModel:
        """The model of that id, or of that id without a tag; the first for "". Raises ModelError."""
        if not self.models:
            raise ModelError(
                f"{self.address.place} ({self.name}) lists no models, so there is nothing to ask. "
                "Load one there first."
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
        """Whether it has to load ``model``, in the place of what it has, before anybody connects: a
        Foretoken tells what a model can only of one in memory."""
        return self.kind is Kind.FORETOKEN and model.loaded is False


async def look(client: Client) -> Server:
    """Asks who is there. Raises what httpx2 and openai raise, and ServerError for what is no API."""
    listed = await _listed(client)
    kind, version = await _identify(client, listed)
    if kind is Kind.LM_STUDIO:
        listed = await _of_lm_studio(client) or listed
    models = [_model(kind, entry) for entry in listed]
    if kind is Kind.LLAMA_SERVER and len(models) == 1:
        models = [await _of_props(client, models[0])]
    models.sort(key=lambda each: each.loaded is False)
    return Server(client.address, kind, version, tuple(models))


async def ensure_loaded(client: Client, server: Server, wanted: str) -> tuple[Server, ServedModel]:
    """The model that ``wanted`` means, which the server is asked to load first where it ``loads`` it.

    Raises as ``look`` and ``Server.model``."""
    model = server.model(wanted)
    if not server.loads(model):
        return server, model
    place = server.address.place
    if not wanted:
        known = ", ".join(each.id for each in server.models[:_SHOWN])
        raise ModelError(
            f"{place} ({server.name}) has no model in its memory. Name the one to load there: "
            f"{server.address.root}#MODEL. It has: {known}."
        )
    # Ollama's way to load: nothing is asked of the model.
    body = {"model": model.id, "stream": False}
    await client.speaking(server.address.root).post("/api/generate", body=body, cast_to=object)
    server = await look(client)
    target = model.entry.get("target")
    for each in server.models:
        if each.loaded and each.entry.get("target") == target:
            # By the name that has it loaded again, should another take its place.
            return server, replace(each, id=model.id)
    raise ModelError(
        f"{place} ({server.name}) loaded {model.id!r}, but has another model in its memory now: others "
        "use it too. Try again."
    )


async def _listed(client: Client) -> list[Json]:
    """The entries of ``/v1/models``."""
    page = await client.openai.models.with_raw_response.list(timeout=QUESTION_S)
    answer = page.http_response
    try:
        told = parse_json(answer.content)
        entries = [each for each in told.get("data") or () if isinstance(each["id"], str)]
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
    if _says_ollama(await client.find("/")):
        return Kind.OLLAMA, await _version(client, Kind.OLLAMA)
    props = await client.find_json("/props")
    if isinstance(props, dict) and "build_info" in props:
        return Kind.LLAMA_SERVER, str(props["build_info"])
    return Kind.OTHER, ""


def _says_ollama(answer: httpx2.Response | None) -> bool:
    return answer is not None and answer.text[:64].startswith("Ollama is running")


_VERSIONS = {
    Kind.VLLM: ("version", "/version"),
    Kind.TENSORRT_LLM: ("version", "/version"),
    Kind.SGLANG: ("version", *SGLANG_INFO),
    Kind.OLLAMA: ("version", "/api/version"),
    Kind.FORETOKEN: ("version", "/api/version"),
    Kind.LLAMA_SERVER: ("build_info", "/props"),
}
"""What a kind calls it, and where it tells it."""


async def _version(client: Client, kind: Kind) -> str:
    name, *paths = _VERSIONS[kind]
    told = await client.find_json(*paths)
    return str(told.get(name) or "") if isinstance(told, dict) else ""


async def _of_lm_studio(client: Client) -> list[Json]:
    """The entries of its own API that can chat."""
    told = await client.find_json("/api/v0/models")
    entries = told.get("data") if isinstance(told, dict) else None
    return [
        each
        for each in entries or ()
        if isinstance(each, dict)
        and isinstance(each.get("id"), str)
        and "state" in each
        and each.get("type") != "embeddings"
    ]


async def _of_props(client: Client, model: ServedModel) -> ServedModel:
    """llama-server's context is that of one slot, which its list may not tell."""
    props = await client.find_json("/props")
    if not isinstance(props, dict):
        return model
    settings = props.get("default_generation_settings")
    context = whole(settings.get("n_ctx")) if isinstance(settings, dict) else None
    return replace(
        model,
        context=context or model.context,
        quantization=str(props.get("model_ftype") or model.quantization),
    )


def _model(kind: Kind, entry: Json) -> ServedModel:
    meta = entry.get("meta")
    meta = meta if isinstance(meta, dict) else {}
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
