"""Progress of downloads and loads, and how a load is watched and cancelled. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from engine.errors import LoadCancelled

if TYPE_CHECKING:
    from engine.models.checkpoints.checkpoint import Checkpoint

T = TypeVar("T")


class Stage(StrEnum):
    """The steps of a load, in order; weights take longest."""

    CONNECTING = "connecting"  # to a server
    COMPILING = "compiling"  # the step, if the weights need it
    WAITING = "waiting"  # for a running reply
    CHECKING = "checking"
    TARGET = "target"  # its weights
    TRYING = "trying"  # the kernels of a GPU, beside torch
    TOKENIZER = "tokenizer"  # if it is not built yet
    DRAFT = "draft"  # its weights
    FINISHING = "finishing"
    CAPTURING = "capturing"  # rounds on a GPU, as graphs


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """``bytes`` of ``total`` of all model files were read; 0 before they are known.

    ``share`` of the stage that is done, if it reads no files.
    """

    stage: Stage
    bytes: int = 0
    total: int = 0
    share: float | None = None

    @property
    def fraction(self) -> float | None:
        """None before it is known."""
        if self.share is not None:
            return self.share
        return self.bytes / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Progress of a model's download. Bytes of earlier tries count; the speed is this try's.

    ``waiting`` says why nothing arrives now, or is "".
    """

    repository: str
    file: str
    bytes: int
    total: int
    bytes_per_s: float
    eta_s: float | None
    waiting: str = ""

    @property
    def fraction(self) -> float:
        return self.bytes / self.total if self.total else 0.0


class LoadWatch:
    """Reports the progress of a load; each method raises LoadCancelled once the load is cancelled."""

    def __init__(
        self,
        on_loading: Callable[[LoadProgress], None] = lambda progress: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._on_loading, self._cancelled = on_loading, cancelled
        self._stage = Stage.CHECKING
        self._before = self._total = 0

    def begin(self, stage: Stage) -> None:
        """Report the next stage."""
        self._stage = stage
        self._report(self._before)

    def done(self, share: float) -> None:
        """Report which share of a stage that reads no files is done."""
        self._report(self._before, share)

    def expect(self, *checkpoints: Checkpoint) -> None:
        """Set what will be read."""
        self._before, self._total = 0, sum(each.bytes for each in checkpoints)

    def reading(self, checkpoint: Checkpoint, source: Callable[[str], T]) -> Callable[[str], T]:
        """Return ``source`` of the checkpoint's tensors, with progress reported at each call."""
        weights = {name: math.prod(info.shape) for name, info in checkpoint.tensors.items()}
        a_weight = checkpoint.bytes / max(sum(weights.values()), 1)
        read = 0

        def fetch(name: str) -> T:
            nonlocal read
            self._report(self._before + int(min(read * a_weight, checkpoint.bytes)))
            read += weights.get(name, 0)
            return source(name)

        return fetch

    def loaded(self, checkpoint: Checkpoint) -> None:
        """Count a checkpoint as read."""
        self._before += checkpoint.bytes

    def _report(self, done: int, share: float | None = None) -> None:
        if self._cancelled():
            raise LoadCancelled("Loading was cancelled. The previous model is still loaded.")
        self._on_loading(LoadProgress(self._stage, done, self._total, share))
