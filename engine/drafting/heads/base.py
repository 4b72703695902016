"""What every kind of head has: a plan made from its files' headers, then the loaded weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from engine.backends.linear_factory import LinearFactory
from engine.drafting.heads.stored import Stored
from engine.errors import IncompatiblePair
from engine.models.hidden_states import AuxLayer


class TargetShape(Protocol):
    """What a head must fit; a ``Checkpoint`` is one."""

    @property
    def path(self) -> Path: ...
    @property
    def hidden(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def context(self) -> int: ...


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """A head that fits its target, before its weights are read.

    ``aux_layers`` are the hidden states it reads. ``layers``, ``kv_heads`` and ``head_dim`` size a KV
    cache of its own, 0 without one. ``shape`` is what the kind found out and needs again in ``load``.
    """

    kind: str
    stored: Stored
    aux_layers: tuple[AuxLayer, ...]
    parameters: int
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    shape: Any = None

    @property
    def name(self) -> str:
        return self.stored.folder.name

    @property
    def note(self) -> str | None:
        """What people should know about these files; None when nothing."""
        return self.stored.note


class Head(Protocol):
    """A loaded head. Its weights do not change, so proposers may share it; they keep the state."""

    kind: ClassVar[str]
    """Its name in the registry, which is also that of the proposer that drafts with it."""

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]: ...

    @classmethod
    def plan(cls, stored: Stored, target: TargetShape) -> HeadPlan:
        """Checks names, shapes and sizes. Raises ModelError or IncompatiblePair."""

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """Reads the weights; ``linears`` makes what multiplies by them. Raises ModelError."""


def check_fits(
    stored: Stored, target: TargetShape, *, hidden: int, vocabulary: int | None = None
) -> None:
    """Raises IncompatiblePair, with both sizes, unless the head was made for such a target.

    ``vocabulary``: rows of the head's own output; None for a head that uses the target's.
    """
    name, ours = stored.folder.name, target.path.name
    if hidden != target.hidden:
        raise IncompatiblePair(
            f"The head {name} was made for another target: it reads hidden states of width {hidden:,}, "
            f"{ours} has a width of {target.hidden:,}. Choose a head that was trained for {ours}."
        )
    if vocabulary is not None and vocabulary != target.vocabulary:
        raise IncompatiblePair(
            f"The head {name} was made for another target: it knows {vocabulary:,} tokens, {ours} "
            f"{target.vocabulary:,}. Choose a head that was trained for {ours}."
        )
