"""What the pages, the API and the command line share: one engine, one catalog, one data folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from app import paths
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
from engine.loading import hub
from engine.loading.catalog import Catalog, open_catalog
from engine.loading.discovery import System, has_room, with_best_draft
from engine.loading.drafts import DraftChoice, best_draft, preference
from engine.loading.specs import ModelSpec
from engine.switching import SwitchingEngine

logger = logging.getLogger(__name__)


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
    requests: RequestLog = field(default_factory=RequestLog)
    ending: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.preferences = PreferencesFile(self.data_dir)
        self.loader = PairLoader(
            self.engine, self.known, self.with_best_draft, self.preferences.remember
        )
        self.found = FoundModels(self.data_dir, self.models, self.system, self.locate)
        self.ending.callback(self.found.close)
        self.downloads = Downloads(self.data_dir, self.models, self.found.scan)
        self.ending.callback(self.downloads.close)

    def known(self) -> Catalog:
        """The catalog, with the names of what was found beside it."""
        return replace(self.catalog, found=self.found.usable)

    def locate(self, spec: ModelSpec) -> Path | None:
        """Where a model lies on disk, complete; None when it does not."""
        return hub.locate(spec, self.models)

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

    def with_best_draft(self, request: LoadRequest) -> LoadRequest:
        """Return ``request`` with the draft that suits its target, where none is named."""
        folders = (self.models, *searched(self.data_dir))
        return with_best_draft(request, self.known(), self.locate, self.system, folders)

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
            listed = self.catalog.drafts_for(target, self.locate)
        else:
            here = [spec for spec in models if self.locate(spec) is not None]
        found = self.found.compare(target, (*here, *self.beside_catalog()))
        choices = sorted((*found.choices, *listed), key=preference)
        return Drafts(tuple(choices), scanning or found.pending)

    def best_draft(self, target: ModelSpec, choices: Iterable[DraftChoice]) -> ModelSpec | None:
        """Return what is loaded with ``target`` where nobody chooses: the draft of the catalog's pair of
        that id, else the best of ``choices``; None for none."""
        pair = next((pair for pair in self.catalog.pairs if pair.id == target.id), None)
        if pair is not None:
            return pair.draft
        fitting = {c.spec: c for c in choices if c.fits and c.cross_vocabulary is None}
        here = [spec for spec in fitting if self.locate(spec) is not None]
        return best_draft(target, here, partial(has_room, target), self.catalog.paired(target))

    def another_engine(self) -> Engine:
        """One without a model, beside the app's own: who asks for it closes it."""
        return _engine(self.known, self.data_dir)

    def read_catalog_again(self) -> None:
        """Something was added to the user's own catalog: replaces ``catalog``."""
        self.catalog = read_catalog(self.data_dir)

    def close(self) -> None:
        """Close what was added, stop the engine's thread and free the models."""
        self.ending.close()
        self.engine.close()


def read_catalog(data_dir: Path) -> Catalog:
    """The shipped catalog and the user's additions; a broken file is told and left out."""
    catalog = open_catalog(paths.catalog_file(), paths.own_catalog(data_dir))
    for problem in catalog.problems:
        logger.warning("%s", problem)
    return catalog


def create_runtime(data_dir: Path, first: LoadRequest, *, for_programs: bool = False) -> Runtime:
    """Start an engine without a model. ``data_dir`` must exist; ``first`` as in ``Runtime``.

    ``for_programs``: it serves the API alone, so that what grammars need is read behind each load.
    """

    def catalog() -> Catalog:
        return runtime.known()

    models = hub.models_folder(data_dir)
    runtime = Runtime(
        _engine(catalog, data_dir, for_programs), read_catalog(data_dir), data_dir, models, first
    )
    return runtime


def _engine(catalog: Callable[[], Catalog], data_dir: Path, for_programs: bool = False) -> Engine:
    return SwitchingEngine(
        catalog,
        models=hub.models_folder(data_dir),
        remembered=paths.remembered(data_dir),
        measured=paths.measured(data_dir),
        grammars=for_programs,
    )
