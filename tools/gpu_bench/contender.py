"""An engine in one setting as a contender in a race, and its replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

PLAIN, DRAFT = "plain", "draft"
"""Settings; ``Entrant.detail`` says how an engine does it."""


class Source(StrEnum):
    """The source of a figure."""

    MEASURED = "measured"
    SIMULATED = "simulated acceptance"


@dataclass(frozen=True, slots=True)
class Entrant:
    """The names in one line of the result. ``quantization``: the format of this engine's weights."""

    engine: str
    setting: str
    quantization: str
    detail: str = ""
    source: Source = Source.MEASURED


@dataclass(frozen=True, slots=True)
class Reply:
    """All ``tokens``. Decoding ``decoded`` of them took ``seconds``, without the prompt."""

    tokens: tuple[int, ...]
    decoded: float
    seconds: float


class Contender(Protocol):
    """One engine in one setting, loaded and warm."""

    @property
    def entrant(self) -> Entrant: ...

    def answer(self, prompt: Sequence[int], limit: int) -> Reply:
        """Continue ``prompt`` by at most ``limit`` tokens, greedily, from an empty cache."""

    def close(self) -> None:
        """Free its memory; may be called twice."""
