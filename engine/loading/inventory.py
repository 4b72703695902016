"""The models of a machine: what a name means, what is here, what drafts for it, and what it needs.

The app asks an ``Inventory`` and imports nothing else of ``engine.loading``. A model's id means the
file that is here, else one that suits the machine. Torch is imported only when a forecast reads
headers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.drafting.heads import kind_in
from engine.errors import InvalidRequest, ModelError, OutOfMemory
from engine.loading.catalog import EMBEDDED, Catalog, load_catalog, local_spec, open_catalog
from engine.loading.catalog_file import read_catalog_file
from engine.loading.discovery.found import FoundModel, examine
from engine.loading.discovery.listing import Listed, is_pseudo, models_under
from engine.loading.discovery.scan import BackgroundScan, scan
from engine.loading.discovery.system import System
from engine.loading.drafts import (
    LARGEST_SHARE,
    DraftChoice,
    HeadChoice,
    best_draft,
    break_even,
    judge_draft,
    judge_head,
    ranked,
    why_not,
)
from engine.loading.files import PairFiles, fetch_pair, template_and_tokens
from engine.loading.hub import disk, fetch, repository
from engine.loading.hub.disk import MODELS_VARIABLE, DownloadedModel, hub_page, models_folder
from engine.loading.hub.repository import Hit, Repository, compare_catalog, names_repository
from engine.loading.planning.fit import ENOUGH_CONTEXT, SHORTEST_CONTEXT
from engine.loading.planning.forecast import Forecast, estimate, forecast
from engine.loading.pooling import pooling_of
from engine.loading.progress import DownloadProgress
from engine.loading.request import LoadRequest
from engine.loading.specs import Locate, ModelSpec, Pairing
from engine.machine import devices, memory
from engine.models.checkpoints.gguf.description import is_gguf, name_of, siblings
from engine.values.units import format_bytes

_SHARE = 0.75
"""Share of the machine's memory that a model may take. Not what is free now, which would change the
choice, and what a click downloads, from minute to minute."""


def choose_files(catalog: Catalog, locate: Locate) -> Catalog:
    """Return ``catalog`` with the chosen file of each model, under the model's own id."""
    room, gpu = int(_SHARE * memory.total_bytes()), devices.kernels_bytes()
    models = {spec.id: choose_file(spec, locate, room, gpu) for spec in catalog.models}
    pairs = tuple(
        replace(
            pair,
            target=models[pair.target.id],
            draft=None if pair.draft is None else models[pair.draft.id],
        )
        for pair in catalog.pairs
    )
    return replace(catalog, models=tuple(models.values()), pairs=pairs)


def choose_file(spec: ModelSpec, locate: Locate, room: int, gpu: int = 0) -> ModelSpec:
    """Return ``spec`` with the file that is here; without one, with its four-bit file if that fits in
    ``room`` bytes, else with the largest below it that does, else with the four-bit one all the same.

    The ``gpu`` bytes of a GPU count for the four-bit one, as layers may be on both. It has no kernels for
    narrower blocks: they would be rounded to four bits there."""
    if not spec.files:
        return spec
    usual = spec.files[0]
    smaller = (one for one in spec.files if one.bytes < usual.bytes)
    wanted = (usual, *sorted(smaller, key=lambda one: -one.bytes))
    here = (one for one in spec.files if locate(one) is not None)
    fitting = (one for one in wanted if _fits(one, room + (gpu if one is usual else 0)))
    chosen = next(here, None) or next(fitting, usual)
    return replace(chosen, id=spec.id, name=spec.name, files=spec.files)


def room_for_weights() -> tuple[int, str]:
    """Return the bytes that weights may take now, and what they are. Layers may be on both devices."""
    free, gpu = memory.free_bytes(), devices.kernels_bytes()
    clause = f"{format_bytes(free)} of memory are free"
    return free + gpu, f"{clause}, and the GPU has {format_bytes(gpu)}" if gpu else clause


def _fits(spec: ModelSpec, room: int) -> bool:
    enough = min(ENOUGH_CONTEXT, spec.context)
    return estimate([spec], free=room).memory_fit.context >= enough


__all__ = [
    "EMBEDDED", "LARGEST_SHARE", "MODELS_VARIABLE", "BackgroundScan", "Catalog", "DownloadedModel",
    "DraftChoice", "Forecast", "FoundModel", "HeadChoice", "Hit", "Inventory", "ModelSpec", "PairFiles",
    "Pairing", "Repository", "System", "break_even", "choose_files", "compare_catalog",
    "estimate", "hub_page", "is_pseudo",
    "load_catalog", "local_spec", "models_folder", "models_under", "names_repository", "open_catalog",
    "pooling_of", "ranked", "read_catalog_file", "room_for_weights", "template_and_tokens",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inventory:
    """The models of one machine and user.

    ``models`` is the folder of downloads; ``folders`` lists folders and files that the user added. Other
    programs' models are looked for in the places of ``system``.
    """

    catalog: Catalog
    models: Path
    folders: Callable[[], Sequence[Path]] = tuple
    system: System = field(default_factory=System.current)

    # ---- what a name means

    def with_files_chosen(self) -> Inventory:
        """Return the same with the catalog's models in the files that are here, or suit this machine."""
        return replace(self, catalog=choose_files(self.catalog, self.locate))

    def spec(self, text: str) -> ModelSpec:
        """Return a model by id, path or address. Raises as ``Catalog.spec``."""
        return self.catalog.spec(text)

    def named(self, request: LoadRequest) -> Pairing:
        """Return what ``request`` names, whether or not it fits. Raises as ``Catalog.named``."""
        return self.catalog.named(request)

    def resolve(self, request: LoadRequest) -> Pairing:
        """Return what ``request`` names, if its draft fits. Raises as ``Catalog.resolve``."""
        return self.catalog.resolve(request, self.locate)

    # ---- what is here

    def locate(self, spec: ModelSpec) -> Path | None:
        """Return a model's folder or GGUF file, or None if it is not complete on disk."""
        return disk.locate(spec, self.models)

    def scan(self) -> Iterator[FoundModel]:
        """Yield every model on this machine. Reads headers."""
        return scan(self.system, (self.models, *self.folders()))

    def scan_in_background(
        self,
        on_found: Callable[[FoundModel], None],
        on_done: Callable[[tuple[FoundModel, ...]], None],
    ) -> BackgroundScan:
        """Start ``scan`` on its own thread; it goes on ``beside`` the folders' models."""
        folders = (self.models, *self.folders(), *self.beside)
        return BackgroundScan(self.system, folders, on_found=on_found, on_done=on_done)

    @property
    def beside(self) -> tuple[Path, ...]:
        """The folders around those of ``folders`` that are models themselves: ``with_best_draft`` looks
        there."""
        folders = self.folders()
        around = (one.parent for one in folders if is_gguf(one) or (one / "config.json").is_file())
        return tuple(one for one in dict.fromkeys(around) if one not in folders)

    def downloaded(self) -> tuple[DownloadedModel, ...]:
        """Return complete and partial downloads, largest first."""
        return disk.downloaded(self.models)

    def delete(self, path: Path, in_use: Iterable[Path]) -> int:
        """Delete a download and return its bytes. Raises as ``disk.delete``."""
        return disk.delete(self.models, path, in_use)

    def free_disk(self) -> int:
        """Return the free bytes where downloads go."""
        return disk.free_bytes(self.models)

    # ---- downloads

    def search(self, words: str) -> tuple[Hit, ...]:
        """Return repositories of GGUF files on the hub. Blocks. Raises as ``repository.search``."""
        return repository.search(words)

    def look_up(self, text: str, wanted: str = "") -> Repository:
        """Return what of a repository can be downloaded. Blocks. ``wanted`` and errors: see
        ``repository.look_up``."""
        return repository.look_up(text, self.models, wanted)

    def download(
        self,
        spec: ModelSpec,
        on_progress: Callable[[DownloadProgress], None] = lambda progress: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Path:
        """Return a model's folder, downloaded if it is not here. Blocks. Raises as ``fetch.download``."""
        return fetch.download(spec, self.models, on_progress=on_progress, cancelled=cancelled)

    def why_unusable(self, spec: ModelSpec) -> str | None:
        """Return why a model that is here cannot be run, as ``scan`` says it, or None. Reads its headers.

        What only drafts is not judged: some of it is no model by itself."""
        place = self.locate(spec)
        if place is None or spec.method:
            return None
        return examine(Listed(place, spec.name), str(self.models)).reason

    def download_pair(
        self,
        request: LoadRequest,
        on_progress: Callable[[DownloadProgress], None] = lambda progress: None,
    ) -> PairFiles:
        """Resolve ``request`` and download what is not here. Blocks. Raises as ``fetch_pair``."""
        return fetch_pair(request, self.catalog, self.models, on_progress)

    def arrived(self, spec: ModelSpec) -> int:
        """Return how many bytes of a model are here, complete or not."""
        return disk.arrived(spec, self.models)

    def discard(self, spec: ModelSpec) -> None:
        """Delete a partial download. Raises OSError."""
        disk.discard(spec, self.models)

    def partial_folder(self, spec: ModelSpec) -> Path:
        """Return where a download keeps its partial files."""
        return disk.folder_for(spec, self.models) / disk.PARTIAL

    # ---- what drafts

    def judge_draft(self, target: ModelSpec, draft: ModelSpec) -> DraftChoice:
        """Return whether ``draft`` can usefully draft for ``target``, and how or why not."""
        return judge_draft(target, draft, self.locate)

    def why_not(self, target: ModelSpec, draft: ModelSpec) -> str | None:
        """Return why no load has ``draft`` draft for ``target``, or None."""
        return why_not(target, draft, self.locate)

    def judge_head(self, target: ModelSpec, folder: Path) -> HeadChoice:
        """Return whether the head in ``folder`` was trained for ``target``, or why not."""
        return judge_head(target, folder, self.locate)

    def drafts_for(self, target: ModelSpec) -> tuple[DraftChoice, ...]:
        """Return every other model of the catalog, fitting ones first."""
        return self.catalog.drafts_for(target, self.locate)

    def drafts_here(
        self, target: ModelSpec
    ) -> tuple[tuple[DraftChoice, ...], tuple[HeadChoice, ...]]:
        """Return every other model and every head beside the target and on this machine. Scans, and reads
        tokenizers."""
        place = self.locate(target)
        here, beside = replace(target, path=place), () if place is None else (place.parent,)
        found = [*scan(self.system, (*beside, self.models, *self.folders()))]
        names = {self.locate(spec): spec.name for spec in self.catalog.models}
        others = (one.spec for one in found if one.spec is not None and one.path != place)
        named = (replace(spec, name=names.get(spec.path, spec.name)) for spec in others)
        pairs = (pair for pair in self.catalog.pairs if pair.target.id == target.id)
        paired = (folder for pair in pairs for folder in pair.heads)
        heads = dict.fromkeys((*paired, *(one.path for one in found if one.head)))
        drafts = ranked(judge_draft(here, spec) for spec in named)
        return drafts, tuple(self.judge_head(here, folder) for folder in heads)

    def own_head(self, target: ModelSpec) -> ModelSpec | None:
        """Return the first head that is here and fits, of those that the catalog has for ``target`` and
        those beside its file."""
        place = self.locate(target)
        if place is None:
            return None
        for one in (*target.drafters, *map(_drafter, siblings(place) if is_gguf(place) else ())):
            head = self.locate(one)
            if head is None:
                continue
            if one.method == "mtp":  # it is loaded with the target, as a part of it
                with contextlib.suppress(ModelError):
                    if local_spec(place).mtp:
                        return one
            elif self.judge_head(target, head).reason is None:
                return one
        return None

    def best_draft(self, target: ModelSpec, choices: Iterable[DraftChoice]) -> ModelSpec | None:
        """Return the draft that is loaded with ``target`` by default, or None: that of the catalog's pair
        of this id, none for a model with MTP layers, else the best of ``choices`` that are here and have
        the target's vocabulary."""
        pair = next((pair for pair in self.catalog.pairs if pair.id == target.id), None)
        if pair is not None:
            return pair.draft
        if target.mtp:
            return None
        specs = {c.spec for c in choices if c.fits and c.cross_vocabulary is None}
        here = [spec for spec in specs if self.locate(spec) is not None]
        paired = self.catalog.paired(target)
        return best_draft(target, here, lambda draft: self._has_room(target, draft), paired)

    def with_best_draft(self, request: LoadRequest) -> LoadRequest:
        """Return ``request`` with ``own_head`` of its target, else with the best draft for it; with draft
        "" if there is neither, or if the target has MTP layers.

        A request that names its draft, heads, a pair of the catalog, a server, or a model that is not
        here is returned unchanged. Drafts are looked for beside the target and as in ``scan``. Reads the
        headers of models that are small enough. Raises as ``named``.
        """
        pairing = self.named(request)
        target = pairing.target
        if request.draft is not None or request.heads or pairing in self.catalog.pairs:
            return request
        place = None if target.address else self.locate(target)
        if place is None:
            return request
        head = self.own_head(target)
        if target.mtp or head is not None:
            inside = head is None or target.mtp or head.method == "mtp"
            heads = () if head is None or inside else (str(self.locate(head)),)
            return replace(request, draft="", heads=heads)
        folders = (place.parent, self.models, *self.folders())
        found = scan(self.system, folders, below=int(LARGEST_SHARE * target.bytes))
        here = [spec for spec in self.catalog.models if self.locate(spec) is not None]
        specs = {
            spec.id: spec for spec in (*here, *(one.spec for one in found if one.spec is not None))
        }

        def suits(draft: ModelSpec) -> bool:
            choice = self.judge_draft(target, draft)
            one_vocabulary = choice.fits and choice.cross_vocabulary is None
            return one_vocabulary and self._has_room(target, draft, request)

        chosen = best_draft(target, specs.values(), suits, self.catalog.paired(target))
        return replace(request, draft="" if chosen is None else chosen.id)

    # ---- what it needs

    def forecast(
        self, request: LoadRequest, context: int | None = None, *, beside: bool = False
    ) -> Forecast:
        """Return what a pair would need with ``context`` tokens, by default with as many as it would get,
        in place of what this process has on a GPU or ``beside`` it. Raises as ``resolve``, and ModelError
        if the sizes are not known."""
        return forecast(self.resolve(request), request, self.locate, context, beside=beside)

    def _has_room(
        self, target: ModelSpec, draft: ModelSpec, request: LoadRequest | None = None
    ) -> bool:
        """Return whether ``draft`` drafts with enough context beside ``target``, held as without the
        draft."""
        here = [replace(each, path=self.locate(each)) for each in (target, draft)]
        request = request or LoadRequest(target=target.id)
        try:
            alone, both = estimate(here[:1], request=request), estimate(here, request=request)
        except (ModelError, InvalidRequest):  # the sizes of one are not known
            return False
        enough = min(ENOUGH_CONTEXT, alone.memory_fit.context)
        alike = both.quantization == alone.quantization and len(both.roles) > len(alone.roles)
        alike &= both.where == alone.where or alone.memory_fit.host is not None
        return alike and both.memory_fit.context >= enough

    def check_room(self, requests: Sequence[LoadRequest]) -> None:
        """Raise OutOfMemory unless pairs fit beside each other, each with the shortest context. Servers
        need nothing; a pair whose sizes are not known yet is left out."""
        fits = []
        for request in requests:
            with contextlib.suppress(ModelError):  # its load will say it
                fits.append(self.forecast(request, SHORTEST_CONTEXT, beside=True).memory_fit)
        if len(fits) < 2:
            return
        needed = sum(fit.weights + fit.kv for fit in fits) + max(fit.work for fit in fits)
        free = min(fit.free for fit in fits)
        if needed > free:
            names = " and ".join(model.name for fit in fits for model in fit.models)
            raise OutOfMemory(
                f"{names} together need {format_bytes(needed)} with {SHORTEST_CONTEXT} tokens "
                f"of context each; {format_bytes(free)} are free. Choose smaller models, or "
                "close other programs."
            )


def _drafter(file: Path) -> ModelSpec:
    """Return the spec of a file that lies beside a model to draft for it."""
    method = "" if kind_in(file) else "mtp"
    return ModelSpec(id=str(file), name=name_of(file), path=file, method=method)
