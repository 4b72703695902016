"""The third launch of a round: draws, judges the drafted chain, and writes what the host reads.

Every row's programs draw the token that would follow if the chain ended there: all rows at once,
though one is used. The last program to finish knows them all; it applies the rule and moves the
state on. The rules are those of ``engine.decoding.acceptance``, which is their torch reference, with
``engine.kernels.cuda.sampling.arithmetic``'s noise.
"""

from __future__ import annotations

from enum import IntEnum

import triton
import triton.language as tl

from engine.kernels.cuda.last_program import is_last_program
from engine.kernels.cuda.sampling.arithmetic import exponential, noise_key, uniform
from engine.kernels.cuda.sampling.state import BLOCK
from engine.kernels.cuda.sampling.truncation import MASS_ONE, mass_of
from engine.noise import Stream
from engine.values import MAX_ROWS


class Rule(IntEnum):
    """How the chain is judged; from ``REJECTION`` on by chance, with a residual."""

    GREEDY = 0
    COUPLED = 1
    REJECTION = 2
    BLOCK = 3


_BLOCK, _ROWS = tl.constexpr(BLOCK), tl.constexpr(MAX_ROWS)
_GREEDY, _REJECTION = tl.constexpr(int(Rule.GREEDY)), tl.constexpr(int(Rule.REJECTION))
_BLOCK_RULE = tl.constexpr(int(Rule.BLOCK))
_ACCEPT, _RESIDUAL = tl.constexpr(int(Stream.ACCEPT)), tl.constexpr(int(Stream.RESIDUAL))
_MASS_ONE = tl.constexpr(MASS_ONE)

# Where things stand in the result: status, accepted tokens, p of the last token, then four lists of
# 16, and three times in nanoseconds that the round's clock writes (int64).
RESULT_SIZE, TOKENS_AT, P_AT, Q_AT, CHAIN_AT, TIMES_AT = 80, 4, 20, 36, 52, 68
NOT_FINITE, NOTHING_ALLOWED = 1, 2
_TOKENS, _P, _Q = tl.constexpr(TOKENS_AT), tl.constexpr(P_AT), tl.constexpr(Q_AT)
_CHAIN = tl.constexpr(CHAIN_AT)
_NOT_FINITE, _NOTHING_ALLOWED = tl.constexpr(NOT_FINITE), tl.constexpr(NOTHING_ALLOWED)


@triton.jit
def _p_at(weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor, row: tl.tensor,
          token: tl.tensor, vocabulary: tl.tensor, live: tl.tensor) -> tl.tensor:  # fmt: skip
    """A token's probability in a row of a ``Distribution``; float32. Any shape."""
    w = tl.load(weights + row * vocabulary + token, live, other=0.0)
    kept = w.to(tl.int32, bitcast=True) >= tl.load(thresholds + row, live, other=0)
    return tl.where(kept, tl.div_rn(w, tl.load(masses + row, live, other=1.0)), 0.0)


@triton.jit
def _scale_on(scale: tl.tensor, p: tl.tensor, q: tl.tensor) -> tl.tensor:
    """min(1, scale p / q): float64 from float64 and two float32, as ``block_scales`` has it."""
    target, drafted = scale * p.to(tl.float64), q.to(tl.float64)
    return tl.where(target >= drafted, 1.0, target / tl.where(drafted > 0, drafted, 1.0))


@triton.jit
def _draft_p_at(
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, row: tl.tensor,
    token: tl.tensor, vocabulary: tl.tensor, live: tl.tensor, HAS_Q: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """What the draft gave its own token; 1 where it drafts without chance."""
    if HAS_Q:
        q = _p_at(q_weights, q_thresholds, q_masses, row, token, vocabulary, live)
    else:
        q = live.to(tl.float32)
    return q


@triton.jit
def _scale_before(
    row: tl.tensor, drafted: tl.tensor, weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor,
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, vocabulary: tl.tensor,
    HAS_Q: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """``block_scales`` of the tokens drafted before a row; float64."""
    scale = tl.full([], 1.0, tl.float64)
    for node in range(0, row):
        x = tl.load(drafted + node)
        p = _p_at(weights, thresholds, masses, node, x, vocabulary, x >= 0)
        q = _draft_p_at(q_weights, q_thresholds, q_masses, node, x, vocabulary, x >= 0, HAS_Q)
        scale = _scale_on(scale, p, q)
    return scale


@triton.jit
def _race(noise: tl.tensor, weights: tl.tensor, tokens: tl.tensor) -> tl.tensor:
    """The first clock E / w to ring, and whose it is; inf where no weight is left."""
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
    peaks: tl.tensor,
    peak_tokens: tl.tensor,
    times: tl.tensor,
    winners: tl.tensor,
    residuals: tl.tensor,
    done: tl.tensor,
    out: tl.tensor,
    RULE: tl.constexpr,
    STREAM: tl.constexpr,
    HAS_Q: tl.constexpr,
    DRAFTING: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """Draws and judges; grid (depth + 1, blocks), (1, 1) under ``greedy``, which draws nothing."""
    row, block = tl.program_id(0), tl.program_id(1)
    position = tl.load(numbers + 1) + first
    if RULE != _GREEDY:
        tokens = block * _BLOCK + tl.arange(0, _BLOCK)
        inside = tokens < vocabulary
        p = _p_at(weights, thresholds, masses, row + tokens * 0, tokens, vocabulary, inside)
        rest = p
        stream = tl.full([], STREAM, tl.uint64)
        if RULE >= _REJECTION:  # noqa: SIM102 (one is known to the compiler)
            if row < depth:
                stream = tl.full([], _RESIDUAL, tl.uint64)
                token = tl.load(drafted + row)
                if HAS_Q:
                    q = _p_at(
                        q_weights,
                        q_thresholds,
                        q_masses,
                        row + tokens * 0,
                        tokens,
                        vocabulary,
                        inside,
                    )
                else:
                    q = (tokens == token).to(tl.float32)
                if RULE == _BLOCK_RULE:
                    scale = _scale_before(
                        row, drafted, weights, thresholds, masses, q_weights, q_thresholds, q_masses,
                        vocabulary, HAS_Q,
                    )  # fmt: skip
                    rest = rest * scale.to(tl.float32)
                rest = tl.maximum(rest - q, 0.0)
        blocks = tl.num_programs(1)
        place = row * blocks + block
        spare = tl.num_programs(0) * blocks + place
        if RULE == _BLOCK_RULE:
            tl.store(residuals + place, tl.sum(mass_of(rest), 0))
        if tl.max(p, 0) > 0:
            noise = exponential(noise_key(tl.load(numbers), stream, position + row), tokens)
            time, at = _race(noise, rest, tokens)
            tl.store(times + place, time)
            tl.store(winners + place, block * _BLOCK + at)
            if RULE >= _REJECTION:
                time, at = _race(noise, p, tokens)
                tl.store(times + spare, time)
                tl.store(winners + spare, block * _BLOCK + at)
        else:
            tl.store(times + place, float("inf"))
            tl.store(winners + place, 0)
            tl.store(times + spare, float("inf"))
            tl.store(winners + spare, 0)
    if is_last_program(done, tl.num_programs(0) * tl.num_programs(1)):
        _conclude(
            vocabulary, depth, first, numbers, drafted, seen, weights, thresholds, masses, q_weights,
            q_thresholds, q_masses, peaks, peak_tokens, times, winners, residuals, out,
            RULE, HAS_Q, DRAFTING, BLOCKS,
        )  # fmt: skip


@triton.jit
def _drawn(
    times: tl.tensor, winners: tl.tensor, at: tl.tensor, there: tl.tensor, blocks: tl.tensor
) -> tl.tensor:
    """Each row's first clock over its blocks, and whose it is: both (16,)."""
    all_times = tl.load(times + at, there, other=float("inf"))
    time, block = tl.min(all_times, 1, return_indices=True, return_indices_tie_break_left=True)
    rows = tl.arange(0, _ROWS)
    # A row beyond the chain reads the first one's winner, and nobody reads that.
    live = tl.max(there.to(tl.int32), 1) != 0
    return time, tl.load(winners + rows * blocks + block, live, other=0)


@triton.jit
def _conclude(
    vocabulary: tl.tensor, depth: tl.tensor, first: tl.tensor, numbers: tl.tensor,
    drafted: tl.tensor, seen: tl.tensor, weights: tl.tensor, thresholds: tl.tensor, masses: tl.tensor,
    q_weights: tl.tensor, q_thresholds: tl.tensor, q_masses: tl.tensor, peaks: tl.tensor,
    peak_tokens: tl.tensor, times: tl.tensor, winners: tl.tensor, residuals: tl.tensor,
    out: tl.tensor, RULE: tl.constexpr, HAS_Q: tl.constexpr, DRAFTING: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:  # fmt: skip
    """The round, from what all programs left; run by one of them."""
    rows = tl.arange(0, _ROWS)
    nodes = rows < depth
    blocks = tl.cdiv(vocabulary, _BLOCK)
    each = tl.arange(0, BLOCKS)
    at = rows[:, None] * blocks + each[None, :]
    there = (rows[:, None] <= depth) & (each[None, :] < blocks)
    all_peaks = tl.load(peaks + at, there, other=float("-inf"))
    highest, block = tl.max(all_peaks, 1, return_indices=True, return_indices_tie_break_left=True)
    chain = tl.load(drafted + rows, nodes, other=0)
    p = _p_at(weights, thresholds, masses, rows, chain, vocabulary, nodes)
    q = _draft_p_at(q_weights, q_thresholds, q_masses, rows, chain, vocabulary, nodes, HAS_Q)
    if RULE == _GREEDY:
        choices = tl.load(peak_tokens + rows * blocks + block, rows <= depth, other=0)
    else:
        time, choices = _drawn(times, winners, at, there, blocks)
        if RULE >= _REJECTION:
            spare = (depth + 1) * blocks
            _, fallback = _drawn(times + spare, winners + spare, at, there, blocks)
            choices = tl.where(time < float("inf"), choices, fallback)
    if RULE >= _REJECTION:
        position = tl.load(numbers + 1) + first + rows
        coins = uniform(noise_key(tl.load(numbers), tl.full([], _ACCEPT, tl.uint64), position))
    if RULE == _BLOCK_RULE:
        scale = tl.full([], 1.0, tl.float64)
        scales = tl.full([_ROWS], 1.0, tl.float64)
        for node in range(0, depth):
            here = rows == node
            scale = _scale_on(
                scale, tl.sum(tl.where(here, p, 0.0), 0), tl.sum(tl.where(here, q, 0.0), 0)
            )
            scales = tl.where(here, scale, scales)
        # The residual after node i is that of row i + 1.
        below = (rows[:, None] + 1 < depth) & there
        left = tl.sum(tl.load(residuals + at + blocks, below, other=0), 1)
        left = left.to(tl.float64) / _MASS_ONE
        lost = left + 1.0 - scales
        chances = tl.where(lost > 0, left / tl.where(lost > 0, lost, 1.0), 1.0)
        chances = tl.where(rows == depth - 1, scales, chances)
        count = tl.max(tl.where(nodes & (coins < chances), rows + 1, 0), 0)
    else:
        if RULE == _REJECTION:
            stands = coins < _scale_on(tl.full([_ROWS], 1.0, tl.float64), p, q)
        else:
            stands = choices == chain
        count = tl.min(tl.where(nodes & stands, _ROWS, rows), 0)
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
        # Unseen is 0, so the first time counts twice.
        tl.atomic_max(seen + emitted, 1, used)
        tl.atomic_add(seen + emitted, 1, used)
