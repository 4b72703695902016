"""Draw tokens, verify what was drafted by the rules of ``engine.decoding.acceptance``, read the result.

A token is drawn by an exponential race: each token's time is E / p, with exponential noise E, and the
earliest wins. It equals the Gumbel-max trick, with one division. Every row draws the token that would
follow if the chain ended there: all rows at once, though only one is used. Rows of a tree at one depth
have the same noise, that of their position.
"""

from __future__ import annotations

import math
from enum import IntEnum

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.errors import BROKEN_LOGITS, DEAD_END, InvalidRequest, ModelError
from engine.kernels.cuda.sampling.arithmetic import exponential, noise_key, uniform
from engine.kernels.cuda.sampling.distribution import MASS_ONE
from engine.kernels.cuda.sampling.state import SamplingState
from engine.noise import Stream
from engine.values import MAX_ROWS, MAX_TOP_LOGPROBS, RoundResult, TopTokens


class Rule(IntEnum):
    """The acceptance rule; rules from ``REJECTION`` on draw random numbers and have a residual."""

    GREEDY = 0
    COUPLED = 1
    REJECTION = 2
    BLOCK = 3


# Offsets in the result: status, accepted tokens, p of the last token; then four lists of 16, four times
# in nanoseconds (int64) that the round's clock writes, and each drafted token's parent.
RESULT_SIZE, TOKENS_AT, P_AT, Q_AT, CHAIN_AT, TIMES_AT, PARENTS_AT = 92, 4, 20, 36, 52, 68, 76
NOT_FINITE, NOTHING_ALLOWED = 1, 2
TILE, WARPS = 2048, 8
"""Tokens of one program of a race, and its warps."""
NEVER = 0x7F800000 << 32
"""The time inf and token 0: a race that nobody has won."""
_TOKENS, _P, _Q, _CHAIN, _PARENTS = map(tl.constexpr, (TOKENS_AT, P_AT, Q_AT, CHAIN_AT, PARENTS_AT))
_NEVER, _NOT_FINITE, _NOTHING_ALLOWED, _TILE, _ROWS, _MASS_ONE = map(
    tl.constexpr, (NEVER, NOT_FINITE, NOTHING_ALLOWED, TILE, MAX_ROWS, MASS_ONE)
)
_GREEDY, _REJECTION = tl.constexpr(int(Rule.GREEDY)), tl.constexpr(int(Rule.REJECTION))
_BLOCK_RULE = tl.constexpr(int(Rule.BLOCK))
_DRAFT, _ACCEPT, _RESIDUAL = (
    tl.constexpr(int(each)) for each in (Stream.DRAFT, Stream.ACCEPT, Stream.RESIDUAL)
)


@triton.jit
def _place_in_draft(start: tl.tensor, index: tl.tensor) -> tl.tensor:
    """See ``engine.noise``."""
    return start + (index.to(tl.int64) << 32)


@triton.jit
def _next_scale(scale: tl.tensor, p: tl.tensor, q: tl.tensor) -> tl.tensor:
    """Return min(1, scale p / q) as ``block_scales`` does: float64 from float64 and two float32."""
    target, drafted = scale * p.to(tl.float64), q.to(tl.float64)
    return tl.where(target >= drafted, 1.0, target / tl.where(drafted > 0, drafted, 1.0))


@triton.jit
def race_times(noise: tl.tensor, weights: tl.tensor) -> tl.tensor:
    """Return each token's time in a race, E / w."""
    return tl.where(weights > 0, tl.div_rn(noise, weights), float("inf"))


@triton.jit
def _race(winners: tl.tensor, noise: tl.tensor, weights: tl.tensor, tokens: tl.tensor) -> None:
    """Enter tokens into a race; the time is above the token's bits, so the first of equals wins."""
    entries = (race_times(noise, weights).to(tl.int32, bitcast=True).to(tl.int64) << 32) | tokens
    tl.atomic_min(winners, tl.min(entries, 0), sem="relaxed")


@triton.jit(do_not_specialize=["depth", "first"])
def race_kernel(
    vocabulary: tl.tensor, depth: tl.tensor, first: tl.tensor, seed_and_length: tl.tensor,
    drafted: tl.tensor, p_rows: tl.tensor, q_rows: tl.tensor, winners: tl.tensor,
    residual_mass: tl.tensor, scales: tl.tensor, tree: tl.tensor, RULE: tl.constexpr,
    STREAM: tl.constexpr, HAS_Q: tl.constexpr, TREE: tl.constexpr,
) -> None:  # fmt: skip
    """Draw each row's token from its residual and from p; grid (depth + 1, tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    tokens = tile * _TILE + tl.arange(0, _TILE)
    inside = tokens < vocabulary
    p = tl.load(p_rows + row * vocabulary + tokens, inside, other=0.0)
    residual = p
    stream = tl.full([], STREAM, tl.uint64)
    if RULE == _BLOCK_RULE:
        scale = tl.full([], 1.0, tl.float64)
        for node in range(0, row):
            at = node * vocabulary + tl.load(drafted + node)
            q_at = tl.full([], 1.0, tl.float32)
            if HAS_Q:
                q_at = tl.load(q_rows + at)
            scale = _next_scale(scale, tl.load(p_rows + at), q_at)
        residual = residual * scale.to(tl.float32)
        tl.store(scales + row, scale)
    if RULE >= _REJECTION:  # noqa: SIM102 (one is known to the compiler)
        if row < depth:
            stream = tl.full([], _RESIDUAL, tl.uint64)
            q = (tokens == tl.load(drafted + row)).to(tl.float32)
            if HAS_Q:
                q = tl.load(q_rows + row * vocabulary + tokens, inside, other=0.0)
            residual = tl.maximum(residual - q, 0.0)
    if RULE == _BLOCK_RULE:
        tl.atomic_add(
            residual_mass + row, tl.sum((residual * _MASS_ONE).to(tl.int64), 0), sem="relaxed"
        )
    if tl.max(p, 0) > 0:
        position = tl.load(seed_and_length + 1)
        if STREAM == _DRAFT:
            position = _place_in_draft(position, first)
        else:
            position += first + (tl.load(tree + row) if TREE else row)
        noise = exponential(noise_key(tl.load(seed_and_length), stream, position), tokens)
        _race(winners + row, noise, residual, tokens)
        if RULE >= _REJECTION:
            _race(winners + _ROWS + row, noise, p, tokens)


@triton.jit(do_not_specialize=["depth"])
def accept_kernel(
    vocabulary: tl.tensor, depth: tl.tensor, seed_and_length: tl.tensor, drafted: tl.tensor,
    token_counts: tl.tensor, p_rows: tl.tensor, q_rows: tl.tensor, max_logits: tl.tensor,
    argmax: tl.tensor, winners: tl.tensor, residual_mass: tl.tensor, scales: tl.tensor, out: tl.tensor,
    tree: tl.tensor, accepted_rows: tl.tensor, RULE: tl.constexpr, HAS_Q: tl.constexpr,
    TREE: tl.constexpr,
) -> None:  # fmt: skip
    """Apply the rule to all rows at once, write the round and advance the state; one program.

    Of a tree also write the ``accepted_rows``, from the root down; only for rules that do not weigh q.
    """
    rows = tl.arange(0, _ROWS)
    nodes = rows < depth
    chain = tl.load(drafted + rows, nodes, other=0)
    before, drawn = rows, rows  # of each node: the row before it, and its row of q
    if TREE:  # node i has row i + 1
        up = tl.load(tree + rows + 1, nodes, other=1) - 1
        before, drawn = tl.load(tree + (rows + 2) * _ROWS + up, nodes, other=_ROWS), up
    p = tl.load(p_rows + before * vocabulary + chain, nodes, other=0.0)
    q = nodes.to(tl.float32)
    if RULE == _GREEDY:
        q = q * float("nan")  # nobody has computed it
    elif HAS_Q:
        q = tl.load(q_rows + drawn * vocabulary + chain, nodes, other=0.0)
    if RULE == _GREEDY:
        choices = tl.load(argmax + rows, rows <= depth, other=0).to(tl.int32)
    else:
        won = tl.load(winners + rows, rows <= depth, other=0)
        if RULE >= _REJECTION:  # rounding may reject where p == q: nothing is left, and p is right
            won = tl.where(
                won < _NEVER, won, tl.load(winners + _ROWS + rows, rows <= depth, other=0)
            )
        choices = won.to(tl.int32)  # the lower half
    length = tl.load(seed_and_length + 1)
    if RULE >= _REJECTION:
        accept = tl.full([], _ACCEPT, tl.uint64)
        coins = uniform(noise_key(tl.load(seed_and_length), accept, _place_in_draft(length, rows)))
    if RULE == _BLOCK_RULE:  # the prefix up to node i has its scale and residual in row i + 1
        scale = tl.load(scales + rows + 1, nodes, other=1.0)
        rest = (
            tl.load(residual_mass + rows + 1, rows + 1 < depth, other=0).to(tl.float64) / _MASS_ONE
        )
        lost = rest + 1.0 - scale
        chances = tl.where(lost > 0, rest / tl.where(lost > 0, lost, 1.0), 1.0)
        chances = tl.where(rows == depth - 1, scale, chances)
        count = tl.max(tl.where(nodes & (coins < chances), rows + 1, 0), 0)
    elif not TREE:
        if RULE == _REJECTION:
            accepted = coins < _next_scale(tl.full([_ROWS], 1.0, tl.float64), p, q)
        else:
            accepted = choices == chain
        count = tl.min(tl.where(nodes & accepted, _ROWS, rows), 0)
    path = rows  # the accepted nodes come first, from the root down
    if TREE:
        count, last = 0, 0  # how many, and the row of the last
        for step in range(0, depth):
            choice = tl.sum(tl.where(rows == last, choices, 0), 0)
            fits = nodes & (before == last) & (chain == choice)
            node = tl.min(tl.where(fits, rows, _ROWS), 0)
            path = tl.where((rows == step) & (node < _ROWS), node, path)
            count += (node < _ROWS).to(tl.int32)
            last = tl.where(node < _ROWS, node + 1, last)  # if none fits, none will
        tl.store(accepted_rows + rows + 1, path + 1, rows < _ROWS - 1)
    else:
        last = count
    ending, used = rows == count, rows <= count
    following = tl.sum(tl.where(rows == last, choices, 0), 0)
    emitted = tl.where(ending, following, tl.load(drafted + path, rows < count, other=0))
    largest = tl.load(
        max_logits + tl.where(ending, 0, path + 1), used, other=0.0
    )  # the root's last
    broken = tl.max(((largest == float("inf")) | (largest != largest)).to(tl.int32), 0)
    empty = tl.max((largest == float("-inf")).to(tl.int32), 0)
    following_p = tl.load(p_rows + last * vocabulary + following)
    tl.store(out, tl.where(broken != 0, _NOT_FINITE, empty * _NOTHING_ALLOWED))
    tl.store(out + 1, count)
    tl.store(out + 2, following_p.to(tl.int32, bitcast=True))
    tl.store(out + _TOKENS + rows, tl.where(used, emitted, -1))
    tl.store(out + _P + rows, p.to(tl.int32, bitcast=True))
    tl.store(out + _Q + rows, q.to(tl.int32, bitcast=True))
    tl.store(out + _CHAIN + rows, chain)
    tl.store(out + _PARENTS + rows, before - 1)
    tl.store(seed_and_length + 1, length + count + 1)
    # An unseen token is 0, so its first occurrence counts twice.
    tl.atomic_max(token_counts + emitted, 1, used)
    tl.atomic_add(token_counts + emitted, 1, used)


def empty_result(device: torch.device | str) -> Tensor:
    """Return memory for a round's result: int32, which one copy brings to the host."""
    return torch.zeros(
        RESULT_SIZE + 2 * MAX_ROWS * MAX_TOP_LOGPROBS, dtype=torch.int32, device=device
    )


def verify(
    p: Tensor, q: Tensor | None, state: SamplingState, out: Tensor, *, rule: Rule, depth: int,
    tree: bool = False,
) -> None:  # fmt: skip
    """Verify the first ``depth`` drafted tokens by ``p``, the last that ``compute_distribution`` wrote.

    ``q``: what they were drawn from, which ``rejection`` and ``block`` weigh; None for a deterministic
    draft. ``tree``: they form that of ``state``, not a chain, and ``q`` has a row for each depth. Write
    ``out`` for ``read_result``; advance ``state`` by the emitted tokens.
    """
    assert not tree or rule < Rule.REJECTION
    if rule is not Rule.GREEDY:
        _race_rows(p, q, state, rule, Stream.CHOICE, depth, 0, tree)
    accept_kernel[(1,)](
        p.shape[1], depth, state.seed_and_length, state.drafted, state.token_counts, p,
        p if q is None else q, state.max_logits, state.argmax, state.winners, state.residual_mass,
        state.scales, out, state.tree, state.accepted_rows,
        RULE=int(rule), HAS_Q=q is not None, TREE=tree, num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip


def draft(q: Tensor, state: SamplingState, *, rule: Rule, index: int) -> None:
    """Draw the chain's token ``index`` from row 0 of ``q``, and store it in ``state``.

    ``greedy`` needs no ``q``. The noise is the target's under ``coupled``, the draft's own under
    ``rejection`` and ``block``.
    """
    token = state.argmax[:1]
    if rule is not Rule.GREEDY:
        stream = Stream.CHOICE if rule is Rule.COUPLED else Stream.DRAFT
        _race_rows(q, None, state, Rule.COUPLED, stream, 0, index)
        token = state.winners.view(torch.int32)[0, :1]  # the lower half
    state.drafted[index : index + 1].copy_(token)


def _race_rows(
    p: Tensor, q: Tensor | None, state: SamplingState, rule: Rule, stream: Stream, depth: int, first: int,
    tree: bool = False,
) -> None:  # fmt: skip
    vocabulary = p.shape[1]
    state.winners.fill_(NEVER)
    if rule is Rule.BLOCK:
        state.residual_mass.zero_()
    race_kernel[(depth + 1, triton.cdiv(vocabulary, TILE))](
        vocabulary, depth, first, state.seed_and_length, state.drafted, p, p if q is None else q,
        state.winners, state.residual_mass, state.scales, state.tree,
        RULE=int(rule), STREAM=int(stream), HAS_Q=q is not None, TREE=tree,
        num_warps=WARPS, enable_fp_fusion=False,
    )  # fmt: skip


def write_top(p: Tensor, out: Tensor) -> None:
    """Write the most likely tokens of each row of ``p``, as many as any request may ask for."""
    rows = len(p)
    chances, tokens = p.topk(min(MAX_TOP_LOGPROBS, p.shape[1]))
    for part, values in zip(_top(out), (tokens, chances.view(torch.int32)), strict=True):
        part[:rows, : values.shape[1]].copy_(values)


def _top(result: Tensor) -> Tensor:
    """Return the tokens and the bits of their probabilities: (2, rows, count), a view."""
    return result[RESULT_SIZE:].view(2, MAX_ROWS, MAX_TOP_LOGPROBS)


def _top_tokens(result: Tensor, row: int, count: int) -> TopTokens:
    tokens, chances = _top(result)[:, row, :count]
    pairs = zip(tokens.tolist(), chances.view(torch.float32).tolist(), strict=True)
    return tuple((token, p) for token, p in pairs if p > 0)


def read_result(
    result: Tensor, depth: int, draft_s: float = 0.0, total_s: float = 0.0, top: int = 0
) -> RoundResult:
    """Read the host's copy of the device's result, with ``top`` tokens of each row.

    Raise ModelError for broken logits, and InvalidRequest if a grammar allows no token.
    """
    status, accepted = result[:2].tolist()
    if status == NOT_FINITE:
        raise ModelError(BROKEN_LOGITS)
    if status == NOTHING_ALLOWED:
        raise InvalidRequest("grammar", DEAD_END)
    values = result.view(torch.float32)
    drawn_from = values[Q_AT : Q_AT + depth].tolist()
    return RoundResult(
        accepted,
        tuple(result[TOKENS_AT : TOKENS_AT + accepted + 1].tolist()),
        tuple(result[CHAIN_AT : CHAIN_AT + depth].tolist()),
        tuple(result[PARENTS_AT : PARENTS_AT + depth].tolist()),
        tuple(values[P_AT : P_AT + depth].tolist()),
        tuple(None if math.isnan(q) else q for q in drawn_from),
        float(values[2]),
        draft_s,
        total_s,
        tuple(_top_tokens(result, row, top) for row in range(accepted + 1)) if top else (),
    )
