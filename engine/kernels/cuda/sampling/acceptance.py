"""Judging a drafted chain on the device, and drafting it: launches, and what the host reads.

A draft step is the same launch with nothing to judge: it draws one token and adds it to
the chain.
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
from engine.kernels.cuda.sampling.arithmetic import exponential_reference
from engine.kernels.cuda.sampling.state import BLOCK, Distribution, Scratch, State
from engine.noise import Stream
from engine.values import RoundResult

WARPS = 8
REGISTERS = 160
"""What a thread may have. Left to itself, the assembler spills a few bytes to get by with 128 (9.0)."""


def empty_result(device: torch.device | str) -> Tensor:
    """Where a round is written: int32 (80,), one copy to pinned memory."""
    return torch.zeros(RESULT_SIZE, dtype=torch.int32, device=device)


def judge(
    p: Distribution,
    q: Distribution | None,
    state: State,
    scratch: Scratch,
    out: Tensor,
    *,
    rule: Rule,
    depth: int,
) -> None:
    """Judges the first ``depth`` drafted tokens by ``p``, which ``distribute`` has written last.

    ``q``: what each was drawn from, for ``rejection`` and ``block``; None: drafted without chance.
    Writes ``out`` int32 (80,), for ``read_result``, and moves ``state`` on by what was emitted.
    """
    _launch(p, q, state, scratch, out, rule, Stream.CHOICE, depth, 0, False)


def draft(
    q: Distribution, state: State, scratch: Scratch, out: Tensor, *, rule: Rule, place: int
) -> None:
    """Draws the draft's token at ``place`` of the chain from row 0 of ``q``, and puts it there.

    Under ``coupled`` the draft has the target's noise, under ``rejection`` and ``block`` its own.
    """
    stream = Stream.DRAFT if rule >= Rule.REJECTION else Stream.CHOICE
    drawing = Rule.GREEDY if rule is Rule.GREEDY else Rule.COUPLED
    _launch(q, None, state, scratch, out, drawing, stream, 0, place, True)


def _launch(
    p: Distribution, q: Distribution | None, state: State, scratch: Scratch, out: Tensor,
    rule: Rule, stream: Stream, depth: int, first: int, drafting: bool,
) -> None:  # fmt: skip
    vocabulary = len(state.seen)
    blocks = triton.cdiv(vocabulary, BLOCK)
    draft = p if q is None else q
    accept_kernel[(1, 1) if rule is Rule.GREEDY else (depth + 1, blocks)](
        vocabulary, depth, first, state.numbers, state.drafted, state.seen,
        p.weights, p.threshold, p.mass, draft.weights, draft.threshold, draft.mass,
        scratch.peaks, scratch.peak_tokens, scratch.times, scratch.winners, scratch.residuals,
        scratch.done, out,
        RULE=int(rule), STREAM=int(stream), HAS_Q=q is not None, DRAFTING=drafting,
        BLOCKS=triton.next_power_of_2(blocks), num_warps=WARPS, maxnreg=REGISTERS,
        enable_fp_fusion=False,
    )  # fmt: skip


def read_result(
    result: Tensor, depth: int, draft_s: float = 0.0, total_s: float = 0.0
) -> RoundResult:
    """Return a round from a copy of the device's result on the host. Raises ModelError for broken logits,
    and InvalidRequest where a grammar allows no token."""
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
    )


def draw_reference(weights: Tensor, seed: int, stream: Stream, position: int) -> int:
    """The token the kernels draw from ``weights`` float32 (vocabulary,): the first clock to ring."""
    noise = exponential_reference(seed, stream, (position,), len(weights))[0]
    return int(torch.where(weights > 0, noise / weights, torch.inf).argmin())
