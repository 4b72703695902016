"""Look up which models of a repository can be downloaded and run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from engine.errors import InvalidRequest
from engine.loading.hub.paths import endpoint, folder_for
from engine.loading.hub.query import ANSWER_S
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
        parts = urlsplit(text).path.strip("/").split("/")
        name = "/".join(parts[:2])
        revision = parts[3] if parts[2:3] in (["tree"], ["blob"]) and len(parts) > 3 else "main"
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
    if "/" not in text or Path(text).expanduser().exists():
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

    from engine.loading.hub.errors import explain_errors
    from engine.loading.hub.retry import Retry

    spec = ModelSpec(id=name, name=name.split("/")[1], repository=name, revision=revision)
    api = HfApi(endpoint=endpoint(), token=hub_token().get()[0])
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
