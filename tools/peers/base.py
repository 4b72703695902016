"""What the engines are given, and what they give back.

The figure that all must give alike is the speed of decoding: tokens over the time they took, without
the prompt. Most engines tell when the first token was there, so their first token is not counted and
neither is the time up to it. Our rounds are timed themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from engine.models.checkpoints.checkpoint import AUTO

PLAIN, DRAFT, NGRAM = "plain", "draft", "ngram"
"""Settings by what they do, so that engines can be compared; how each does it is in ``detail``."""


class Source(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"
    SIMULATED = "simulated acceptance"
    COMPUTED = "computed from measured step times"


@dataclass(frozen=True, slots=True)
class Case:
    """What is run. ``quantization``: how our engine holds the weights; others take what is nearest to it.

    ``depth``: tokens drafted a round; None leaves that to every engine's own default.
    ``acceptance``: drafts are simulated to be right so often; None: real drafts.
    ``eos``: tokens that end a reply; without any, replies go on to the limit.
    ``longest``: tokens of the longest prompt and its reply.
    ``device`` is for what runs in this process; ``native`` and ``cuda_graphs`` are for our engine; see
    ``LoadRequest``.
    """

    name: str
    target: Path
    draft: Path | None
    quantization: str
    eos: frozenset[int]
    longest: int
    threads: int
    depth: int | None = None
    acceptance: float | None = None
    seed: int = 1
    device: str = AUTO
    native: bool = True
    cuda_graphs: bool = True


@dataclass(frozen=True, slots=True)
class Entrant:
    """One line of the result. ``quantization``: how this engine holds the weights."""

    engine: str
    setting: str
    quantization: str
    detail: str = ""
    source: Source = Source.MEASURED


@dataclass(frozen=True, slots=True)
class Reply:
    """``decoded`` tokens took ``seconds``; ``tokens`` are all, or None where they mean nothing."""

    tokens: tuple[int, ...] | None
    decoded: float
    seconds: float


class Contender(Protocol):
    """One engine in one setting, loaded and warm."""

    @property
    def entrant(self) -> Entrant: ...

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        """Continues ``prompt`` by at most ``limit`` tokens, greedily, from an empty cache."""

    def close(self) -> None:
        """Frees what it holds; may be called twice."""


class Peer(Protocol):
    """An engine that may or may not be on this machine."""

    @property
    def name(self) -> str: ...

    def absent(self) -> str | None:
        """Why it cannot run here, and how to get it; None when it can."""

    def contenders(self, case: Case, workspace: Path) -> list[Contender]:
        """Its settings, ready. ``workspace`` is a folder for files, removed after the run.

        Raises PeerFailed; then nothing of it is left running.
        """
