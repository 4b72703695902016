"""The third launch of a round: draw tokens, accept drafted ones, and write the round's result.

Every row's programs draw the token that would follow if the chain ended there: all rows at once, though
only one is used. The last program to finish applies the acceptance rule and advances the state.
``engine.decoding.acceptance`` has the same rules in torch; the noise is that of ``arithmetic``.

A token is drawn by an exponential race: each token's time is E / w, with exponential noise E and its
weight w, and the earliest wins. It equals the Gumbel-max trick, with one division.
"""

from __future__ import annotations

from enum import IntEnum

import triton
import triton.language as tl

from engine.kernels.cuda.intrinsics import is_last_program
from engine.kernels.cuda.sampling.arithmetic import exponential, noise_key, uniform
from engine.kernels.cuda.sampling.state import TILE
from engine.kernels.cuda.sampling.truncation import MASS_ONE, mass_of
from engine.noise import Stream
from engine.values import MAX_ROWS


class Rule(IntEnum):
    """The acceptance rule; rules from ``REJECTION`` on draw random numbers and have a residual."""

    GREEDY = 0
    COUPLED = 1
    REJECTION = 2
    BLOCK = 3


_TILE, _ROWS = tl.constexpr(TILE), tl.constexpr(MAX_ROWS)
_GREEDY, _REJECTION = tl.constexpr(int(Rule.GREEDY)), tl.constexpr(int(Rule.REJECTION))
_BLOCK_RULE = tl.constexpr(int(Rule.BLOCK))
_ACCEPT, _RESIDUAL = tl.constexpr(int(Stream.ACCEPT)), tl.constexpr(int(Stream.RESIDUAL))
_MASS_ONE = tl.constexpr(MASS_ONE)

# Offsets in the result: status, accepted tokens, p of the last token; then four lists of 16, and three
# times in nanoseconds (int64) that the round's clock writes.
RESULT_SIZE, TOKENS_AT, P_AT, Q_AT, CHAIN_AT, TIMES_AT = 80, 4, 20, 36, 52, 68
NOT_FINITE, NOTHING_ALLOWED = 1, 2
_TOKENS, _P, _Q = tl.constexpr(TOKENS_AT), tl.constexpr(P_AT), tl.constexpr(Q_AT)
_CHAIN = tl.constexpr(CHAIN_AT)
_NOT_FINITE, _NOTHING_ALLOWED = tl.constexpr(NOT_FINITE), tl.constexpr(NOTHING_ALLOWED)


@triton.jit
def _p_at(weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor, row: tl.tensor,
          token: tl.tensor, vocabulary: tl.tensor, mask: tl.tensor) -> tl.tensor:  # fmt: skip
    """Return a token's probability in a row of a ``Distribution``: float32, any shape."""
    w = tl.load(weights + row * vocabulary + token, mask, other=0.0)
    kept = w.to(tl.int32, bitcast=True) >= tl.load(thresholds + row, mask, other=0)
    return tl.where(kept, tl.div_rn(w, tl.load(masses + row, mask, other=1.0)), 0.0)


@triton.jit
def _next_scale(scale: tl.tensor, p: tl.tensor, q: tl.tensor) -> tl.tensor:
    """Return min(1, scale p / q) as ``block_scales`` does: float64 from float64 and two float32."""
    target, drafted = scale * p.to(tl.float64), q.to(tl.float64)
    return tl.where(target >= drafted, 1.0, target / tl.where(drafted > 0, drafted, 1.0))


@triton.jit
def _draft_p_at(
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, row: tl.tensor,
    token: tl.tensor, vocabulary: tl.tensor, mask: tl.tensor, HAS_Q: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the draft's probability of its own token: 1 where the draft is deterministic."""
    if HAS_Q:
        q = _p_at(q_weights, q_thresholds, q_masses, row, token, vocabulary, mask)
    else:
        q = mask.to(tl.float32)
    return q


@triton.jit
def _prefix_scale(
    row: tl.tensor, drafted: tl.tensor, weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor,
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, vocabulary: tl.tensor,
    HAS_Q: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return ``block_scales`` of the tokens drafted before a row: float64."""
    scale = tl.full([], 1.0, tl.float64)
    for node in range(0, row):
        x = tl.load(drafted + node)
        p = _p_at(weights, thresholds, masses, node, x, vocabulary, x >= 0)
        q = _draft_p_at(q_weights, q_thresholds, q_masses, node, x, vocabulary, x >= 0, HAS_Q)
        scale = _next_scale(scale, p, q)
    return scale


@triton.jit
def _race(noise: tl.tensor, weights: tl.tensor, tokens: tl.tensor) -> tl.tensor:
    """Return the winning time E / w and its index; the time is inf where all weights are 0."""
    times = tl.where(weights > 0, tl.div_rn(noise, weights), float("inf"))
    first, at = tl.min(times, 0, return_indices=True, return_indices_tie_break_left=True)
    return first, at


@triton.jit(do_not_specialize=["depth", "first"])
def accept_kernel(
    vocabulary: tl.tensor,
    depth: tl.tensor,
    first: tl.tensor,
    numbers: tl.tensor,
    drafted: tl.tensor,
    seen: tl.tensor,
    weights: tl.tensor,
    thresholds: tl.tensor,
    masses: tl.tensor,
    q_weights: tl.tensor,  # unused without HAS_Q, as the next two
    q_thresholds: tl.tensor,
    q_masses: tl.tensor,
    tile_max: tl.tensor,
    tile_argmax: tl.tensor,
    times: tl.tensor,
    winners: tl.tensor,
    residuals: tl.tensor,
    done: tl.tensor,
    out: tl.tensor,
    RULE: tl.constexpr,
    STREAM: tl.constexpr,
    HAS_Q: tl.constexpr,
    DRAFTING: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """Draw and accept tokens; grid (depth + 1, tiles), or (1, 1) under ``greedy``, which draws none."""
    row, tile = tl.program_id(0), tl.program_id(1)
    position = tl.load(numbers + 1) + first
    if RULE != _GREEDY:
        tokens = tile * _TILE + tl.arange(0, _TILE)
        inside = tokens < vocabulary
        rows = row + tokens * 0
        p = _p_at(weights, thresholds, masses, rows, tokens, vocabulary, inside)
        residual = p
        stream = tl.full([], STREAM, tl.uint64)
        if RULE >= _REJECTION:  # noqa: SIM102 (one is known to the compiler)
            if row < depth:
                stream = tl.full([], _RESIDUAL, tl.uint64)
                token = tl.load(drafted + row)
                if HAS_Q:
                    q = _p_at(q_weights, q_thresholds, q_masses, rows, tokens, vocabulary, inside)
                else:
                    q = (tokens == token).to(tl.float32)
                if RULE == _BLOCK_RULE:
                    scale = _prefix_scale(
                        row, drafted, weights, thresholds, masses, q_weights, q_thresholds, q_masses,
                        vocabulary, HAS_Q,
                    )  # fmt: skip
                    residual = residual * scale.to(tl.float32)
                residual = tl.maximum(residual - q, 0.0)
        tiles = tl.num_programs(1)
        offset = row * tiles + tile
        fallback = tl.num_programs(0) * tiles + offset
        if RULE == _BLOCK_RULE:
            tl.store(residuals + offset, tl.sum(mass_of(residual), 0))
        if tl.max(p, 0) > 0:
            noise = exponential(noise_key(tl.load(numbers), stream, position + row), tokens)
            time, at = _race(noise, residual, tokens)
            tl.store(times + offset, time)
            tl.store(winners + offset, tile * _TILE + at)
            if RULE >= _REJECTION:
                time, at = _race(noise, p, tokens)
                tl.store(times + fallback, time)
                tl.store(winners + fallback, tile * _TILE + at)
        else:
            tl.store(times + offset, float("inf"))
            tl.store(winners + offset, 0)
            tl.store(times + fallback, float("inf"))
            tl.store(winners + fallback, 0)
    if is_last_program(done, tl.num_programs(0) * tl.num_programs(1)):
        _finish_round(
            vocabulary, depth, first, numbers, drafted, seen, weights, thresholds, masses, q_weights,
            q_thresholds, q_masses, tile_max, tile_argmax, times, winners, residuals, out,
            RULE, HAS_Q, DRAFTING, TILES,
        )  # fmt: skip


@triton.jit
def _race_winners(
    times: tl.tensor, winners: tl.tensor, at: tl.tensor, mask: tl.tensor, tiles: tl.tensor
) -> tl.tensor:
    """Return each row's winning time over its tiles, and its token: both (16,)."""
    all_times = tl.load(times + at, mask, other=float("inf"))
    time, tile = tl.min(all_times, 1, return_indices=True, return_indices_tie_break_left=True)
    rows = tl.arange(0, _ROWS)
    in_chain = tl.max(mask.to(tl.int32), 1) != 0
    return time, tl.load(winners + rows * tiles + tile, in_chain, other=0)


@triton.jit
def _finish_round(
    vocabulary: tl.tensor, depth: tl.tensor, first: tl.tensor, numbers: tl.tensor,
    drafted: tl.tensor, seen: tl.tensor, weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor,
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, tile_max: tl.tensor,
    tile_argmax: tl.tensor, times: tl.tensor, winners: tl.tensor, residuals: tl.tensor,
    out: tl.tensor, RULE: tl.constexpr, HAS_Q: tl.constexpr, DRAFTING: tl.constexpr,
    TILES: tl.constexpr,
) -> None:  # fmt: skip
    """Apply the rule to the results of all programs and write the round; one program runs this."""
    rows = tl.arange(0, _ROWS)
    nodes = rows < depth
    tiles = tl.cdiv(vocabulary, _TILE)
    each = tl.arange(0, TILES)
    at = rows[:, None] * tiles + each[None, :]
    mask = (rows[:, None] <= depth) & (each[None, :] < tiles)
    maxima = tl.load(tile_max + at, mask, other=float("-inf"))
    highest, tile = tl.max(maxima, 1, return_indices=True, return_indices_tie_break_left=True)
    chain = tl.load(drafted + rows, nodes, other=0)
    p = _p_at(weights, thresholds, masses, rows, chain, vocabulary, nodes)
    q = _draft_p_at(q_weights, q_thresholds, q_masses, rows, chain, vocabulary, nodes, HAS_Q)
    if RULE == _GREEDY:
        choices = tl.load(tile_argmax + rows * tiles + tile, rows <= depth, other=0)
    else:
        time, choices = _race_winners(times, winners, at, mask, tiles)
        if RULE >= _REJECTION:
            of_p = (depth + 1) * tiles
            _, fallback = _race_winners(times + of_p, winners + of_p, at, mask, tiles)
            choices = tl.where(time < float("inf"), choices, fallback)
    if RULE >= _REJECTION:
        position = tl.load(numbers + 1) + first + rows
        coins = uniform(noise_key(tl.load(numbers), tl.full([], _ACCEPT, tl.uint64), position))
    if RULE == _BLOCK_RULE:
        scale = tl.full([], 1.0, tl.float64)
        scales = tl.full([_ROWS], 1.0, tl.float64)
        for node in range(0, depth):
            here = rows == node
            scale = _next_scale(
                scale, tl.sum(tl.where(here, p, 0.0), 0), tl.sum(tl.where(here, q, 0.0), 0)
            )
            scales = tl.where(here, scale, scales)
        # The residual after node i is in row i + 1.
        below = (rows[:, None] + 1 < depth) & mask
        left = tl.sum(tl.load(residuals + at + tiles, below, other=0), 1)
        left = left.to(tl.float64) / _MASS_ONE
        lost = left + 1.0 - scales
        chances = tl.where(lost > 0, left / tl.where(lost > 0, lost, 1.0), 1.0)
        chances = tl.where(rows == depth - 1, scales, chances)
        count = tl.max(tl.where(nodes & (coins < chances), rows + 1, 0), 0)
    else:
        if RULE == _REJECTION:
            accepted = coins < _next_scale(tl.full([_ROWS], 1.0, tl.float64), p, q)
        else:
            accepted = choices == chain
        count = tl.min(tl.where(nodes & accepted, _ROWS, rows), 0)
    ending = rows == count
    following = tl.sum(tl.where(ending, choices, 0), 0)
    emitted = tl.where(ending, following, chain)
    used = rows <= count
    broken = tl.max((used & (highest == float("inf"))).to(tl.int32), 0)
    empty = tl.max((used & (highest == float("-inf"))).to(tl.int32), 0)
    following_p = _p_at(weights, thresholds, masses, count, following, vocabulary, count >= 0)
    tl.store(out, tl.where(broken != 0, _NOT_FINITE, empty * _NOTHING_ALLOWED))
    tl.store(out + 1, count)
    tl.store(out + 2, following_p.to(tl.int32, bitcast=True))
    tl.store(out + _TOKENS + rows, tl.where(used, emitted, -1))
    tl.store(out + _P + rows, p.to(tl.int32, bitcast=True))
    tl.store(out + _Q + rows, q.to(tl.int32, bitcast=True))
    tl.store(out + _CHAIN + rows, chain)
    if DRAFTING:
        tl.store(drafted + first, following)
    else:
        tl.store(numbers + 1, tl.load(numbers + 1) + count + 1)
        # An unseen token is 0, so its first occurrence counts twice.
        tl.atomic_max(seen + emitted, 1, used)
        tl.atomic_add(seen + emitted, 1, used)
