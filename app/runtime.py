"""What the pages, the API and the command line share: one engine, one catalog, one data folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from app import paths
from app.inventory import open_inventory
from app.inventory.downloads import Downloads
from app.inventory.found_models import Drafts, FoundModels
from app.inventory.model_folders import searched
from app.loading import PairLoader
from app.settings.preferences import PreferencesFile
from app.web.recent_errors import RecentErrors
from app.web.request_log import RequestLog
from app.web.switch import Serving
from engine import wire
from engine.api import AUTO, Engine, LoadRequest
from engine.loading.inventory import Catalog, DraftChoice, Inventory, ModelSpec, System, ranked
from engine.switching import SwitchingEngine


@dataclass(slots=True)
class Runtime:
    """One running app. ``loader`` loads its pairs; ``found`` are models that lie on this machine already,
    in places of ``system``; ``downloads`` are under way; ``ending`` holds what else is closed with it.

    ``models`` is the folder that downloads go to; ``first`` is the pair that it was started with.
    ``alone``: whether no other app uses the data folder. ``serving``: of the API, and ``requests`` what
    asks it. ``fixed``: what the command line stated, by its names there, which no setting changes.
    ``complaints`` are the last ones. ``instance``: its name in ``Via`` headers.
    """

    engine: Engine
    catalog: Catalog
    data_dir: Path
    models: Path
    first: LoadRequest = field(default_factory=lambda: LoadRequest(target=""))
    system: System = field(default_factory=System.current)
    alone: bool = True
    serving: Serving = field(default_factory=Serving)
    fixed: frozenset[str] = frozenset()
    instance: str = wire.INSTANCE
    complaints: RecentErrors = field(default_factory=RecentErrors)
    preferences: PreferencesFile = field(init=False)
    loader: PairLoader = field(init=False)
    found: FoundModels = field(init=False)
    downloads: Downloads = field(init=False)
    _files: Inventory = field(init=False)
    requests: RequestLog = field(default_factory=RequestLog)
    ending: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.preferences = PreferencesFile(self.data_dir)
        self.loader = PairLoader(self.engine, lambda: self.inventory, self.preferences.remember)
        listed = partial(searched, self.data_dir)
        self._files = Inventory(self.catalog, self.models, listed, self.system)
        self.found = FoundModels(self.data_dir, self._files)
        self.ending.callback(self.found.close)
        self.downloads = Downloads(self.data_dir, self._files, self.found.scan)
        self.ending.callback(self.downloads.close)

    @property
    def inventory(self) -> Inventory:
        """The models of this machine, with the names of those that were found outside the catalog."""
        return replace(self._files, catalog=replace(self.catalog, found=self.found.usable))

    def locate(self, spec: ModelSpec) -> Path | None:
        """Where a model lies on disk, complete; None when it does not."""
        return self._files.locate(spec)

    def request(self, target: str, draft: str | None = None) -> LoadRequest:
        """A pair that was chosen while the app runs, computed as it was started: on that device, with
        those threads and steps. How its weights are held suited the first pair alone, and so did its
        context, unless the command line states one. ``draft`` None: the one that suits it best."""
        return replace(
            self.first,
            target=target,
            draft=draft,
            heads=(),
            quantization=AUTO,
            kv_cache_dtype=AUTO,
            context=self.first.context if "context" in self.fixed else None,
        )

    def beside_catalog(self) -> tuple[ModelSpec, ...]:
        """What was found and is not a model of the catalog, which it may be by another path."""
        located = map(self.locate, self.catalog.models)
        known = {os.path.realpath(path) for path in located if path is not None}
        return tuple(s for s in self.found.usable if os.path.realpath(s.id) not in known)

    def drafts_for(self, target: ModelSpec) -> Drafts:
        """Every other model of the catalog, and what was found beside it, as drafts for ``target``; for
        one that is outside the catalog only what lies here."""
        scanning = self.found.scanning  # before what it found so far is read
        models = self.catalog.models
        here: list[ModelSpec] = []
        listed: tuple[DraftChoice, ...] = ()
        if target.id in {spec.id for spec in models}:
            listed = self.inventory.drafts_for(target)
        else:
            here = [spec for spec in models if self.locate(spec) is not None]
        found = self.found.compare(target, (*here, *self.beside_catalog()))
        return Drafts(ranked((*found.choices, *listed)), scanning or found.pending)

    def another_engine(self) -> Engine:
        """One without a model, beside the app's own: who asks for it closes it."""
        return _engine(lambda: self.inventory.catalog, self.models, self.data_dir)

    def read_catalog_again(self) -> None:
        """Replace ``catalog`` after a change of the user's own catalog."""
        self.catalog = open_inventory(self.data_dir).catalog

    def close(self) -> None:
        """Close what was added, stop the engine's thread and free the models."""
        self.ending.close()
        self.engine.close()


def create_runtime(data_dir: Path, first: LoadRequest, *, for_programs: bool = False) -> Runtime:
    """Start an engine without a model. ``data_dir`` must exist; ``first`` as in ``Runtime``.

    ``for_programs``: it serves the API alone, so that what grammars need is read behind each load.
    """

    def catalog() -> Catalog:
        return runtime.inventory.catalog

    inventory = open_inventory(data_dir)
    engine = _engine(catalog, inventory.models, data_dir, for_programs)
    runtime = Runtime(engine, inventory.catalog, data_dir, inventory.models, first)
    return runtime


def _engine(
    catalog: Callable[[], Catalog], models: Path, data_dir: Path, for_programs: bool = False
) -> Engine:
    return SwitchingEngine(
        catalog,
        models=models,
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
        grammars=for_programs,
    )
