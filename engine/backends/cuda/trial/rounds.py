"""A round whose tokens are known by the host's rules. Importing this needs no Triton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.events import Tree
from engine.values.sampling import AcceptanceRule, Sampling


@dataclass(frozen=True, slots=True)
class RoundCase:
    """A round: a text, what was drafted after it, and how its tokens are chosen."""

    vocabulary: int
    rule: AcceptanceRule
    sampling: Sampling
    seed: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    tree: Tree


class HostRules(Protocol):
    """The host's sampling and acceptance."""

    def probabilities(self, case: RoundCase, logits: Tensor) -> Tensor:
        """Return what the host draws from: (nodes + 1, vocabulary)."""

    def tokens(
        self, case: RoundCase, logits: Tensor, p: Tensor, q: Tensor | None
    ) -> tuple[int, ...]:
        """Return the round's tokens by ``p`` (greedy: by the logits)."""

    def tree(
        self, ranked: Sequence[tuple[list[int], list[float]]], nodes: int, *, spread: bool
    ) -> Tree:
        """Return the tree of the most probable tokens, without those of q 0; as ``branches.grow``."""
