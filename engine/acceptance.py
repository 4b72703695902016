"""Which drafted tokens stand: pure rules, no model, no clock, no hidden randomness.

``follow``
    For greedy and coupled decoding. The target has chosen its token after every node; a drafted
    token is accepted iff it is that choice. The output is the target's own, whatever was drafted.
    Coupled: Daliri, Musco, Suresh 2024, "Coupling without communication and drafter-invariant
    speculative decoding" (arXiv 2408.07978).
``reject``
    Speculative sampling: accept x with min(1, p(x)/q(x)), else draw from the normalised positive
    part of p - q. The output is distributed as p for any q. Leviathan et al. 2023 (arXiv
    2211.17192), Chen et al. 2023 (arXiv 2302.01318).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.events import Origin, Tree


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted nodes from the root down, then the target's own token and where it comes from."""

    path: tuple[int, ...]
    next_token: int
    origin: Origin


def follow(choices: Sequence[int], tree: Tree) -> Acceptance:
    """Walks down the tree as long as a child is the target's choice.

    ``choices[0]`` is the target's token after the pending one, ``choices[i + 1]`` after node i.
    """
    children: dict[tuple[int, int], int] = {}
    for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        children.setdefault((parent, token), node)
    path: list[int] = []
    at = -1
    while (child := children.get((at, choices[at + 1]))) is not None:
        path.append(child)
        at = child
    return Acceptance(tuple(path), choices[at + 1], _origin(at, tree))


def reject(
    p: Tensor,
    q: Tensor | None,
    tree: Tree,
    uniform: Callable[[int], float],
    draw: Callable[[Tensor, int, bool], int],
) -> Acceptance:
    """Speculative sampling along a chain.

    ``p``: (nodes + 1, vocabulary), row 0 after the pending token. ``q``: (nodes, vocabulary), the
    distribution each node was drawn from; None: drafted without chance, which is q = 1 at the token.
    ``uniform(i)`` is a number in (0, 1) for node i; ``draw(weights, i, residual)`` samples row i.
    """
    if not tree.is_chain:
        raise ValueError("speculative sampling is defined along a chain")
    for node, token in enumerate(tree.tokens):
        q_row = None if q is None else q[node]
        if uniform(node) < accept_probability(p[node], q_row, token):
            continue
        replacement = draw(residual(p[node], q_row, token), node, True)
        return Acceptance(tuple(range(node)), replacement, Origin.CORRECTION)
    last = len(tree)
    return Acceptance(tuple(range(last)), draw(p[last], last, False), Origin.BONUS)


def accept_probability(p: Tensor, q: Tensor | None, token: int) -> float:
    """min(1, p(token) / q(token)) for rows ``p``, ``q`` (vocabulary,); q None is q(token) = 1."""
    target = float(p[token])
    drafted = 1.0 if q is None else float(q[token])
    return 1.0 if target >= drafted else target / drafted


def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
    """Weights of the token that replaces a rejected ``token``: max(p - q, 0), not normalised."""
    if q is None:
        rest = p.clone()
        rest[token] = 0.0
    else:
        rest = (p - q).clamp_min_(0.0)
    # Rounding can reject where p == q up to the last bit; then nothing is left over and p is right.
    return rest if bool(rest.any()) else p


def _origin(at: int, tree: Tree) -> Origin:
    """Bonus if nothing was drafted below the last accepted node, correction otherwise."""
    return Origin.CORRECTION if at in tree.parents else Origin.BONUS
