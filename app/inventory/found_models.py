"""What lies on this machine already, looked for and compared behind the caller's back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.inventory.model_folders import (
    add_folder,
    forget_model,
    model_folders,
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


@dataclass(frozen=True, slots=True)
class Drafts:
    """What can draft for a target and what cannot, fitting ones first. ``pending``: more to come."""

    choices: tuple[DraftChoice, ...]
    pending: bool


class FoundModels:
    """The models that other programs keep, those in the folders that the user added, those that were
    opened by their path, and downloads.

    ``version`` changes with everything that may be shown. Safe to use from any thread.
    """

    def __init__(self, data_dir: Path, inventory: Inventory) -> None:
        """Nothing is looked for until ``scan``."""
        self._data_dir, self._inventory = data_dir, inventory
        self._lock = threading.Lock()
        self._scan: BackgroundScan | None = None
        self._found: tuple[FoundModel, ...] = ()
        self._judged: dict[_Pair, DraftChoice] = {}
        self._queue: list[_Pair] = []
        self._judge: threading.Thread | None = None
        self.version = 0

    # ---- looking

    def scan(self) -> None:
        """Looks for everything anew; until that is done, what was found before is shown."""
        with self._lock:
            if self._scan is not None:
                self._scan.cancel()
            self._judged.clear()
            self._scan = self._inventory.scan_in_background(lambda _: self._changed(), self._done)
            self.version += 1

    def scan_once(self) -> None:
        """Looks for everything, unless that was begun already."""
        if self._scan is None:
            self.scan()

    @property
    def found(self) -> tuple[FoundModel, ...]:
        """What is known of now: of a first scan what it found so far."""
        scan = self._scan
        return self._found or (() if scan is None else scan.found)

    @property
    def usable(self) -> tuple[ModelSpec, ...]:
        """Those that can be run, once each."""
        specs = (model.spec for model in self.found)
        return tuple({spec.id: spec for spec in specs if spec is not None}.values())

    @property
    def heads(self) -> tuple[Path, ...]:
        """Folders of heads, each of which was made for some target."""
        return tuple(model.path for model in self.found if model.head)

    def place_of(self, spec: ModelSpec) -> str | None:
        """The program or folder that keeps a model that was found."""
        return next((one.place for one in self.found if one.spec == spec), None)

    @property
    def scanning(self) -> bool:
        """Whether more may be found."""
        return self._scan is not None and self._scan.running

    @property
    def working(self) -> bool:
        """Whether ``version`` may change by itself."""
        return self.scanning or self._judge is not None

    def close(self) -> None:
        """Ends what is under way, behind the file that is being read."""
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

    @property
    def folders(self) -> tuple[Path, ...]:
        """Those that the user added."""
        return model_folders(self._data_dir)

    def add(self, folder: Path) -> None:
        """Raises InvalidRequest where there is no such folder, DiskError where it cannot be kept."""
        add_folder(self._data_dir, folder)
        self.scan()

    def remove(self, folder: Path) -> None:
        """Looks there no more; nothing in it is touched. Raises as ``add``."""
        remove_folder(self._data_dir, folder)
        kept = tuple(model for model in self._found if model.place != str(folder))
        with self._lock:
            self._found = kept
        self.scan()

    # ---- opened by their path

    @property
    def recent(self) -> tuple[Path, ...]:
        """What was opened last stands first."""
        return recent_models(self._data_dir)

    def remember(self, *opened: Path) -> None:
        """They are found from now on, too. Raises DiskError where that cannot be kept."""
        if remember_models(self._data_dir, opened):
            self.scan()

    def forget(self, path: Path) -> None:
        """It is found no more, unless something else keeps it; nothing of it is touched. Raises as
        ``remember``."""
        forget_model(self._data_dir, path)
        self._found = tuple(model for model in self._found if model.path != path)
        self.scan()

    # ---- drafts

    def compare(self, target: ModelSpec, drafts: Iterable[ModelSpec]) -> Drafts:
        """Which of ``drafts``, all on the disk, fit ``target``, and why others do not.

        At once what is known already; the rest is compared in the background, for tokenizers of
        hundreds of thousands of tokens are read for it.
        """
        pairs = [(target, spec) for spec in drafts if spec.id != target.id]
        with self._lock:
            known = [self._judged[pair] for pair in pairs if pair in self._judged]
            missing = [pair for pair in pairs if pair not in self._judged]
            # What was asked for last is compared first: the one before may be of no interest any more.
            self._queue = [*missing, *(pair for pair in self._queue if pair not in missing)]
            if missing and self._judge is None:
                self._judge = threading.Thread(
                    target=self._compare, name="compare drafts", daemon=True
                )
                self._judge.start()
        return Drafts(ranked(known), bool(missing))

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
