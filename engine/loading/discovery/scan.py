"""Scan all places for models, optionally on a thread; each model is listed once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.loading.discovery.found import FoundModel, bytes_of, examine
from engine.loading.discovery.listing import Listed, models_under
from engine.loading.discovery.programs import PLACES
from engine.loading.discovery.system import System
from engine.models.checkpoints.gguf.description import name_of


def scan(
    system: System, folders: Sequence[Path] = (), below: int | None = None
) -> Iterator[FoundModel]:
    """Yield the models of the programs in ``PLACES`` and in ``folders``, which may contain GGUF files.
    ``below``: only models of at most so many bytes.

    Reads headers, some tenths of a second for a large vocabulary. Never raises."""
    seen: set[str] = set()
    for place, listed in _listed(system, folders):
        real = os.path.realpath(listed.path)
        if real not in seen:
            seen.add(real)
            if below is None or bytes_of(listed) <= below:
                yield examine(listed, place)


def _listed(system: System, folders: Sequence[Path]) -> Iterator[tuple[str, Listed]]:
    for place in PLACES:
        for folder in place.folders(system):
            yield from _in(place.name, folder, place.models)
    for folder in folders:
        if os.path.isfile(folder):
            yield str(folder.parent), Listed(folder, name_of(folder))
        else:
            yield from _in(str(folder), folder, models_under)


def _in(
    name: str, folder: Path, models: Callable[[Path], Iterator[Listed]]
) -> Iterator[tuple[str, Listed]]:
    try:
        if folder.is_dir():
            for listed in models(folder):
                yield name, listed
    except OSError as error:  # a disk that went away, a folder that is another user's
        reason = f"{folder} cannot be read: {error.strerror or error}."
        yield name, Listed(folder, folder.name, reason)


class BackgroundScan:
    """A scan on its own thread, which calls ``on_found`` with each model and ``on_done`` with all of
    them; neither after ``cancel``. An exception of a listener ends the scan.
    """

    def __init__(
        self,
        system: System,
        folders: Sequence[Path] = (),
        *,
        on_found: Callable[[FoundModel], None] = lambda _: None,
        on_done: Callable[[tuple[FoundModel, ...]], None] = lambda _: None,
    ) -> None:
        self._found: list[FoundModel] = []
        self._cancelled = threading.Event()
        self._on_found, self._on_done = on_found, on_done
        self._thread = threading.Thread(
            target=self._run, args=(system, tuple(folders)), name="model scan", daemon=True
        )
        self._thread.start()

    @property
    def found(self) -> tuple[FoundModel, ...]:
        """The models found so far."""
        return tuple(self._found)

    @property
    def running(self) -> bool:
        """Whether more may come."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """End the scan after the current file; no listener is called any more."""
        self._cancelled.set()

    def wait(self, seconds: float | None = None) -> tuple[FoundModel, ...]:
        """Wait for the end, at most ``seconds``; return what was found until then."""
        self._thread.join(seconds)
        return self.found

    def _run(self, system: System, folders: tuple[Path, ...]) -> None:
        for model in scan(system, folders):
            if self._cancelled.is_set():
                return
            self._found.append(model)
            self._on_found(model)
        if not self._cancelled.is_set():
            self._on_done(self.found)
