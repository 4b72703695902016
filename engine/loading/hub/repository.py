"""Search the hub for repositories of GGUF files, look up which models of one can be downloaded and
run, and compare the catalog with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from engine.errors import DownloadError, InvalidRequest
from engine.files import expanded, parse_json
from engine.loading.hub.disk import endpoint, folder_for
from engine.loading.specs import ModelSpec, without_part
from engine.machine.secrets import hub_token
from engine.models.checkpoints.gguf.description import (
    DRAFTING,
    SUFFIX,
    drafting,
    is_later_part,
    parts_named,
)
from engine.models.checkpoints.weight_files import INDEX_FILE, SINGLE_FILE

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PROJECTOR = "mmproj"
"""A part of the names of vision projectors, which are not models by themselves."""


@dataclass(frozen=True, slots=True)
class Repository:
    """``choices`` are the models that can be downloaded; if there are none, ``reason`` says why.
    ``gated``: an account that accepted the owner's terms is needed."""

    name: str
    licence: str
    gated: bool
    choices: tuple[ModelSpec, ...]
    reason: str | None = None


def named_in(text: str) -> tuple[str, str]:
    """Return repository and revision of ``text``: owner/name, with @revision, or its page's address.

    Raises InvalidRequest for anything else.
    """
    text = text.strip().strip("\"'")
    if "://" in text:
        parts = [unquote(part) for part in urlsplit(text).path.strip("/").split("/")]
        name = "/".join(parts[:2])
        named = parts[2:3] in (["tree"], ["blob"], ["resolve"])
        revision = parts[3] if named and len(parts) > 3 else "main"
    else:
        name, _, revision = text.partition("@")
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "repository",
            f"{text or 'Nothing'} is not a repository name. Write owner/name, such as "
            "Qwen/Qwen3-0.6B, or its web address.",
        )
    return name, revision or "main"


def names_repository(text: str) -> bool:
    """Return whether ``text`` means a repository: neither a path here nor the id of a model."""
    if "/" not in text or os.path.exists(expanded(text)):
        return False
    try:
        named_in(text)
    except InvalidRequest:
        return False
    return True


def look_up(text: str, models: Path = Path(), wanted: str = "") -> Repository:
    """Ask the hub for a repository. Blocks for some seconds. ``models``, the folder for downloads, and
    ``wanted``, a pattern of file names, are for what to do if the hub cannot be reached. Raises
    InvalidRequest, DownloadError, TokenNeeded."""
    name, revision = named_in(text)
    from huggingface_hub import HfApi

    from engine.loading.hub.errors import Retry, explain_errors

    spec = ModelSpec(id=name, name=name.split("/")[1], repository=name, revision=revision)
    api = HfApi(endpoint=endpoint(), token=hub_token().sent())
    retry = Retry(lambda: None, lambda why: None)
    with explain_errors(replace(spec, file=wanted), folder_for(spec, models)):
        info = retry.call(
            lambda: api.model_info(name, revision=revision, files_metadata=True, timeout=ANSWER_S),
            first=True,
        )
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
    card = info.card_data
    licence = str((card.get("license_name") or card.get("license")) if card else "") or "unknown"
    spec = replace(spec, licence=licence, gated=bool(info.gated))
    parameters = info.safetensors.total if info.safetensors else 0
    choices = _choices(spec, sizes, parameters)
    return Repository(
        name, licence, spec.gated, choices, None if choices else _reason(name, list(sizes))
    )


def _choices(spec: ModelSpec, sizes: dict[str, int], parameters: int) -> tuple[ModelSpec, ...]:
    """Return the model in transformers' layout and each GGUF file, small before large."""
    found = []
    shards = [name for name in sizes if re.fullmatch(r"model-\d+-of-\d+\.safetensors", name)]
    weights = [SINGLE_FILE] if SINGLE_FILE in sizes else shards if INDEX_FILE in sizes else []
    if weights and "config.json" in sizes:
        total = sum(sizes[name] for name in weights)
        found.append(replace(spec, bytes=total, parameters=parameters))
    for name in sizes:
        file = Path(name)
        if file.suffix != SUFFIX or is_later_part(file) or _is_companion(file.name.lower()):
            continue
        model = without_part(file.stem)
        total = sum(sizes.get(part, 0) for part in parts_named(name))
        named = replace(spec, id=f"{spec.id}/{name}", name=model, file=name, bytes=total)
        found.append(replace(named, drafters=tuple(_drafters(named, sizes))))
    return tuple(sorted(found, key=lambda one: one.bytes))


def _drafters(model: ModelSpec, sizes: dict[str, int]) -> Iterator[ModelSpec]:
    """Yield the files in the folder of a model's file that draft for it (MTP)."""
    folder = Path(model.file).parent
    beside = (Path(name) for name in sizes if Path(name).name.startswith(DRAFTING))
    for file in drafting(model.name, (one for one in beside if one.parent == folder)):
        name, size = file.as_posix(), sizes[file.as_posix()]
        yield replace(
            model, id=f"{model.id}:mtp", name=file.stem, file=name, bytes=size, method="mtp"
        )


def _is_companion(name: str) -> bool:
    """Return whether a file is a part of models beside it: it sees pictures, or drafts."""
    return _PROJECTOR in name or name.startswith(DRAFTING)


def _reason(name: str, files: list[str]) -> str:
    if any(file.endswith((".bin", ".pt", ".pth")) for file in files):
        return (
            f"{name} has only pickle weights. Reading a pickle can run any code, so it is "
            "not downloaded. Choose a repository with safetensors or GGUF files."
        )
    return (
        f"{name} has neither safetensors weights with a config.json nor a GGUF file, so "
        "it cannot run here. Choose another repository."
    )


TOLERANCE = 0.15
"""Share by which a size may differ: those of GGUF files are reckoned from their types."""


def compare_catalog(
    models: Iterable[ModelSpec],
    names: Iterable[str],
    on_repository: Callable[[str], None] = lambda name: None,
) -> Iterator[str]:
    """Yield a sentence for everything that the hub has otherwise. Blocks.

    ``names``: other repositories that must be there; ``on_repository`` is called before each is asked
    for. Raises DownloadError if the hub cannot be reached.
    """
    from engine.loading.hub.errors import is_connection_error  # brings the client

    wanted: dict[str, list[ModelSpec]] = {name: [] for name in names}
    for spec in models:
        for one in (*(spec.files or (spec,)), *spec.drafters):
            if one.repository:
                wanted.setdefault(one.repository, []).append(one)
    for name, specs in wanted.items():
        on_repository(name)
        try:
            found = look_up(name)
        except DownloadError as error:
            if error.__cause__ is not None and is_connection_error(error.__cause__):
                raise
            yield f"{name}: {error}"
        else:
            yield from (
                f"{one.id}: {problem}" for one in specs for problem in _problems(one, found)
            )


def _problems(spec: ModelSpec, found: Repository) -> Iterator[str]:
    """Yield what the hub has otherwise than ``spec``."""
    if spec.gated != found.gated and not spec.method:
        yield f"{found.name} is {'' if found.gated else 'not '}gated."
    files = (*found.choices, *(one for choice in found.choices for one in choice.drafters))
    there = next((one for one in files if one.file == spec.file), None)
    if there is None:
        yield f"{found.name} has no {spec.file or 'model in safetensors'}."
    elif spec.bytes and abs(there.bytes - spec.bytes) > TOLERANCE * there.bytes:
        yield f"{found.name} has {there.bytes:,} bytes there, not about {spec.bytes:,}."


MOST = 20
"""Repositories that a search returns."""
ANSWER_S = 15.0
"""Seconds within which the hub must answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A repository. ``downloads`` are those of the last 30 days."""

    name: str
    downloads: int
    likes: int
    gated: bool


def search(words: str) -> tuple[Hit, ...]:
    """Return repositories of GGUF files whose names have ``words``, the most downloaded first.

    Waits ``ANSWER_S`` at most for a part of the answer. Raises InvalidRequest if there are no words, and
    DownloadError.
    """
    words = " ".join(words.split())
    if not words:
        raise InvalidRequest("words", "Enter part of a model's name.")
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # re-exported implicitly
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    parameters: dict[str, Any] = {
        "search": words,
        "filter": "gguf",
        "sort": "downloads",
        "limit": MOST,
        "expand": ["downloads", "likes", "gated"],
    }
    headers = build_hf_headers(token=hub_token().sent())
    address = f"{endpoint()}/api/models"
    try:
        response = get_session().get(address, params=parameters, headers=headers, timeout=ANSWER_S)
        hf_raise_for_status(response)
        return tuple(
            Hit(one["id"], one.get("downloads", 0), one.get("likes", 0), bool(one.get("gated")))
            for one in parse_json(response.text)
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DownloadError(
            f"{address} did not answer like the Hugging Face hub. Check HF_ENDPOINT."
        ) from error
    except Exception as error:
        raise _failed(words, error) from error


def _failed(words: str, error: Exception) -> DownloadError:
    """Return the error for a request that failed."""
    from engine.loading.hub.errors import is_connection_error, status_of, why_unreached

    status = status_of(error)
    if status is not None:
        return DownloadError(f"{endpoint()} answered the search with {status}. Try again later.")
    if not is_connection_error(error):
        raise error
    return DownloadError(
        f"{why_unreached()}, so the search for '{words}' failed. Check your connection; models on "
        "this machine work offline."
    )
