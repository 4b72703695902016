"""Models on this machine, scanned and compared on threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.inventory.model_folders import (
    add_folder,
    forget_model,
    recent_models,
    remember_models,
    remove_folder,
)
from engine.loading.inventory import (
    BackgroundScan,
    DraftChoice,
    FoundModel,
    Inventory,
    ModelSpec,
    ranked,
)

_Pair = tuple[ModelSpec, ModelSpec]
_OLD_S, _PATIENCE_S = 2.0, 2.0
"""For ``refresh``: seconds until a scan is repeated, and how long it is waited for."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Models as drafts for a target, ranked by whether they fit. ``pending``: more are being compared."""

    choices: tuple[DraftChoice, ...]
    pending: bool


class FoundModels:
    """The models of other programs, in folders that the user added, opened by path, and downloaded.

    ``version`` changes with everything that may be shown. Thread-safe.
    """

    def __init__(self, data_dir: Path, inventory: Inventory) -> None:
        """Nothing is scanned before ``scan``."""
        self._data_dir, self._inventory = data_dir, inventory
        self._lock = threading.Lock()
        self._scan: BackgroundScan | None = None
        self._scanned = 0.0
        self._found: tuple[FoundModel, ...] = ()
        self._beside: frozenset[str] = frozenset()
        self._opened: tuple[Path, ...] = ()
        self._judged: dict[_Pair, DraftChoice] = {}
        self._queue: list[_Pair] = []
        self._judge: threading.Thread | None = None
        self.version = 0

    # ---- scanning

    def scan(self) -> None:
        """Scan again; until that is done, earlier results are shown."""
        with self._lock:
            if self._scan is not None:
                self._scan.cancel()
            self._judged.clear()
            self._beside, self._opened = frozenset(map(str, self._inventory.beside)), self.recent
            self._scan = self._inventory.scan_in_background(lambda _: self._changed(), self._done)
            self._scanned = time.monotonic()
            self.version += 1

    def scan_once(self) -> None:
        """Scan unless that was done already."""
        if self._scan is None:
            self.scan()

    def refresh(self) -> None:
        """Scan if the last scan is some seconds old: other programs add models too. Waits a moment."""
        if not self.scanning and (not self._scan or time.monotonic() - self._scanned > _OLD_S):
            self.scan()
        if self._scan is not None:
            self._scan.wait(_PATIENCE_S)

    @property
    def found(self) -> tuple[FoundModel, ...]:
        """The result of the last scan; of a first one, what it has found so far. Without what only lies
        beside a model that was opened by path."""
        return tuple(
            one for one in self._all if one.place not in self._beside or one.path in self._opened
        )

    @property
    def _all(self) -> tuple[FoundModel, ...]:
        scan = self._scan
        return self._found or (() if scan is None else scan.found)

    @property
    def usable(self) -> tuple[ModelSpec, ...]:
        """The models that can be run, without duplicates."""
        return _specs(self.found)

    @property
    def drafting(self) -> tuple[ModelSpec, ...]:
        """The ``usable`` models, and those beside models that were opened by path: a load takes its draft
        from these."""
        return _specs(self._all)

    @property
    def heads(self) -> tuple[Path, ...]:
        """Folders of heads."""
        return tuple(model.path for model in self.found if model.head)

    def place_of(self, spec: ModelSpec) -> str | None:
        """Return the program or folder where a model was found, or None."""
        return next((one.place for one in self.found if one.spec == spec), None)

    @property
    def scanning(self) -> bool:
        """True while a scan runs."""
        return self._scan is not None and self._scan.running

    @property
    def working(self) -> bool:
        """True while ``version`` may change by itself."""
        return self.scanning or self._judge is not None

    def close(self) -> None:
        """End the scan and comparisons after the current file."""
        with self._lock:
            if self._scan is not None:
                self._scan.cancel()
            self._queue.clear()

    def _changed(self) -> None:
        with self._lock:
            self.version += 1

    def _done(self, found: tuple[FoundModel, ...]) -> None:
        with self._lock:
            self._found = found
            self.version += 1

    # ---- folders

    def add(self, folder: Path) -> None:
        """Add a folder and scan. Raises InvalidRequest for a missing folder, DiskError."""
        add_folder(self._data_dir, folder)
        self.scan()

    def remove(self, folder: Path) -> None:
        """Remove a folder from the list, without touching its content. Raises as ``add``."""
        remove_folder(self._data_dir, folder)
        kept = tuple(model for model in self._found if model.place != str(folder))
        with self._lock:
            self._found = kept
        self.scan()

    # ---- opened by their path

    @property
    def recent(self) -> tuple[Path, ...]:
        """Models that were opened by path, the last one first."""
        return recent_models(self._data_dir)

    def remember(self, *opened: Path) -> None:
        """List models that were opened by path. Raises DiskError."""
        if remember_models(self._data_dir, opened):
            self.scan()

    def forget(self, path: Path) -> None:
        """Remove a model from that list, without touching its files. Raises as ``remember``."""
        forget_model(self._data_dir, path)
        self._found = tuple(model for model in self._found if model.path != path)
        self.scan()

    # ---- drafts

    def compare(self, target: ModelSpec, drafts: Iterable[ModelSpec]) -> Drafts:
        """Return which of ``drafts``, all on disk, fit ``target``, and why others do not.

        What is known is returned at once; the rest is compared on a thread, which reads large tokenizers.
        """
        pairs = [(target, spec) for spec in drafts if spec.id != target.id]
        with self._lock:
            choices = [self._judged[pair] for pair in pairs if pair in self._judged]
            missing = [pair for pair in pairs if pair not in self._judged]
            # The newest comparison comes first: earlier ones may no longer be of interest.
            self._queue = [*missing, *(pair for pair in self._queue if pair not in missing)]
            if missing and self._judge is None:
                self._judge = threading.Thread(
                    target=self._compare, name="compare drafts", daemon=True
                )
                self._judge.start()
        return Drafts(ranked(choices), bool(missing))

    def _compare(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._judge = None
                    self.version += 1
                    return
                pair = self._queue.pop(0)
            if pair in self._judged:
                continue
            choice = self._inventory.judge_draft(*pair)
            with self._lock:
                self._judged[pair] = choice
                self.version += 1


def _specs(found: Iterable[FoundModel]) -> tuple[ModelSpec, ...]:
    specs = (model.spec for model in found)
    return tuple({spec.id: spec for spec in specs if spec is not None}.values())
