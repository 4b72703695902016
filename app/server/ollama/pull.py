"""Ollama's ``pull``: download a model, and report the progress line by line."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

from app.inventory.downloads import Download, DownloadState, key_of
from app.runtime import Runtime
from app.server.errors import ApiError
from app.server.sending import Json
from engine.errors import DownloadError, InvalidRequest, MissingAtHub, TokenNeeded
from engine.loading.inventory import ModelSpec

_USUAL = "Q4_K_M"
"""The type that Ollama takes where none is named."""
_POLL_S = 0.25


class Pull:
    """Downloads of one request, in the app's own queue, so that a page shows them too.

    ``held``: how many requests wait for each download that a request started; all pulls share it.
    """

    def __init__(self, runtime: Runtime, specs: tuple[ModelSpec, ...], held: Counter[str]) -> None:
        self._runtime, self._held = runtime, held
        self._left, self._holds = list[str](), list[str]()
        for spec in specs:
            others = runtime.downloads.goes_on(key_of(spec))
            key = runtime.downloads.start(spec)
            self._left.append(key)
            if held[key] or not others:
                held[key] += 1
                self._holds.append(key)

    async def lines(self) -> AsyncGenerator[Json, None]:
        """Yield the progress. Raises ApiError for a download that failed or was paused."""
        yield {"status": "pulling manifest"}
        while self._left:
            downloads = self._runtime.downloads.all()
            current = downloads.get(self._left[0])
            if current is None:
                del self._left[0]
                continue
            yield _line(self._left[0], current)
            await asyncio.sleep(_POLL_S)
        while self._runtime.found.scanning:  # afterwards requests can load it
            await asyncio.sleep(_POLL_S)
        yield {"status": "success"}

    def close(self) -> None:
        """Pause what requests started and none waits for any more. What a page started goes on."""
        for key in self._holds:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self._runtime.downloads.pause(key)


def _line(key: str, one: Download) -> Json:
    if one.state is DownloadState.FAILED:
        raise ApiError(500, one.message, code="download_failed")
    if one.state is DownloadState.PAUSED:
        raise ApiError(409, f"The download of {one.spec.name} was paused.", code="download_paused")
    line: Json = {"status": f"pulling {one.spec.name}", "digest": key}
    if one.progress is not None and one.progress.total:
        line |= {"total": one.progress.total, "completed": one.progress.bytes}
    return line


def wanted(runtime: Runtime, name: str) -> tuple[ModelSpec, ...]:
    """Return what ``name`` means: a pair or a model of the catalog, or ``OWNER/NAME:TYPE``. Only
    what is not on this machine yet. Raises ApiError. It may ask Hugging Face."""
    catalog = runtime.catalog
    for pair in catalog.pairs:
        if name in (pair.id, pair.name):
            specs = [pair.target, *([pair.draft] if pair.draft else ())]
            break
    else:
        model = next(
            (one for one in catalog.models if name in (one.id, one.name, one.called)), None
        )
        one = model or _of_hub(runtime, name)
        specs = [one, *one.companions]
    return tuple(one for one in specs if one.repository and runtime.locate(one) is None)


def _of_hub(runtime: Runtime, name: str) -> ModelSpec:
    repository, _, kind = name.partition(":")
    if repository.count("/") != 1:
        raise ApiError(
            404,
            f"There is no {name!r} in the catalog. Name a model from it, or one on Hugging Face as "
            "hf.co/OWNER/NAME:TYPE.",
            code="model_not_found",
            param="model",
        )
    try:
        wanted = f"*{kind.removesuffix('.gguf')}*.gguf" if kind else ""
        listing = runtime.inventory.look_up(repository, wanted)
    except (InvalidRequest, MissingAtHub, TokenNeeded) as error:
        raise ApiError(404, str(error), code="model_not_found", param="model") from error
    except DownloadError as error:
        raise ApiError(503, str(error), code="download_failed") from error
    choices = listing.choices
    if len(choices) == 1 and not kind:
        return choices[0]
    sought = (kind or _USUAL).lower()
    for one in choices:
        if sought in (one.format.lower(), one.file.lower()):
            return one
    types = ", ".join(one.format for one in choices)
    why = f"{listing.name} has no {kind or _USUAL}, only {types}." if choices else listing.reason
    raise ApiError(404, why or f"{listing.name} is empty.", code="model_not_found", param="model")
