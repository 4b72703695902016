"""The two forms of a head: a plan made from its files' headers, then the loaded weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from engine.backends.linear_factory import LinearFactory
from engine.drafting.heads.stored import Stored
from engine.errors import IncompatiblePair
from engine.models.architecture import Attention
from engine.models.hidden_states import AuxLayer
from engine.values import MAX_DEPTH


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

    ``aux_layers`` are the hidden states it reads, ``attentions`` those of its own decoder layers, each
    with a KV cache unless it reads the target's. ``shape``: what ``plan`` of its kind read, for ``load``.
    ``in_folder``: False for one that the target's own checkpoint brings. ``steps``: the most tokens that
    it drafts.
    """

    kind: str
    stored: Stored
    aux_layers: tuple[AuxLayer, ...]
    parameters: int
    shape: Any
    attentions: tuple[Attention, ...] = ()
    in_folder: bool = True
    steps: int = MAX_DEPTH

    @property
    def name(self) -> str:
        """The folder's or file's name; of a layer that the target brings, its kind."""
        return self.stored.name if self.in_folder else self.kind

    @property
    def note(self) -> str | None:
        """A remark on these files for users, if there is one."""
        return self.stored.note


class Head(Protocol):
    """A loaded head. It is immutable, so proposers may share it; they keep the state."""

    kind: ClassVar[str]
    """Its name in the registry, which is also that of the proposer that drafts with it."""

    @property
    def aux_layers(self) -> tuple[AuxLayer, ...]: ...

    @classmethod
    def load(cls, plan: HeadPlan, linears: LinearFactory) -> Self:
        """Read the weights; ``linears`` makes the linear layers. Raises ModelError."""


def check_fits(stored: Stored, target: TargetShape, *, hidden: int, vocabulary: int) -> None:
    """Raise IncompatiblePair, with both sizes, unless the head was made for such a target."""
    ours = target.path.name
    if hidden != target.hidden:
        raise other_target(
            stored,
            target,
            f"needs hidden states of width {hidden:,}; {ours} has width {target.hidden:,}",
        )
    if vocabulary != target.vocabulary:
        raise other_target(
            stored, target, f"knows {vocabulary:,} tokens, {ours} {target.vocabulary:,}"
        )


def other_target(stored: Stored, target: TargetShape, difference: str) -> IncompatiblePair:
    """Return the error for a head that ``difference``, unlike its target."""
    return IncompatiblePair(
        f"The head {stored.name} was made for another target: it {difference}. Choose a "
        f"head trained for {target.path.name}."
    )


def count_parameters(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of elements of tensors with these shapes."""
    return sum(math.prod(shape) for shape in shapes.values())
