"""Verify a drafted chain on the device, or draw its next token; read the result on the host.

Both are launches of ``accept_kernel``: a draft step has no drafted tokens to verify.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from engine.errors import BROKEN_LOGITS, DEAD_END, InvalidRequest, ModelError
from engine.kernels.cuda.sampling.acceptance_kernel import (
    CHAIN_AT,
    NOT_FINITE,
    NOTHING_ALLOWED,
    P_AT,
    Q_AT,
    RESULT_SIZE,
    TOKENS_AT,
    Rule,
    accept_kernel,
)
from engine.kernels.cuda.sampling.state import TILE, Distribution, SamplingState, Scratch
from engine.noise import Stream
from engine.values import MAX_ROWS, MAX_TOP_LOGPROBS, RoundResult, TopTokens

TOP_SIZE = MAX_ROWS * MAX_TOP_LOGPROBS
WARPS = 8
REGISTERS = 160
"""Registers per thread. Without this limit the assembler spills a few bytes to use only 128 (9.0)."""


def empty_result(device: torch.device | str) -> Tensor:
    """Return memory for a round's result: int32, which one copy brings to the host."""
    return torch.zeros(RESULT_SIZE + 2 * TOP_SIZE, dtype=torch.int32, device=device)


def verify(
    p: Distribution,
    q: Distribution | None,
    state: SamplingState,
    scratch: Scratch,
    out: Tensor,
    *,
    rule: Rule,
    depth: int,
) -> None:
    """Verify the first ``depth`` drafted tokens by ``p``, the last that ``compute_distribution`` wrote.

    ``q``: the distributions they were drawn from, for ``rejection`` and ``block``; None for a
    deterministic draft. Write ``out`` for ``read_result``; advance ``state`` by the emitted
    tokens.
    """
    _launch(p, q, state, scratch, out, rule, Stream.CHOICE, depth, 0, False)


def draft(
    q: Distribution, state: SamplingState, scratch: Scratch, out: Tensor, *, rule: Rule, index: int
) -> None:
    """Draw the chain's token ``index`` from row 0 of ``q``, and store it in ``state``.

    The noise is the target's under ``coupled``, the draft's own under ``rejection`` and ``block``.
    """
    stream = Stream.DRAFT if rule >= Rule.REJECTION else Stream.CHOICE
    drawing = Rule.GREEDY if rule is Rule.GREEDY else Rule.COUPLED
    _launch(q, None, state, scratch, out, drawing, stream, 0, index, True)


def _launch(
    p: Distribution, q: Distribution | None, state: SamplingState, scratch: Scratch, out: Tensor,
    rule: Rule, stream: Stream, depth: int, first: int, drafting: bool,
) -> None:  # fmt: skip
    vocabulary = len(state.seen)
    tiles = triton.cdiv(vocabulary, TILE)
    draft = p if q is None else q
    accept_kernel[(1, 1) if rule is Rule.GREEDY else (depth + 1, tiles)](
        vocabulary, depth, first, state.numbers, state.drafted, state.seen,
        p.weights, p.threshold, p.mass, draft.weights, draft.threshold, draft.mass,
        scratch.tile_max, scratch.tile_argmax, scratch.times, scratch.winners, scratch.residuals,
        scratch.done, out,
        RULE=int(rule), STREAM=int(stream), HAS_Q=q is not None, DRAFTING=drafting,
        TILES=triton.next_power_of_2(tiles), num_warps=WARPS, maxnreg=REGISTERS,
        enable_fp_fusion=False,
    )  # fmt: skip


def write_top(p: Distribution, out: Tensor, rows: int) -> None:
    """Write the most likely tokens of ``p``'s first rows, as many as any request may ask for."""
    count = min(MAX_TOP_LOGPROBS, p.weights.shape[1])
    tokens, chances = p.top(rows, count)
    for part, values in zip(_top(out), (tokens.int(), chances.view(torch.int32)), strict=True):
        part[:rows, :count].copy_(values)


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
    return RoundResult(
        accepted,
        tuple(result[TOKENS_AT : TOKENS_AT + accepted + 1].tolist()),
        tuple(result[CHAIN_AT : CHAIN_AT + depth].tolist()),
        tuple(values[P_AT : P_AT + depth].tolist()),
        tuple(values[Q_AT : Q_AT + depth].tolist()),
        float(values[2]),
        draft_s,
        total_s,
        tuple(_top_tokens(result, row, top) for row in range(accepted + 1)) if top else (),
    )
