"""From a request to files: look it up in the catalog, download what is not on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from engine.loading.catalog import Catalog
from engine.loading.hub.disk import locate
from engine.loading.hub.fetch import download
from engine.loading.progress import DownloadProgress
from engine.loading.request import LoadRequest
from engine.loading.specs import Pairing
from engine.models.checkpoints.tokenizer import load_tokenizer, version_of


@dataclass(frozen=True, slots=True)
class PairFiles:
    """A pair and the folders or GGUF files of its models, complete on disk."""

    pairing: Pairing
    target: Path
    draft: Path | None


def fetch_pair(
    request: LoadRequest,
    catalog: Catalog,
    models: Path | None,
    on_progress: Callable[[DownloadProgress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> PairFiles:
    """Resolve ``request`` and download what is not here into the folder ``models``. Blocks.

    Raises CatalogError, ModelError, IncompatiblePair, DownloadError.
    """
    pairing = catalog.resolve(request, partial(locate, models=models))
    fetch = partial(download, models=models, on_progress=on_progress, cancelled=cancelled)
    target = fetch(pairing.target)
    return PairFiles(pairing, target, None if pairing.draft is None else fetch(pairing.draft))


def template_and_tokens(model: Path) -> tuple[str, Mapping[str, int]]:
    """Return the chat template of a folder or GGUF file, in Jinja ("" for none), and the ids of its named
    tokens. Raises ModelError."""
    return _read(model, version_of(model))


@lru_cache(maxsize=16)
def _read(model: Path, version: object) -> tuple[str, Mapping[str, int]]:
    """Return them; cached by ``version`` of the files, as building a tokenizer takes a second."""
    tokenizer = load_tokenizer(model)
    added = tokenizer.backend.get_added_tokens_decoder()
    return tokenizer.template or "", {token.content: id for id, token in added.items()}
