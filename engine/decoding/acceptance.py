"""Accept or reject drafted tokens: pure rules, no model, no clock, no hidden randomness.

``accept_matching``
    For greedy and coupled decoding. The target has chosen its token after every node; a drafted
    token is accepted iff it is that choice. The output is the target's own, whatever was drafted.
    Coupled: Daliri, Musco, Suresh 2024, "Coupling without communication and drafter-invariant
    speculative decoding" (arXiv 2408.07978).
``rejection_sample``
    Speculative sampling: accept x with min(1, p(x)/q(x)), else draw from the normalised positive
    part of p - q. The output is distributed as p for any q. Leviathan et al. 2023 (arXiv
    2211.17192), Chen et al. 2023 (arXiv 2302.01318).
``verify_block``
    Speculative sampling that verifies the drafted tokens jointly; on average it accepts no fewer.
    Sun et al. 2024, "Block verification accelerates speculative decoding" (arXiv 2403.10444),
    algorithm 2.
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


def accept_matching(choices: Sequence[int], tree: Tree) -> Acceptance:
    """Return the longest path of the target's choices, and the token after it.

    ``choices[0]`` is the target's token after the pending one, ``choices[i + 1]`` after node i.
    """
    children: dict[tuple[int, int], int] = {}
    for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        children.setdefault((parent, token), node)
    path: list[int] = []
    last = -1
    while (child := children.get((last, choices[last + 1]))) is not None:
        path.append(child)
        last = child
    return Acceptance(tuple(path), choices[last + 1], _origin(last, tree))


def follow(tokens: Sequence[int], tree: Tree) -> Acceptance:
    """Return the acceptance of a round that emitted ``tokens``, of which the last is the target's own."""
    path = tree.path_of(tokens[:-1])
    return Acceptance(path, tokens[-1], _origin(path[-1] if path else -1, tree))


def rejection_sample(
    p: Tensor,
    q: Tensor | None,
    tree: Tree,
    uniform: Callable[[int], float],
    draw: Callable[[Tensor, int, bool], int],
) -> Acceptance:
    """Accept or reject a chain by speculative sampling.

    ``p``: (nodes + 1, vocabulary), row 0 after the pending token. ``q``: (nodes, vocabulary), the
    distribution each node was drawn from; None: drafted deterministically, which is q = 1 at the token.
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


def verify_block(
    p: Tensor,
    q: Tensor | None,
    tree: Tree,
    uniform: Callable[[int], float],
    draw: Callable[[Tensor, int, bool], int],
) -> Acceptance:
    """Accept or reject a chain by block verification; arguments as for ``rejection_sample``.

    Accept the longest prefix whose own test succeeds, even if the test of a shorter one failed.
    """
    if not tree.is_chain:
        raise ValueError("block verification is defined along a chain")
    scales = block_scales(p, q, tree.tokens)
    chances = block_chances(p, q, tree.tokens, scales)
    accepted = max((i + 1 for i, chance in enumerate(chances) if uniform(i) < chance), default=0)
    path, last = tuple(range(accepted)), len(tree)
    if accepted == last:
        return Acceptance(path, draw(p[last], last, False), Origin.BONUS)
    q_row = None if q is None else q[accepted]
    rest = residual(p[accepted] * scales[accepted], q_row, tree.tokens[accepted])
    return Acceptance(path, draw(rest, accepted, True), Origin.CORRECTION)


def block_scales(p: Tensor, q: Tensor | None, tokens: Sequence[int]) -> list[float]:
    """Return each prefix's likelihood ratio of p to q, capped at 1; the empty prefix comes first.

    It is ``p_i`` of the paper: s_0 = 1, s_i = min(1, s_{i-1} p(x_i) / q(x_i)).
    """
    scales = [1.0]
    for node, token in enumerate(tokens):
        target = scales[-1] * float(p[node][token])
        drafted = 1.0 if q is None else float(q[node][token])
        scales.append(1.0 if target >= drafted else target / drafted)
    return scales


def block_chances(
    p: Tensor, q: Tensor | None, tokens: Sequence[int], scales: Sequence[float]
) -> list[float]:
    """Return the probability that each prefix's own test accepts it: ``h_i`` of the paper, i from 1."""
    chances = []
    for length in range(1, len(tokens)):
        q_row = None if q is None else q[length]
        rest = _positive_part(p[length] * scales[length], q_row, tokens[length])
        left = float(rest.double().sum())
        lost = left + 1.0 - scales[length]
        # 0: p and q agree from here on, and a longer prefix is accepted anyway.
        chances.append(left / lost if lost > 0 else 1.0)
    return [*chances, scales[-1]] if tokens else []


def accept_probability(p: Tensor, q: Tensor | None, token: int) -> float:
    """Return min(1, p(token) / q(token)) for rows ``p``, ``q`` (vocabulary,); q None is q(token) = 1."""
    target = float(p[token])
    drafted = 1.0 if q is None else float(q[token])
    return 1.0 if target >= drafted else target / drafted


def residual(p: Tensor, q: Tensor | None, token: int) -> Tensor:
    """Return the weights of the token that replaces ``token``: max(p - q, 0), not normalised."""
    rest = _positive_part(p, q, token)
    # Rounding can reject where p == q up to the last bit; then nothing is left over and p is right.
    return rest if bool(rest.any()) else p


def _positive_part(p: Tensor, q: Tensor | None, token: int) -> Tensor:
    if q is None:
        rest = p.clone()
        rest[token] = 0.0
        return rest
    return (p - q).clamp_min_(0.0)


def _origin(last: int, tree: Tree) -> Origin:
    """Return BONUS if nothing was drafted below the last accepted node, else CORRECTION."""
    return Origin.CORRECTION if last in tree.parents else Origin.BONUS
