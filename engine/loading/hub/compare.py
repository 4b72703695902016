"""Compare the catalog's names, files and sizes with the hub, for whoever has a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from engine.errors import DownloadError
from engine.loading.hub.repository import Repository, look_up
from engine.loading.specs import ModelSpec

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
