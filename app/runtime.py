"""The state that pages and API share: one engine, one catalog, one data folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from app import paths
from app.inventory import open_inventory
from app.inventory.downloads import Downloads
from app.inventory.found_models import Drafts, FoundModels
from app.inventory.model_folders import searched
from app.learning import IdleLearning
from app.loading import IdleUnloading, PairLoader
from app.mcp.config import McpFile
from app.mcp.servers import McpServers
from app.settings.preferences import COMPUTING, LoadOptions, LoadOptionsFile, PreferencesFile
from app.web.recent_errors import RecentErrors
from app.web.request_log import RequestLog
from app.web.switch import Serving
from engine import wire
from engine.api import AUTO, Engine, LoadRequest
from engine.loading.inventory import (
    Catalog,
    DraftChoice,
    Inventory,
    ModelSpec,
    System,
    choose_files,
    ranked,
)
from engine.switching import SwitchingEngine

NO_PAIR = LoadRequest(target="")


class Runtime:
    """One running app. ``loader`` loads its pairs; ``found`` are models that other programs left in the
    folders of ``system``; ``ending`` closes everything else that ends with the app.

    ``models`` is the folder of downloads; ``first`` is the pair that the app was started with. ``alone``:
    whether no other app used the data folder when it started; ``others``: whether one does now.
    ``serving`` and ``requests`` are settings and log of the API. ``fixed``: names of the command line's
    options that were given, which no setting overrides. ``tools``: the servers of tools that the user
    added. ``works``: whether something runs that the user waits for. ``uses``: pairs that are in use
    beside the engine's. ``complaints``: the last warnings and errors. ``instance``: the app's name in
    ``Via`` headers.
    """

    def __init__(
        self,
        engine: Engine,
        catalog: Catalog,
        data_dir: Path,
        models: Path,
        first: LoadRequest = NO_PAIR,
        system: System | None = None,
    ) -> None:
        self.engine, self.catalog, self.data_dir, self.models = engine, catalog, data_dir, models
        self.first, self.system, self.alone = first, system or System.current(), True
        self.others: Callable[[], bool] = lambda: True
        self.serving, self.requests = Serving(), RequestLog()
        self.fixed: frozenset[str] = frozenset()
        self.instance = wire.INSTANCE
        self.complaints, self.ending = RecentErrors(), ExitStack()
        self.uses: list[Callable[[], Iterable[LoadRequest]]] = []
        self.preferences = PreferencesFile(self.data_dir)
        self.loader = PairLoader(self.engine, lambda: self.inventory, self.preferences.remember)
        self.load_options = LoadOptionsFile(self.data_dir)
        self.idle = IdleUnloading(self.engine, self.loader)
        listed = partial(searched, self.data_dir)
        self._files = Inventory(self.catalog, self.models, listed, self.system)
        self.tools = McpServers(McpFile(self.data_dir))
        self.found = FoundModels(self.data_dir, self._files)
        self.downloads = Downloads(self.data_dir, self._files, self.look_again)
        self.learning = IdleLearning(
            self.engine, self.data_dir, self.preferences, lambda: self.busy
        )
        for close in (self.idle.close, self.tools.close, self.found.close, self.downloads.close):
            self.ending.callback(close)
        self.ending.callback(self.learning.close)
        self.works: list[Callable[[], bool]] = [lambda: self.engine.busy]
        self.works.append(lambda: self.downloads.working)

    @property
    def busy(self) -> bool:
        """True while a reply, a load, a download or a training runs."""
        return any(works() for works in self.works)

    @property
    def inventory(self) -> Inventory:
        """Return the models of this machine, with the names of those found outside the catalog."""
        return replace(self._files, catalog=replace(self.catalog, found=self.found.usable))

    def locate(self, spec: ModelSpec) -> Path | None:
        """Return where a model lies on disk; None if it is not there completely."""
        return self._files.locate(spec)

    @property
    def threads(self) -> int | None:
        """The threads of models without their own: as stated at the start, else of the settings."""
        kept = "threads" in self.first.remembered  # for the first model, maybe
        return self.preferences.read().threads if kept else self.first.threads

    def request(self, target: str, draft: str | None = None) -> LoadRequest:
        """Return the request for a pair chosen while the app runs. Device, threads and steps
        are those of the start. Weight format and load options were chosen for the first pair alone,
        unless the command line states the options. The target's own ones come first. ``draft`` None:
        choose the best draft."""
        stated = {*self.fixed} - {"kv_cache_dtype"}
        own: dict[str, Any] = {
            each.name: each.default for each in fields(LoadOptions) if each.name not in stated
        }
        request = replace(
            self.first,
            target=target,
            draft=draft,
            heads=(),
            quantization=AUTO,
            **own | {"threads": self.threads},
            remembered=self.first.remembered & {*COMPUTING},
        )
        named = {pair.id: pair.target.id for pair in self.catalog.pairs}
        return self.load_options.of(named.get(target, target)).over(request, self.fixed)

    def beside_catalog(self) -> tuple[ModelSpec, ...]:
        """Return the models found on disk that are not in the catalog under another path."""
        return self._outside(self.found.usable)

    def drafting(self) -> tuple[ModelSpec, ...]:
        """Return the models that are here, those too that only draft for one opened by its path."""
        here = (spec for spec in self.catalog.models if self.locate(spec) is not None)
        return (*here, *self._outside(self.found.drafting))

    def _outside(self, specs: Iterable[ModelSpec]) -> tuple[ModelSpec, ...]:
        located = map(self.locate, self.catalog.models)
        known = {os.path.realpath(path) for path in located if path is not None}
        return tuple(s for s in specs if os.path.realpath(s.id) not in known)

    def drafts_for(self, target: ModelSpec) -> Drafts:
        """Return every other model of the catalog, and those found on disk, as drafts for
        ``target``; for a target outside the catalog only local ones."""
        scanning = self.found.scanning  # before what it found so far is read
        models = self.catalog.models
        listed: tuple[DraftChoice, ...] = ()
        others = self.drafting()
        if target.id in {spec.id for spec in models}:
            listed = self.inventory.drafts_for(target)
            others = tuple(spec for spec in others if spec not in models)
        found = self.found.compare(target, others)
        return Drafts(ranked((*found.choices, *listed)), scanning or found.pending)

    def another_engine(self) -> Engine:
        """Return a second engine without a model, which the caller closes."""
        return _engine(lambda: self.inventory.catalog, self.models, self.data_dir)

    def look_again(self) -> None:
        """Scan again, and choose the catalog's files by what is here now."""
        self.catalog = choose_files(self.catalog, self.locate)
        self.found.scan()

    def read_catalog_again(self) -> None:
        """Reload ``catalog`` after the user changed their own catalog."""
        self.catalog = open_inventory(self.data_dir).catalog

    def close(self) -> None:
        """Close what was added, stop the engine's thread and free the models."""
        self.ending.close()
        self.engine.close()


def create_runtime(data_dir: Path, first: LoadRequest, *, most: int = 1) -> Runtime:
    """Start an engine without a model. ``data_dir`` must exist; ``first`` as in ``Runtime``.

    ``most``: how many pairs may be in memory at once.
    """
    inventory = open_inventory(data_dir)
    engine = _engine(lambda: runtime.inventory.catalog, inventory.models, data_dir, most)
    runtime = Runtime(engine, inventory.catalog, data_dir, inventory.models, first)
    return runtime


def _engine(catalog: Callable[[], Catalog], models: Path, data_dir: Path, most: int = 1) -> Engine:
    return SwitchingEngine(
        catalog,
        models=models,
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
        learned=paths.learned(data_dir),
        most=most,
    )
